//! How a finding is written: a point of a chart, an entry of a table, a name above a column.

use crate::grid::Entry;
use crate::plot::{Point, Role, Series};
use longwave_eval::diagnostics::{Diagnostic, Finding};

pub(super) fn line<'a>(
    name: String,
    style: usize,
    points: impl Iterator<Item = (f64, &'a Finding)>,
) -> Series {
    let point = |(x, it): (f64, &Finding)| {
        let factor = if it.diagnostic.is_share() { 100.0 } else { 1.0 };
        let (y, se) = (factor * it.value, it.se.map(|se| factor * se));
        Point { x, y, bar: se.map(|se| (y - se, y + se)) }
    };
    Series { name, points: points.map(point).collect(), style, role: Role::Method }
}

/// A value with its error to the same decimal place; shares in per cent.
pub(super) fn entry(finding: &Finding) -> Entry {
    let (factor, decimals) = match finding.diagnostic.unit() {
        "share" => (100.0, 1),
        "keys" | "tokens" | "directions" | "band" => (1.0, 1),
        "R^2" => (1.0, 2),
        _ => (1.0, 3),
    };
    let shown = |value: f64| format!("{:.decimals$}", factor * value);
    Entry { error: finding.se.map(shown), ..Entry::new(shown(finding.value)) }
}

pub(super) fn short(diagnostic: Diagnostic) -> String {
    match diagnostic {
        Diagnostic::UnseenAngles => "unseen angles %",
        Diagnostic::FirstToken => "first token %",
        Diagnostic::BeyondLength => "beyond L %",
        Diagnostic::Entropy => "entropy / ln N",
        Diagnostic::EffectiveKeys => "keys in effect",
        Diagnostic::StableRank => "stable rank",
        Diagnostic::PreferredBand => "preferred band",
        Diagnostic::KeyNorm => "key norm",
        Diagnostic::QueryNorm => "query norm",
        Diagnostic::BandShare => "% of logits",
        other => other.title(),
    }
    .to_owned()
}

pub(super) fn definition(diagnostic: Diagnostic) -> String {
    format!("{}: {} ({})", diagnostic.title(), diagnostic.definition(), diagnostic.source())
}
