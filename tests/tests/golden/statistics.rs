//! Kind `statistics`: t intervals, paired differences and Holm's correction.

use crate::file::Case;
use longwave_study::statistics::{Interval, adjusted, mean_interval, ratio_interval, standard_deviation};

/// Checks one case of a file; its inputs tell which statistic it is of.
pub fn check(name: &str, case: &Case) {
    let input = |name: &str| case.input(name).data;
    if case.has_input("p") {
        holm(case);
    } else if case.has_input("x") {
        let x = input("x");
        interval(case, mean_interval(&x, case.f64("level")).unwrap(), &x);
    } else if case.has_input("a") {
        let (a, b, level) = (input("a"), input("b"), case.f64("level"));
        assert_eq!(a.len(), b.len(), "{name}");
        let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        let found = if case.has_input("tokens") {
            let tokens: Vec<u64> = input("tokens").iter().map(|&tokens| tokens as u64).collect();
            ratio_interval(&differences, &tokens, level)
        } else {
            mean_interval(&differences, level)
        };
        interval(case, found.unwrap(), &differences);
    } else {
        panic!("{name} is no statistic we know");
    }
}

fn holm(case: &Case) {
    let found = adjusted(&case.input("p").data);
    let alpha = case.f64("alpha");
    let rejected: Vec<f64> = found.iter().map(|p| f64::from(u8::from(*p <= alpha))).collect();
    let mut outputs = case.outputs();
    outputs.compare_f64("adjusted", &found);
    outputs.compare_f64("rejected", &rejected);
    outputs.done();
}

fn interval(case: &Case, found: Interval, numbers: &[f64]) {
    let mut outputs = case.outputs();
    if outputs.has("sd") {
        outputs.compare_f64("sd", &[standard_deviation(numbers).unwrap()]);
    }
    let Interval { mean, se, df, low, high } = found;
    let (t, p) = (mean / se, found.p_against(0.0));
    for (name, value) in
        [("mean", mean), ("se", se), ("df", df), ("t", t), ("p", p), ("low", low), ("high", high)]
    {
        outputs.compare_f64(name, &[value]);
    }
    outputs.done();
}
