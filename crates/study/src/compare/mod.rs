//! Two sides compared wherever they were measured alike: two runs, two readings of one run, or several seeds of each.
//!
//! Rows are paired by what tells measurements apart: protocol, split, text, lengths, checkpoint and extension. Where both
//! sides name an extension, those two readings are compared instead of equal ones. Seeds are paired by their number, and
//! documents within a seed.

mod found;
mod names;
mod obstacle;
mod side;

pub use side::{Filter, Side};

use crate::difference::{Over, PairedDifference};
use crate::extensions::Extension;
use crate::sample::Sample;
use crate::statistics::adjusted;
use found::Found;
use longwave_core::Result;
use longwave_eval::{Metric, Reference, Settings};
use serde::Serialize;
use serde_json::Value;
use side::Reading;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

const LEVEL: f64 = 0.95;

/// One measurement that both sides have, and the difference of what they say.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Kind of the extension that the first side was read with.
    pub extend: String,
    pub extend_config: Value,
    /// Kind of the extension that the second side was read with.
    pub other_extend: String,
    pub other_extend_config: Value,
    #[serde(skip)]
    extensions: [Extension; 2],
    /// The two extensions in a word each, or one if they are the same, told apart by keys that differ in the list. In parentheses what
    /// else tells it from others of the list: protocol, split, checkpoint and the like.
    pub reading: String,
    pub checkpoint: String,
    pub other_checkpoint: String,
    /// Protocol, split and lengths.
    #[serde(flatten)]
    pub settings: Settings,
    pub metric: Metric,
    pub value: f64,
    pub other_value: f64,
    /// Perplexity of the first side: exp of its loss, of several seeds of their mean loss.
    pub ppl: f64,
    pub other_ppl: f64,
    pub difference: f64,
    /// Standard error of the difference over what was paired; absent for fewer than two of it.
    pub se: Option<f64>,
    /// What `se`, `interval` and `p` are over, the same for the whole list: seeds where a side has several, or else documents;
    /// both where the sides have several seeds and did not score the same bytes.
    pub over: Over,
    /// Ends of the 95% interval of Student's t; absent where fewer than two of what it is over are paired.
    pub interval: Option<(f64, f64)>,
    /// Ends of the 95% bootstrap interval.
    pub bootstrap: Option<(f64, f64)>,
    /// Two-sided probability under no difference.
    pub p: Option<f64>,
    /// `p` after Holm's correction for all different comparisons of the list.
    pub p_holm: Option<f64>,
    /// Whether an earlier comparison of the list is the same by construction, to the last number of each document, so that Holm's correction
    /// counts them once: at L every extension reads as trained, and the window baseline reads the same tokens at every length.
    pub repeats: bool,
    /// What was measured of each side, hashed.
    #[serde(skip)]
    measured: [u64; 2],
    /// Whether both sides scored the same tokens; bits per byte may be compared where they did not.
    pub same_tokens: bool,
    /// Scored bytes of text of each side, in one seed.
    pub bytes: [u64; 2],
    /// What stands for documents: `document`, `sequence` or `block`.
    pub unit: &'static str,
    /// Paired documents, or what stands for them.
    pub documents: usize,
    /// Whether a side has more documents than its row keeps the sums of.
    #[serde(skip)]
    keeps_no_sums: bool,
    pub seeds: usize,
}

#[derive(Clone, Debug)]
pub struct Comparisons {
    pub list: Vec<Comparison>,
    /// What was left out, and by which key.
    pub notes: Vec<String>,
}

/// Compares two sides wherever both hold the same measurement.
///
/// Seeds are paired by their number; with one run on each side they are taken as a pair whatever they are, and documents
/// give the error.
pub fn compare(a: &Side, b: &Side, filter: &Filter, metric: Metric) -> Result<Comparisons> {
    let pairing = Pairing::new(a, b);
    let (left, right) = (pairing.readings(a, filter)?, pairing.readings(b, filter)?);
    let several = [a, b].iter().any(|side| side.runs.len() > 1);
    let mut found = Found::default();
    for reading in &left {
        let mut partners: Vec<&Reading<'_>> =
            right.iter().filter(|other| pairing.differing(reading, other).is_empty()).collect();
        // A run may have been measured on its own text and on that of the other run.
        let same_text = |other: &&Reading<'_>| reading.first().same_text(other.first());
        if partners.iter().any(same_text) {
            partners.retain(same_text);
        }
        if partners.is_empty() {
            found.without_partner.push(pairing.nearest(reading, &right));
        }
        // Both sides may name a reading that the other one names too.
        partners.retain(|other| !pairing.across() || !reading.is_same(other));
        for other in partners {
            found.pair(reading, other, metric, !several);
        }
    }
    if found.list.is_empty() {
        return Err(found.error(&pairing, metric));
    }
    let mut notes = found.notes(&pairing, filter);
    for side in [a, b] {
        notes.extend(pairing.missed(side, filter)?);
    }
    let alike = found.list.iter().all(|(one, _)| one.same_tokens);
    let over = Over::of_table(if several { 2 } else { 1 }, alike);
    let mut list: Vec<Comparison> =
        found.list.into_iter().map(|(one, difference)| one.with_error(&difference, over)).collect();
    names::name_readings(&mut list);
    names::tell_apart(&mut list);
    correct(&mut list);
    Ok(Comparisons { list, notes })
}

const LAST: &str = "last";

/// How rows of two sides find each other.
struct Pairing<'a> {
    a: &'a Side,
    b: &'a Side,
}

impl<'a> Pairing<'a> {
    fn new(a: &'a Side, b: &'a Side) -> Self {
        Self { a, b }
    }

    /// Whether each side names a reading of its own.
    fn across(&self) -> bool {
        self.a.extend.is_some() && self.b.extend.is_some()
    }

    /// The extension and the checkpoint that a side is read with. One that names no extension is read with that of the other side, if any.
    /// One that names no checkpoint, beside one that does, is read at its end.
    fn asked<'s>(&'s self, side: &'s Side) -> (Option<&'s Reference>, Option<&'s str>) {
        let extend = side.extend.as_ref().or(self.a.extend.as_ref()).or(self.b.extend.as_ref());
        let beside_one = self.a.checkpoint.is_some() || self.b.checkpoint.is_some();
        let end = side.runs.iter().flatten().map(|row| row.checkpoint.as_str()).find(|name| *name == LAST);
        (extend, side.checkpoint.as_deref().or(end.filter(|_| beside_one)))
    }

    fn readings<'s>(&self, side: &'s Side, filter: &Filter) -> Result<Vec<Reading<'s>>> {
        let (extend, checkpoint) = self.asked(side);
        side.readings(extend, checkpoint, filter)
    }

    /// What of a side is from before its run was trained further, and not compared.
    fn missed(&self, side: &Side, filter: &Filter) -> Result<Option<String>> {
        let (extend, checkpoint) = self.asked(side);
        let missed = side.missed(extend, checkpoint, filter)?;
        Ok(missed.first().map(|older| {
            format!(
                "{} was trained to step {}: what was measured only before, at step {}, is left out ({} of its rows); `{}` \
                 measures it again",
                side.name,
                older.newer.step,
                older.row.step,
                missed.len(),
                side::again(&missed)
            )
        }))
    }

    /// The keys in which two readings differ, with both values; none if they are compared.
    fn differing(&self, a: &Reading<'_>, b: &Reading<'_>) -> Vec<obstacle::Differing> {
        let by_checkpoint = self.a.checkpoint.is_none() && self.b.checkpoint.is_none();
        obstacle::differing(a.first(), b.first(), !self.across(), by_checkpoint)
    }

    /// The fewest keys in which a reading differs from one of others; `None` if there is no other.
    fn nearest(&self, reading: &Reading<'_>, others: &[Reading<'_>]) -> Option<Vec<obstacle::Differing>> {
        others.iter().map(|other| self.differing(reading, other)).min_by_key(Vec::len)
    }
}

impl Comparison {
    /// Whether both sides are the same by construction, the same trainings with every number the same: there is nothing to test, and
    /// Holm's correction does not count it.
    fn is_equal(&self) -> bool {
        self.measured[0] == self.measured[1]
    }

    /// The same with its error over what the errors of its list are over.
    fn with_error(self, difference: &PairedDifference, over: Over) -> Self {
        let interval = difference.interval(over);
        Self {
            over,
            se: interval.map(|interval| interval.se),
            interval: interval.map(|interval| (interval.low, interval.high)),
            p: interval.map(|interval| interval.p_against(0.0)),
            ..self
        }
    }
}

/// What was measured of each seed, hashed.
fn measured(samples: &[Sample<'_>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for row in samples.iter().map(|sample| sample.row) {
        format!("{:?}", (&row.config_hash, row.seed, &row.values, &row.per_document)).hash(&mut hasher);
    }
    hasher.finish()
}

/// Marks comparisons that are the same by construction, and fills in Holm's correction over those that are not. What has lost its interval
/// was compared all the same: it counts, so that the others are not surer without it.
fn correct(list: &mut [Comparison]) {
    let mut places = HashMap::new();
    let mut different: Vec<f64> = Vec::new();
    let mut place_of: Vec<Option<usize>> = Vec::new();
    for one in list.iter_mut() {
        if one.is_equal() {
            place_of.push(None);
            continue;
        }
        let place = *places.entry(one.measured).or_insert(different.len());
        one.repeats = place < different.len();
        if !one.repeats {
            different.push(one.p.unwrap_or(f64::NAN));
        }
        place_of.push(Some(place));
    }
    let adjusted = adjusted(&different);
    for (one, place) in list.iter_mut().zip(place_of) {
        one.p_holm = one.p.map(|p| place.map_or(p, |place| adjusted[place]));
    }
}

#[cfg(test)]
mod tests;
