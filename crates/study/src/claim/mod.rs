//! What a study expects: a claim, as the study file states it.
//!
//! A claim is a sentence: `"yarn < ntk at 8L"`, `"alibi, direct < rope, direct at 1024"`,
//! `"yarn = mrrope at 4L"`. Each side names an extension (`direct` unless given) and a label on each axis
//! with several, separated by commas. `axis=label` distinguishes two equal labels. The length is in tokens or a multiple
//! of the training length, as everywhere. The left side may have a length of its own, `"alibi at 16L < alibi at L"`, and
//! each side a step whose checkpoint was kept, `"rope, step=300 < rope at 8L"`.
//!
//! Let `a` be the loss of the left side and `b` that of the right, in nats per token, paired by seed and by
//! document. `a < b` with `tolerance = t` means `a - b < t`: a little worse is still no worse. `a > b` means
//! `a - b > -t`, and `a = b` means `-t < a - b < t`.
//!
//! `metric` names another measure than the loss. The sentence is then about its values, so that more of
//! `accuracy` or `exact_match` is better: `"yarn > ntk at 8L"`. The tolerance is in the unit of the metric.
//!
//! [`judge`](crate::judge) decides claims by measurements.

mod sentence;

use crate::axis::{Axis, Point};
use crate::difference::Over;
use crate::schema::pointed;
use longwave_core::config::read;
use longwave_core::{Error, Result, written};
use longwave_eval::{Metric, Protocol, ScoredTokens, Split};
use serde::Deserialize;
use std::fmt::Write as _;
use toml::Table;

pub(crate) use sentence::{Relation, Sentence, Words};

/// One `[[claim]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimConfig {
    pub says: String,
    pub metric: Metric,
    /// By how much the sides may differ the wrong way, in the unit of the metric.
    pub tolerance: f64,
    /// The protocol of its rows; that of the first rows unless given.
    pub protocol: Option<Protocol>,
    /// The split of its rows; that of the first rows unless given.
    pub split: Option<Split>,
    /// Which of the protocol's tokens its rows score; those of the first rows unless given.
    pub tokens: Option<ScoredTokens>,
    /// What the error is over; what those of all claims are over unless given.
    pub over: Option<Over>,
    /// Its key in the file, such as `claim[0].says`.
    pub(crate) key: String,
    pub(crate) sentence: Sentence,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    says: String,
    #[serde(default)]
    metric: Metric,
    #[serde(default)]
    tolerance: f64,
    protocol: Option<Protocol>,
    split: Option<Split>,
    tokens: Option<ScoredTokens>,
    over: Option<Over>,
}

impl ClaimConfig {
    /// Reads one `[[claim]]`; `section` is its place in the file.
    pub(crate) fn read(table: &Table, section: &str) -> Result<Self> {
        let Written { says, metric, tolerance, protocol, split, tokens, over } =
            read(table, section).map_err(pointed)?;
        let key = format!("{section}.says");
        let sentence = Sentence::parse(&says, &key)?;
        let same = sentence.relation == Relation::Same;
        let wrong = if !tolerance.is_finite() {
            Some("it must be a number")
        } else if tolerance < 0.0 {
            Some("it must be 0 or more")
        } else if same && tolerance <= 0.0 {
            Some("a claim with `=` needs one above 0")
        } else if metric.is_share() && tolerance.abs() >= 1.0 {
            Some("the metric goes from 0 to 1")
        } else {
            None
        };
        if let Some(allowed) = wrong {
            let hint = if metric.is_share() {
                "it is a share: 0.02 means two percentage points".to_owned()
            } else {
                format!("it is in {}, as in `tolerance = 0.02`", metric.unit())
            };
            return Err(Error::value(&format!("{section}.tolerance"), tolerance, allowed).hint(hint));
        }
        Ok(Self { says, metric, tolerance, protocol, split, tokens, over, key, sentence })
    }

    pub(crate) fn wrong(&self, why: String) -> Error {
        Error::value(&self.key, format!("\"{}\"", self.says), why)
    }

    /// What the claim states, for telling whether it was changed: its words, and what the points of axes that they name change.
    pub(crate) fn identity(&self, axes: &[Axis]) -> Result<String> {
        let Self { says, metric, tolerance, protocol, split, tokens, over, .. } = self;
        let rows = format!("protocol {protocol:?}, split {split:?}, tokens {tokens:?}, over {over:?}");
        let mut identity = format!("{says}; {}, tolerance {tolerance}, {rows}", metric.name());
        let points = || axes.iter().flat_map(|axis| axis.points.iter().map(move |point| (axis, point)));
        let words = [&self.sentence.left, &self.sentence.right].map(|side| &side.words);
        for word in words.into_iter().flatten() {
            let is_named = |(axis, point): &(&Axis, &Point)| {
                *word == point.label || *word == format!("{}={}", axis.name, point.label)
            };
            for (_, point) in points().filter(is_named) {
                let changes = written::json("the point of an axis", &point.changes)?;
                let _ = write!(identity, "; {word} is {changes}");
            }
        }
        Ok(identity)
    }

    /// Whether rows of this protocol and split, and of these tokens, are meant.
    pub(crate) fn is_about(&self, protocol: Protocol, split: Split, tokens: ScoredTokens) -> bool {
        self.protocol.is_none_or(|it| it == protocol)
            && self.split.is_none_or(|it| it == split)
            && self.tokens.is_none_or(|it| it == tokens)
    }
}
