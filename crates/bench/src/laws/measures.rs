//! The laws of protocols and metrics.

use super::{Outcome, ensure};
use longwave_eval::metrics::{Facts, Score};
use longwave_eval::protocols::{Documents, Given, Keys, MAX_LENGTH};
use longwave_eval::text::Material;
use longwave_eval::{DocumentSums, Metric, Plan, Protocol, Split, Tally, Window};
use std::collections::BTreeSet;

/// L of the laws.
const TRAIN: usize = 32;
const LENGTHS: [usize; 3] = [32, 64, 128];
/// Tokens of documents: too short for anything, just long enough, long.
const TOKENS: [usize; 8] = [0, 1, 2, 129, 400, 130, 1000, 70];

/// What a protocol says of its plans holds, with default keys: every target is scored once, no window reads more than the
/// length or leaves its document, and lengths score the same tokens where the protocol says so.
pub fn plans_hold(protocol: Protocol) -> Outcome {
    let of_task = protocol.material() == Material::Answers;
    // How long texts are that a protocol makes of documents is its own affair.
    let made = !matches!(protocol.material(), Material::Documents | Material::Watched | Material::Answers);
    let given = Keys::default();
    let given = Given {
        section: "evaluate",
        train_length: TRAIN,
        shortest: LENGTHS[0],
        longest: LENGTHS[2],
        keys: &given,
        corpus: None,
        split: Split::Test,
    };
    let keys = protocol.fill_in(&given).map_err(|error| error.to_string())?;
    let mut scored = Vec::new();
    for length in LENGTHS {
        // Sequences of a task are as long as the length, and end with their answer.
        let tokens = if of_task { vec![length + 1; 4] } else { TOKENS.to_vec() };
        let answers = if of_task { vec![vec![length - 3..length + 1]; 4] } else { Vec::new() };
        let documents = Documents { tokens: &tokens, answers: &answers };
        let plan = protocol.plan(&keys, length, &documents);
        ensure(protocol.plan(&keys, length, &documents) == plan, || {
            format!("two plans of length {length} differ")
        })?;
        scored.push(targets(&plan, length, &tokens, made)?);
    }
    let same = scored.windows(2).all(|pair| pair[0] == pair[1]);
    let says = protocol.same_tokens_at_every_length(&keys, &LENGTHS);
    ensure(made || !says || same, || {
        "it says that every length scores the same tokens, and the lengths 32, 64 and 128 score others"
            .to_owned()
    })?;
    if protocol.keys().contains(&MAX_LENGTH) {
        ensure(keys.max_length().is_some(), || "`resolve` drops `max_length`".to_owned())?;
    }
    ensure(!protocol.in_words(&keys).is_empty() && !protocol.shown().is_empty(), || {
        "it has no words or no metric for tables".to_owned()
    })
}

/// The targets of a plan, each by its document and its place.
fn targets(
    plan: &Plan,
    length: usize,
    tokens: &[usize],
    made: bool,
) -> Result<BTreeSet<(usize, usize)>, String> {
    let mut targets = BTreeSet::new();
    let (mut before, mut read) = (0, BTreeSet::new());
    for window in &plan.windows {
        let Window { document, start, first, end } = *window;
        let inside = document < tokens.len() && (made || end <= tokens[document]);
        let inside = inside && start < first && first < end;
        ensure(inside, || format!("{window:?} does not lie in a document, of {tokens:?} tokens"))?;
        ensure(window.reading() <= length, || {
            format!("a window of length {length} reads {} tokens", window.reading())
        })?;
        ensure(document >= before, || "windows are not in the order of the documents".to_owned())?;
        before = document;
        read.insert(document);
        for target in first..end {
            ensure(targets.insert((document, target)), || {
                format!("at length {length}, token {target} of document {document} is scored twice")
            })?;
        }
    }
    let skipped = tokens.len() - read.len();
    ensure(plan.skipped_documents == skipped, || {
        format!("{skipped} documents have no window, and the plan skips {}", plan.skipped_documents)
    })?;
    ensure(!targets.is_empty(), || format!("nothing is scored at length {length}"))?;
    Ok(targets)
}

/// What a metric says of itself holds: its value follows from its sums, counts are whole, a share lies between 0 and 1,
/// and better predictions are no worse.
pub fn values_hold(metric: Metric) -> Outcome {
    let scores: Vec<Vec<Score>> = (0..6_u32).map(document).collect();
    if let Some(sum) = metric.token_sum() {
        for score in scores.iter().flatten() {
            let number = (sum.of)(score);
            let whole = number >= 0.0 && number.fract() == 0.0;
            ensure(number.is_finite() && (!sum.counts || whole), || {
                format!("the sum `{}` counts, and {score:?} counts as {number}", sum.name)
            })?;
        }
    }
    if !metric.is_of(Material::Documents) || metric.column().is_none() {
        return Ok(());
    }
    let Some(value) = value_of(metric, &scores)? else {
        return ensure(!metric.is_comparable(), || {
            "it compares readings, and text has no value of it".to_owned()
        });
    };
    ensure(!metric.is_share() || (0.0..=1.0).contains(&value), || format!("a share is {value}"))?;
    let better = |score: &Score| Score { nll: 0.5 * score.nll, correct: true };
    let better: Vec<Vec<Score>> = scores.iter().map(|scores| scores.iter().map(better).collect()).collect();
    let improved = value_of(metric, &better)?.unwrap_or(value);
    let worse = if metric.lower_is_better() { improved > value } else { improved < value };
    ensure(!worse, || {
        let direction = if metric.lower_is_better() { "less" } else { "more" };
        format!("{direction} is better, and better predictions change {value} to {improved}")
    })
}

/// The scores of a document: some tokens are expected, and some not at all.
fn document(index: u32) -> Vec<Score> {
    let nll = |token: u32| 0.05 + f64::from((token * 7 + index * 3) % 23) / 4.0;
    (0..40 + index).map(|token| Score { nll: nll(token), correct: nll(token) < 1.0 }).collect()
}

/// The value of a metric, as a new measurement and as its row have it.
fn value_of(metric: Metric, scores: &[Vec<Score>]) -> Result<Option<f64>, String> {
    let mut tally = Tally::new(scores.len(), 0);
    for (document, scores) in scores.iter().enumerate() {
        tally.add(document, scores, 2 * scores.len() as u64);
    }
    let (sums, values): (DocumentSums, _) = (tally.sums(), tally.values(Material::Documents));
    let values = values.ok_or("nothing is scored")?;
    let facts = Facts {
        tokens: tally.tokens(),
        bytes: tally.bytes(),
        values: &values,
        per_document: Some(&sums),
        difference: None,
        baseline: None,
    };
    if let Some(documents) = metric.documents(&facts) {
        let counts = [documents.sums.len(), documents.weights.len()];
        ensure(counts == [scores.len(); 2], || format!("of {} documents, it has {counts:?}", scores.len()))?;
    }
    let (measured, held) = (metric.measure(&facts).map(|(value, _)| value), metric.value(&facts));
    let same = match (measured, held) {
        (Some(measured), Some(held)) => measured.is_finite() && measured.total_cmp(&held).is_eq(),
        (None, None) => true,
        _ => false,
    };
    ensure(same, || format!("it measures {measured:?}, and its row has {held:?}"))?;
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alone;
    use longwave_eval::Registered;
    use longwave_eval::metrics::{self, Column, Measure, TokenSum};
    use longwave_eval::protocols::Rules;

    #[test]
    fn protocols_and_metrics_obey_their_laws() {
        let _alone = alone();
        for &protocol in Protocol::all() {
            plans_hold(protocol).unwrap_or_else(|error| panic!("{protocol}: {error}"));
        }
        for &metric in Metric::all() {
            values_hold(metric).unwrap_or_else(|error| panic!("{}: {error}", metric.name()));
        }
    }

    /// The windows of a document of 129 tokens and more, by the length.
    struct Wrong {
        windows: fn(usize) -> Vec<[usize; 3]>,
        skipped: usize,
        same: bool,
    }

    impl Rules for Wrong {
        fn description(&self) -> &'static str {
            "Deliberately wrong."
        }

        fn plan(&self, _keys: &Keys, length: usize, documents: &Documents<'_>) -> Plan {
            let long = documents.tokens.iter().enumerate().filter(|(_, tokens)| **tokens > 128);
            let windows = long.flat_map(|(document, _)| {
                let of = (self.windows)(length).into_iter();
                of.map(move |[start, first, end]| Window { document, start, first, end })
            });
            Plan { windows: windows.collect(), skipped_documents: self.skipped }
        }

        fn same_tokens_at_every_length(&self, _keys: &Keys, _lengths: &[usize]) -> bool {
            self.same
        }

        fn in_words(&self, _keys: &Keys) -> String {
            "wrong windows".to_owned()
        }
    }

    #[test]
    fn wrong_protocols_are_found() {
        static RIGHT: Wrong = Wrong { windows: |length| vec![[0, 1, length + 1]], skipped: 4, same: false };
        static TWICE: Wrong = Wrong { windows: |_| vec![[0, 1, 9], [0, 8, 12]], skipped: 4, same: false };
        static LONG: Wrong = Wrong { windows: |length| vec![[0, 1, length + 2]], skipped: 4, same: false };
        static OUTSIDE: Wrong = Wrong { windows: |_| vec![[125, 126, 140]], skipped: 4, same: false };
        static UNCOUNTED: Wrong =
            Wrong { windows: |length| vec![[0, 1, length + 1]], skipped: 0, same: false };
        static OTHERS: Wrong = Wrong { windows: |length| vec![[0, 1, length + 1]], skipped: 4, same: true };
        static NOTHING: Wrong = Wrong { windows: |_| Vec::new(), skipped: 8, same: false };
        let of = |rules: &'static Wrong| plans_hold(Protocol::Registered(Registered::new("wrong", rules)));
        assert_eq!(of(&RIGHT), Ok(()));
        let wrong: [(&Wrong, &str); 6] = [
            (&TWICE, "is scored twice"),
            (&LONG, "reads 33 tokens"),
            (&OUTSIDE, "does not lie in a document"),
            (&UNCOUNTED, "4 documents have no window, and the plan skips 0"),
            (&OTHERS, "it says that every length scores the same tokens"),
            (&NOTHING, "nothing is scored"),
        ];
        for (rules, text) in wrong {
            let error = of(rules).unwrap_err();
            assert!(error.contains(text), "{text}: {error}");
        }
    }

    struct WrongMetric {
        sum: TokenSum,
        share: bool,
        lower_is_better: bool,
    }

    impl Measure for WrongMetric {
        fn unit(&self) -> &'static str {
            "any"
        }

        fn title(&self) -> &'static str {
            "Any"
        }

        fn lower_is_better(&self) -> bool {
            self.lower_is_better
        }

        fn is_share(&self) -> bool {
            self.share
        }

        fn column(&self) -> Option<Column> {
            Some(Column::new("any", "any_se"))
        }

        fn token_sum(&self) -> Option<TokenSum> {
            Some(self.sum)
        }

        fn documents(&self, facts: &Facts<'_>) -> Option<metrics::Documents> {
            // The sums of the loss: those of this metric are in no tally, because it is not registered.
            let sums = facts.per_document?;
            Some(metrics::Documents { sums: sums.get("nll")?, weights: sums.tokens.clone() })
        }

        fn value(&self, facts: &Facts<'_>) -> Option<f64> {
            self.measure(facts).map(|(value, _)| value)
        }
    }

    #[test]
    fn wrong_metrics_are_found() {
        const NLL: TokenSum = TokenSum { name: "any", of: |score| score.nll, counts: false };
        static RIGHT: WrongMetric = WrongMetric { sum: NLL, share: false, lower_is_better: true };
        static COUNTS: WrongMetric =
            WrongMetric { sum: TokenSum { counts: true, ..NLL }, share: false, lower_is_better: true };
        static SHARE: WrongMetric = WrongMetric { sum: NLL, share: true, lower_is_better: true };
        static UPWARDS: WrongMetric = WrongMetric { sum: NLL, share: false, lower_is_better: false };
        let of = |measure: &'static WrongMetric| {
            values_hold(Metric::Registered(Registered::new("wrong", measure)))
        };
        assert_eq!(of(&RIGHT), Ok(()));
        for (measure, text) in [(&COUNTS, "counts as"), (&SHARE, "a share is"), (&UPWARDS, "more is better")]
        {
            let error = of(measure).unwrap_err();
            assert!(error.contains(text), "{text}: {error}");
        }
    }
}
