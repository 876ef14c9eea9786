//! What a study expects, and whether the measurements bear it out.
//!
//! A claim is a sentence: `"yarn < ntk at 8L"`, `"alibi, direct < rope, direct at 1024"`,
//! `"yarn = mrrope at 4L"`. Each side names an extension (`direct` unless given) and a label on each axis
//! that has several, separated by commas; `axis=label` tells two alike apart.
//!
//! With the loss `a` of the left side and `b` of the right, in nats per token and paired by seed and by
//! document, `a < b` with `tolerance = t` says that `a - b < t`: a little worse is still no worse. A
//! negative tolerance asks for a margin. `a = b` says that `-t < a - b < t`.
//!
//! A claim **holds** if the interval of `a - b` lies wholly where the claim says, **fails** if it lies
//! wholly elsewhere, and is **undecided** otherwise. All claims of a study are judged together: with `m`
//! of them, the one of the r-th smallest p value (from 0) has an interval of level
//! `1 - 0.05 / (m - r)`, and after the first undecided one all are (Holm's step-down), so that the chance
//! of one wrong verdict among all is at most 5%.

use crate::compare::Difference;
use crate::plan::Plan;
use crate::results::{Extensions, Measured, Results};
use crate::statistics::{Interval, holm};
use longwave_core::config::read;
use longwave_core::{Error, Result};
use longwave_eval::{Protocol, ResultRow, Split};
use serde::Deserialize;
use std::collections::HashSet;
use toml::Table;

/// The chance of a wrong verdict that all claims together may take.
pub const ALPHA: f64 = 0.05;

/// One `[[claim]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimConfig {
    /// The sentence.
    pub says: String,
    /// Nats per token by which the sides may differ the wrong way.
    pub tolerance: f64,
    /// The protocol of its rows; that of the first rows unless given.
    pub protocol: Option<Protocol>,
    /// The split of its rows; that of the first rows unless given.
    pub split: Option<Split>,
    /// Whether the error is over seeds or over documents; seeds where there are several unless given.
    pub over: Option<Over>,
    sentence: Sentence,
}

/// What the error of a difference is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Trainings with other seeds.
    Seeds,
    /// Other documents.
    Documents,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    says: String,
    #[serde(default)]
    tolerance: f64,
    protocol: Option<Protocol>,
    split: Option<Split>,
    over: Option<Over>,
}

/// A claim taken apart.
#[derive(Clone, Debug, PartialEq)]
struct Sentence {
    left: Vec<String>,
    relation: Relation,
    right: Vec<String>,
    length: Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    Same,
}

/// Where the sides are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    /// So many tokens.
    Tokens(usize),
    /// So many times the training length.
    Times(f64),
}

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The interval lies where the claim says.
    Holds,
    /// The interval lies elsewhere.
    Fails,
    /// The interval lies on both sides, or a claim with a smaller p value is undecided.
    Undecided,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
        }
    }
}

/// A claim with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The sentence.
    pub says: String,
    /// Its tolerance, in nats per token.
    pub tolerance: f64,
    /// The difference of its sides; `None` where a side was not measured.
    pub difference: Option<Difference>,
    /// The Holm-adjusted interval of the difference.
    pub interval: Option<Interval>,
    /// The level of that interval.
    pub level: f64,
    /// The p value after Holm's correction, against the nearest end of what is claimed.
    pub p: Option<f64>,
    /// How it stands.
    pub verdict: Verdict,
}

impl ClaimConfig {
    /// Reads one `[[claim]]`; `section` is its place in the file.
    ///
    /// # Errors
    /// A key, a value or the sentence is not allowed.
    pub(crate) fn read(table: &Table, section: &str) -> Result<Self> {
        let written: Written = read(table, section)?;
        let key = format!("{section}.says");
        let sentence = Sentence::parse(&written.says, &key)?;
        let same = sentence.relation == Relation::Same;
        if !written.tolerance.is_finite() || (same && written.tolerance <= 0.0) {
            let allowed = if same { "a claim with `=` needs one above 0" } else { "it must be a number" };
            return Err(Error::value(&format!("{section}.tolerance"), written.tolerance, allowed)
                .hint("it is in nats per token: 0.02 is 2% of perplexity"));
        }
        Ok(Self {
            says: written.says,
            tolerance: written.tolerance,
            protocol: written.protocol,
            split: written.split,
            over: written.over,
            sentence,
        })
    }

    /// Checks that every word of the claim means something in this plan.
    ///
    /// # Errors
    /// A word names no extension and no label, or an axis is left open.
    pub fn check(&self, plan: &Plan) -> Result<()> {
        self.check_among(plan, &Extensions::planned(plan).labels())
    }

    fn check_among(&self, plan: &Plan, extensions: &[String]) -> Result<()> {
        for side in [&self.sentence.left, &self.sentence.right] {
            Selector::new(side, plan, extensions, &self.says)?;
        }
        Ok(())
    }
}

impl Sentence {
    fn parse(text: &str, key: &str) -> Result<Self> {
        let wrong = |allowed: &str| {
            Error::value(key, format!("\"{text}\""), allowed)
                .hint("write a claim as \"yarn < ntk at 8L\" or \"alibi, direct < rope, ntk at 1024\"")
        };
        let (sides, length) = text.rsplit_once(" at ").ok_or_else(|| wrong("it has no ` at LENGTH`"))?;
        let length = Length::parse(length.trim()).ok_or_else(|| wrong("a length is `8L`, `L` or `1024`"))?;
        let split = [" < ", " > ", " = "].into_iter().find_map(|sign| Some((sides.split_once(sign)?, sign)));
        let ((left, right), sign) = split.ok_or_else(|| wrong("it has no ` < `, ` > ` or ` = `"))?;
        let words = |side: &str| side.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
        let (left, right) = if sign == " > " { (right, left) } else { (left, right) };
        let (left, right) = (words(left), words(right));
        if left.iter().chain(&right).any(String::is_empty) {
            return Err(wrong("each side names something"));
        }
        let relation = if sign == " = " { Relation::Same } else { Relation::Less };
        Ok(Self { left, relation, right, length })
    }
}

impl Length {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix('L') {
            Some("") => Some(Self::Times(1.0)),
            Some(times) => times.parse().ok().filter(|times: &f64| *times > 0.0).map(Self::Times),
            None => text.parse().ok().map(Self::Tokens),
        }
    }

    fn is(self, row: &ResultRow) -> bool {
        match self {
            Self::Tokens(tokens) => row.settings.length == tokens,
            Self::Times(times) => {
                let wanted = times * row.settings.train_length as f64;
                (row.settings.length as f64 - wanted).abs() < 1e-6
            }
        }
    }
}

/// Which rows one side means.
#[derive(Debug)]
struct Selector {
    extend: String,
    /// The label on each axis; `None` where the axis has one point.
    labels: Vec<Option<String>>,
}

impl Selector {
    fn new(words: &[String], plan: &Plan, extensions: &[String], says: &str) -> Result<Self> {
        let all = all_labels(plan);
        let mut extend: Option<String> = None;
        let mut labels: Vec<Option<String>> = vec![None; plan.axes.len()];
        for word in words {
            let wrong = |what: String| {
                let hint = format!("extensions are {}; labels are {}", few(extensions), few(&all.concat()));
                Error::usage(format!("claim \"{says}\": {what}")).hint(hint)
            };
            let places: Vec<usize> = all
                .iter()
                .enumerate()
                .filter(|(axis, known)| {
                    let named = word.strip_prefix(&format!("{}=", plan.axes[*axis]));
                    known.iter().any(|label| label == named.unwrap_or(word))
                })
                .map(|(axis, _)| axis)
                .collect();
            match (places.as_slice(), extensions.contains(word)) {
                ([], true) if extend.is_none() => extend = Some(word.clone()),
                ([axis], false) if labels[*axis].is_none() => {
                    let label = word.strip_prefix(&format!("{}=", plan.axes[*axis])).unwrap_or(word);
                    labels[*axis] = Some(label.to_owned());
                }
                ([], false) => return Err(wrong(format!("`{word}` is no extension and no label"))),
                ([], true) | ([_], false) => return Err(wrong(format!("`{word}` is one too many"))),
                _ => return Err(wrong(format!("`{word}` may mean two things; write `AXIS={word}`"))),
            }
        }
        for (axis, known) in all.iter().enumerate() {
            if labels[axis].is_none() && known.len() > 1 {
                return Err(Error::usage(format!(
                    "claim \"{says}\": `{}` leaves `{}` open",
                    words.join(", "),
                    plan.axes[axis]
                ))
                .hint(format!("add one of {}", few(known))));
            }
        }
        Ok(Self { extend: extend.unwrap_or_else(|| "direct".to_owned()), labels })
    }

    fn is(&self, measured: &Measured) -> bool {
        let labels = self.labels.iter().zip(&measured.labels);
        measured.extend == self.extend
            && labels.into_iter().all(|(wanted, label)| wanted.as_ref().is_none_or(|wanted| wanted == label))
    }
}

/// The first of many words, for a hint.
fn few(words: &[String]) -> String {
    const FEW: usize = 12;
    let more = if words.len() > FEW { ", .." } else { "" };
    format!("{}{more}", words[..words.len().min(FEW)].join(", "))
}

/// The labels of each axis, in order.
fn all_labels(plan: &Plan) -> Vec<Vec<String>> {
    (0..plan.axes.len())
        .map(|axis| {
            let mut seen = HashSet::new();
            let labels = plan.runs.iter().map(|run| &run.labels[axis]);
            labels.filter(|label| seen.insert(*label)).cloned().collect()
        })
        .collect()
}

/// Judges all claims of a study together.
///
/// # Errors
/// A word of a claim names nothing.
pub fn judge(claims: &[ClaimConfig], plan: &Plan, results: &Results) -> Result<Vec<Judged>> {
    let extensions = Extensions::planned(plan).labels();
    let extensions: Vec<String> =
        extensions.into_iter().chain(results.extensions().into_iter().map(str::to_owned)).collect();
    let evidence =
        claims.iter().map(|claim| evidence(claim, plan, results, &extensions)).collect::<Result<Vec<_>>>()?;
    let p: Vec<f64> = evidence
        .iter()
        .zip(claims)
        .map(|((_, interval), claim)| interval.map_or(f64::NAN, |interval| claim.p(interval)))
        .collect();
    let adjusted = holm::adjusted(&p);
    let mut judged: Vec<Judged> = claims
        .iter()
        .zip(evidence)
        .zip(p.iter().zip(adjusted))
        .map(|((claim, (difference, interval)), (p, adjusted))| Judged {
            says: claim.says.clone(),
            tolerance: claim.tolerance,
            difference,
            interval,
            level: 1.0 - ALPHA,
            p: (!p.is_nan()).then_some(adjusted),
            verdict: Verdict::Undecided,
        })
        .collect();
    let mut decided = true;
    for (rank, index) in holm::ranked(&p).into_iter().enumerate() {
        let level = holm::level_of_rank(ALPHA, rank, claims.len());
        let one = &mut judged[index];
        one.level = level;
        one.interval = one.interval.map(|interval| interval.at(level));
        if let (true, Some(interval)) = (decided, one.interval) {
            one.verdict = claims[index].verdict(interval);
        }
        decided &= one.verdict != Verdict::Undecided;
    }
    Ok(judged)
}

/// The difference of a claim's sides, and the interval that it is judged by.
fn evidence(
    claim: &ClaimConfig,
    plan: &Plan,
    results: &Results,
    extensions: &[String],
) -> Result<(Option<Difference>, Option<Interval>)> {
    let candidates: Vec<&Measured> = results
        .rows
        .iter()
        .filter(|measured| claim.sentence.length.is(&measured.row))
        .filter(|measured| claim.split.is_none_or(|split| measured.row.settings.split == split))
        .filter(|measured| claim.protocol.is_none_or(|it| measured.row.settings.protocol == it))
        .collect();
    // Without a word on it, the rows are those of the study's first kind.
    let first =
        candidates.first().map(|measured| (measured.row.settings.protocol, measured.row.settings.split));
    let side = |words: &[String]| -> Result<Vec<&ResultRow>> {
        let selector = Selector::new(words, plan, extensions, &claim.says)?;
        let rows = candidates.iter().filter(|measured| {
            let settings = &measured.row.settings;
            selector.is(measured) && first == Some((settings.protocol, settings.split))
        });
        Ok(rows.map(|measured| &measured.row).collect())
    };
    let (left, right) = (side(&claim.sentence.left)?, side(&claim.sentence.right)?);
    let difference = Difference::new(&left, &right, 1.0 - ALPHA);
    let interval = difference.as_ref().and_then(|difference| match claim.over {
        Some(Over::Seeds) => difference.by_seed,
        Some(Over::Documents) => difference.by_document,
        None => difference.interval(),
    });
    Ok((difference, interval))
}

impl ClaimConfig {
    /// Where an interval lies.
    fn verdict(&self, interval: Interval) -> Verdict {
        let Interval { low, high, .. } = interval;
        let t = self.tolerance;
        let (holds, fails) = match self.sentence.relation {
            Relation::Less => (high < t, low > t),
            Relation::Same => (-t < low && high < t, high < -t || t < low),
        };
        match (holds, fails) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::Fails,
            _ => Verdict::Undecided,
        }
    }

    /// The two-sided probability of a difference as far from what decides the claim: an interval of level
    /// `1 - alpha` decides it where this is below `alpha`.
    fn p(&self, interval: Interval) -> f64 {
        let t = self.tolerance;
        match self.sentence.relation {
            Relation::Less => interval.p_against(t),
            // Inside, both ends must be excluded; outside, the near one.
            Relation::Same if interval.mean.abs() <= t => interval.p_against(t).max(interval.p_against(-t)),
            Relation::Same => interval.p_against(t.copysign(interval.mean)),
        }
    }
}

#[cfg(test)]
mod tests;
