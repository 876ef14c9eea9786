//! Rank correlations as a table.

use crate::prediction::{Correlated, Estimate, LEAST_POINTS};
use longwave_eval::Metric;
use longwave_report::grid::{Entry, Grid, Header};

/// How well each metric predicts another, and which of two does so better.
pub(super) fn table(found: &Correlated) -> Grid {
    let with = found.correlation.with.name();
    let row = |name: String, estimate: &Estimate, verdict: String| {
        let interval = estimate.interval.map_or_else(
            || "–".to_owned(),
            |it| {
                format!(
                    "{:+.2} to {:+.2} ({:.2}%)",
                    it.low.max(-1.0),
                    it.high.min(1.0),
                    100.0 * estimate.level
                )
            },
        );
        let value = estimate.value;
        let value = Entry::new(if value.is_finite() { format!("{value:+.2}") } else { "–".to_owned() });
        vec![
            Entry::new(name),
            value,
            Entry::new(interval),
            Entry { strong: !verdict.is_empty(), ..Entry::new(verdict) },
        ]
    };
    let single = found
        .of
        .iter()
        .map(|(metric, estimate)| row(format!("`{}`", metric.name()), estimate, one(estimate).to_owned()));
    let pairs = found.pairs.iter().map(|(a, b, estimate)| {
        row(format!("|`{}`| less |`{}`|", a.name(), b.name()), estimate, better(*a, *b, estimate))
    });
    Grid {
        title: format!("What predicts `{with}` past L"),
        setting: format!(
            "Spearman's rank correlation over {} readings of {} runs above L: the change since L of the metric, and of `{with}`",
            found.points, found.runs
        ),
        headers: vec![
            Header::words("metric"),
            Header::number("rank correlation"),
            Header::number("adjusted interval"),
            Header::words("verdict"),
        ],
        rows: single.chain(pairs).collect(),
        notes: vec![if found.of.iter().any(|(_, it)| it.interval.is_some()) {
            "Intervals are over seeds (jackknife, Student's t, at the level of Holm's procedure for all lines): what other trainings of \
             these models would give, and nothing about other models."
                .to_owned()
        } else {
            format!(
                "There is no interval over seeds: it takes two seeds, {LEAST_POINTS} readings without any one of them that have all these metrics \
                 at L and above, and a metric that is not always the same."
            )
        }],
    }
}

fn one(estimate: &Estimate) -> &'static str {
    match estimate.interval {
        Some(it) if it.low > 0.0 => "rises with it",
        Some(it) if it.high < 0.0 => "falls with it",
        Some(_) => "undecided",
        None => "",
    }
}

fn better(a: Metric, b: Metric, estimate: &Estimate) -> String {
    match estimate.interval {
        Some(it) if it.low > 0.0 => format!("`{}` predicts better", a.name()),
        Some(it) if it.high < 0.0 => format!("`{}` predicts better", b.name()),
        Some(_) => "undecided".to_owned(),
        None => String::new(),
    }
}
