//! Reading and evaluating formulas.

use super::*;
use burn::tensor::{Device, Tensor};

fn number(text: &str) -> f64 {
    parse::parse(text).unwrap().number(&|name| if name == "n" { 3.0 } else { 0.5 })
}

#[test]
fn operations_bind_as_usual() {
    for (text, expected) in [
        ("1 + 2*3 - 4/2", 5.0),
        ("-2^2", -4.0),
        ("2^3^2", 512.0),
        ("2^-1 * 4", 2.0),
        ("(1 + 2)*-3", -9.0),
        ("2e-1 + 1.5E1", 15.2),
        ("2*e - e*2", 0.0),
        ("log(e) + ln(exp(2)) + log2(8)", 6.0),
        ("clamp(n, 0, 1) + min(n, 2) + max(n, 4) + pow(n, 2)", 16.0),
        ("softplus(0) - log(2) + sigmoid(0) + tanh(0)", 0.5),
        ("sqrt(n + 1) + abs(-n) + floor(2.7) + ceil(2.1) + round(2.5)", 13.0),
        ("cos(pi) + sin(0) + log1p(0)", -1.0),
    ] {
        assert!((number(text) - expected).abs() < 1e-12, "{text}: {}", number(text));
    }
}

#[test]
fn what_is_wrong_is_named_with_its_character() {
    for (text, expected) in [
        ("", "character 1: it ends where"),
        ("1 + ", "character 5: it ends where"),
        ("2 * )", "character 5: a number, a name or `(` must stand here, not `)`"),
        ("2 n", "character 3: an operation is missing before `n`"),
        ("(n", "character 3: `)` is missing"),
        ("n)", "character 2: `)` without its `(`"),
        ("logp(n)", "character 1: `logp` is no function; there are `exp`"),
        ("1 + clamp(n, 1)", "character 5: `clamp` takes 3 arguments, not 2"),
        ("exp(n, 2)", "character 1: `exp` takes 1 argument, not 2"),
        ("1.2.3", "character 1: `1.2.3` is no number"),
        ("n § 2", "character 3: an operation is missing before `§`"),
    ] {
        let error = parse::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let deep = "(".repeat(100_000);
    assert!(parse::parse(&deep).unwrap_err().what.contains("at most 1000 characters"));
    assert!(parse::parse(&deep[..500]).unwrap_err().what.contains("more than 64 deep"));
    assert!(parse::parse(&"-".repeat(900)).unwrap_err().what.contains("more than 64 deep"));
}

#[test]
fn unknown_names_list_the_known_ones() {
    let error = Formula::read("position.bias", "-slop * n", &["n", "slope"]).unwrap_err();
    assert!(error.message().contains("`slop` is not known here"), "{error}");
    let hint = error.hint_text().unwrap();
    assert_eq!(hint, "did you mean `slope`? names that may stand here are `n`, `slope`");
}

#[test]
fn a_multiple_is_recognised() {
    let slope = |text: &str| {
        let formula = parse::parse(text).unwrap().multiple_of("n")?;
        assert!(!formula.has("n"));
        Some(formula.number(&|_| 2.0))
    };
    assert_eq!(slope("-2^(-head) * n"), Some(-0.25));
    assert_eq!(slope("-(n * 3)/a + 2*n"), Some(0.5));
    for text in ["n + 1", "n*n", "log(n)", "a/n", "a"] {
        assert_eq!(slope(text), None, "{text}");
    }
}

#[test]
fn tensors_and_numbers_agree_in_value_and_slope() {
    let device = Device::flex().autodiff();
    let distances = [0.0, 1.0, 2.5, 70.0];
    for text in [
        "-softplus(a) * log1p(softplus(b) * n)",
        "-a^2 * n^b / (1 + n)",
        "sigmoid(a*n) - tanh(b*n) + exp(-a*n) * cos(b*n) + sin(a)",
        "min(a*n, 2) + max(b*n, 1) + clamp(a*n, 0.1, 5) + abs(b - 1) + sqrt(a + n)",
        "(a + b)^(b + n/70) + log2(a) + log(b) - head * a / (b + n)",
        // A learned base that is 0 at distance 0.
        "(a*n)^b + sqrt(b*n) + (a*n)^0.5 + (b*n)^1.5",
        // One that is 0 in a whole head, or everywhere, as a layer's number makes it.
        "sqrt(a*(head - 1))*n + (b*0)^0.5 + sqrt((head - 1)/b) + exp(0.5*log(a*n)) + sqrt(a*b*n)",
    ] {
        let formula = parse::parse(text).unwrap();
        let learned = [[0.3, 0.7], [1.2, 0.45]].map(|x| {
            Tensor::<1>::from_floats(x, &device).unsqueeze_dim::<2>(1).require_grad() // [heads, 1]
        });
        let of = |name: &str| match name {
            "a" => Value::Learned(learned[0].clone()),
            "b" => Value::Learned(learned[1].clone()),
            "head" => Value::by_head(vec![1.0, 2.0]),
            _ => Value::by_distance(distances.to_vec()),
        };
        let found = formula.value(&of, &device).tensor([2, 4], &device);
        let gradients = found.clone().sum().backward();
        let slopes: Vec<Vec<f32>> =
            learned.iter().map(|x| x.grad(&gradients).unwrap().into_data().try_to_vec().unwrap()).collect();
        let found: Vec<f32> = found.into_data().try_to_vec().unwrap();
        for head in 0..2 {
            let at = |n: f64, a: f64, b: f64| {
                formula.number(&|name| match name {
                    "a" => a,
                    "b" => b,
                    "head" => head as f64 + 1.0,
                    _ => n,
                })
            };
            let (a, b) = ([0.3, 0.7][head], [1.2, 0.45][head]);
            for (index, &n) in distances.iter().enumerate() {
                let (expected, found) = (at(n, a, b), f64::from(found[head * 4 + index]));
                assert!(
                    (expected - found).abs() < 1e-5 * (1.0 + expected.abs()),
                    "{text}: {expected} {found}"
                );
            }
            let sum = |a: f64, b: f64| distances.iter().map(|&n| at(n, a, b)).sum::<f64>();
            let by_a = (sum(a + 1e-6, b) - sum(a - 1e-6, b)) / 2e-6;
            let by_b = (sum(a, b + 1e-6) - sum(a, b - 1e-6)) / 2e-6;
            for (expected, found) in [(by_a, slopes[0][head]), (by_b, slopes[1][head])] {
                let off = (expected - f64::from(found)).abs();
                assert!(off < 1e-4 * (1.0 + expected.abs()), "{text}: slope {expected}, {found}");
            }
        }
    }
}

/// Powers as IEEE 754 has them, with the slope of the exponent where the base is above 0.
#[test]
fn a_learned_exponent_takes_zero_as_a_number_does() {
    let device = Device::flex().autodiff();
    for (exponent, of_zero) in [(0.5, 0.0), (0.0, 1.0), (-1.0, f32::INFINITY)] {
        let a = Tensor::<2>::from_floats([[exponent]], &device).require_grad();
        let of = |name: &str| match name {
            "a" => Value::Learned(a.clone()),
            _ => Value::by_distance(vec![0.0, 1.0, 4.0]),
        };
        let found = parse::parse("n^a").unwrap().value(&of, &device).tensor([1, 3], &device);
        let slope = a.grad(&found.clone().sum().backward()).unwrap().into_scalar::<f32>();
        let found: Vec<f32> = found.into_data().try_to_vec().unwrap();
        assert_eq!(found[0].to_bits(), of_zero.to_bits(), "{exponent}: {found:?}");
        let of_four = 2f32.powf(2.0 * exponent);
        assert!((found[1] - 1.0).abs() + (found[2] - of_four).abs() < 1e-5, "{exponent}: {found:?}");
        assert!((slope - of_four * 4f32.ln()).abs() < 1e-5, "{exponent}: {slope}");
    }
}

/// 0^0, 0^0.5, 0^1 and 0^2: of their slopes at 0, only that of the third is a number above 0.
#[test]
fn a_learned_base_takes_zero_as_a_number_does() {
    let device = Device::flex().autodiff();
    for (power, learned) in [("a^n", false), ("a^(b*n)", true)] {
        let [a, b] = [0.0, 1.0].map(|x| Tensor::<2>::from_floats([[x]], &device).require_grad());
        let of = |name: &str| match name {
            "a" => Value::Learned(a.clone()),
            "b" => Value::Learned(b.clone()),
            _ => Value::by_distance(vec![0.0, 0.5, 1.0, 2.0]),
        };
        let found = parse::parse(power).unwrap().value(&of, &device).tensor([1, 4], &device);
        let gradients = found.clone().sum().backward();
        assert_eq!(found.into_data().try_to_vec::<f32>().unwrap(), [1.0, 0.0, 0.0, 0.0], "{power}");
        assert_eq!(a.grad(&gradients).unwrap().into_scalar::<f32>(), 1.0, "{power}");
        if learned {
            assert_eq!(b.grad(&gradients).unwrap().into_scalar::<f32>(), 0.0);
        }
    }
}

#[test]
fn what_is_no_number_stays_so() {
    let device = Device::flex();
    let of = |name: &str| match name {
        "a" => Value::Learned(Tensor::<2>::from_floats([[-1.0]], &device)),
        _ => Value::by_distance(vec![0.0, 3.0]),
    };
    for text in
        ["min(log(a), n)", "max(n, log(a))", "clamp(log(a), 0, 1)", "(n - 4)^a", "sqrt(a) + n", "a^0.5 + n"]
    {
        let found = parse::parse(text).unwrap().value(&of, &device).tensor([1, 2], &device);
        let found: Vec<f32> = found.into_data().try_to_vec().unwrap();
        assert!(found.iter().all(|number| number.is_nan()), "{text}: {found:?}");
    }
}
