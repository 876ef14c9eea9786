//! Rank correlations as a table.

use crate::prediction::{Correlated, Estimate};
use longwave_eval::Metric;
use longwave_report::grid::{Entry, Grid, Header};

/// How well each metric predicts another, and which of two does so better.
pub(super) fn table(found: &Correlated) -> Grid {
    let with = found.correlation.with.name();
    let row = |name: String, estimate: &Estimate, verdict: String| {
        let interval = estimate
            .interval
            .map_or_else(|| "–".to_owned(), |(low, high)| format!("{low:+.2} to {high:+.2}"));
        let value = Entry::new(format!("{:+.2}", estimate.value));
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
            Header::number("bootstrap 95%"),
            Header::words("verdict"),
        ],
        rows: single.chain(pairs).collect(),
        notes: vec![
            "Intervals are over seeds: what other trainings of these models would give, and nothing about other models.".to_owned(),
        ],
    }
}

fn one(estimate: &Estimate) -> &'static str {
    match estimate.interval {
        Some((low, _)) if low > 0.0 => "rises with it",
        Some((_, high)) if high < 0.0 => "falls with it",
        Some(_) => "undecided",
        None => "",
    }
}

fn better(a: Metric, b: Metric, estimate: &Estimate) -> String {
    match estimate.interval {
        Some((low, _)) if low > 0.0 => format!("`{}` predicts better", a.name()),
        Some((_, high)) if high < 0.0 => format!("`{}` predicts better", b.name()),
        Some(_) => "undecided".to_owned(),
        None => String::new(),
    }
}
