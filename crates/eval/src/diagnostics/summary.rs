//! Findings in words: what a reader should know first.

use super::explained::Explained;
use super::finding::{Diagnostic, Finding};

/// A difference of fewer standard errors is none that was shown.
const ERRORS: f64 = 2.0;

/// What is within its error may be there all the same.
const SHOWN: &str = "that these windows show";
/// What stands in the place of a verdict.
const NO_ERROR: &str = "one window has no error, so that this may be chance";

impl Explained {
    pub fn find(
        &self,
        diagnostic: Diagnostic,
        extend: &str,
        length: usize,
        bin: Option<usize>,
    ) -> Option<&Finding> {
        self.findings.iter().find(|it| it.place() == (diagnostic, extend, length, None, None, bin))
    }

    /// A length as a multiple of L where it is one.
    pub fn in_words(&self, length: usize) -> String {
        let train = self.train_length;
        match length {
            _ if length == train => "L".to_owned(),
            _ if length.is_multiple_of(train) => format!("{}L", length / train),
            _ => format!("{length} tokens"),
        }
    }

    /// Sentences on how the longest text is read with an extension, without their full stops.
    pub fn summary(&self, extend: &str) -> Vec<String> {
        let Some(&longest) = self.lengths.iter().max() else { return Vec::new() };
        let of = Of {
            explained: self,
            extend,
            longest,
            shortest: self.lengths.iter().copied().min().unwrap_or(longest),
        };
        [of.loss(), of.angles(), of.spread(), of.reach(), of.far()].into_iter().flatten().collect()
    }
}

/// One reading, between its shortest and its longest text.
struct Of<'a> {
    explained: &'a Explained,
    extend: &'a str,
    longest: usize,
    shortest: usize,
}

impl Of<'_> {
    fn at(&self, diagnostic: Diagnostic, length: usize) -> Option<&Finding> {
        self.explained.find(diagnostic, self.extend, length, None)
    }

    fn both(&self, diagnostic: Diagnostic) -> Option<[f64; 2]> {
        Some([self.at(diagnostic, self.longest)?.value, self.at(diagnostic, self.shortest)?.value])
    }

    fn long(&self) -> String {
        self.explained.in_words(self.longest)
    }

    fn short(&self) -> String {
        self.explained.in_words(self.shortest)
    }

    fn loss(&self) -> Option<String> {
        let [long, short] = self.both(Diagnostic::Loss)?;
        let change = self.at(Diagnostic::BaselineChange, self.longest)?;
        let words = format!("at {} the loss is {long:.3} ({short:.3} at {})", self.long(), self.short());
        if self.longest <= self.explained.train_length {
            return Some(words);
        }
        let value = change.value;
        let verdict = match Change::of(change) {
            Change::Unknown => {
                format!("changes it by {value:+.3} nats against the window baseline; {NO_ERROR}")
            }
            Change::None => {
                format!("makes no difference to the window baseline {SHOWN} ({value:+.3} nats)")
            }
            Change::Up => format!("costs {value:.3} nats against the window baseline"),
            Change::Down => format!("gains {:.3} nats over the window baseline", -value),
        };
        Some(format!("{words}: reading beyond L {verdict}"))
    }

    /// Nothing where no angles were counted: why not is a note of the explanation.
    fn angles(&self) -> Option<String> {
        let [long, short] = self.both(Diagnostic::UnseenAngles)?;
        let layers = |diagnostic: Diagnostic| {
            let here = |it: &&Finding| {
                (it.diagnostic, it.extend.as_str(), it.length) == (diagnostic, self.extend, self.longest)
                    && it.layer.is_some()
                    && it.head.is_none()
            };
            self.explained.findings.iter().filter(here).count()
        };
        let all = layers(Diagnostic::UnseenAngles) >= layers(Diagnostic::EffectiveKeys);
        let of = if all { "attention" } else { "the attention of the layers that rotate" };
        Some(format!(
            "at {} {:.1}% of {of} falls on angles that training never showed ({:.1}% at {})",
            self.long(),
            100.0 * long,
            100.0 * short,
            self.short()
        ))
    }

    fn spread(&self) -> Option<String> {
        let [keys, keys_before] = self.both(Diagnostic::EffectiveKeys)?;
        let first = self.both(Diagnostic::FirstToken).map_or_else(String::new, |[long, short]| {
            format!(
                "the first token's share goes from {:.1}% at {} to {:.1}%, and ",
                100.0 * short,
                self.short(),
                100.0 * long
            )
        });
        Some(format!(
            "{first}a query reads {keys:.0} keys in effect at {} ({keys_before:.0} at {})",
            self.long(),
            self.short()
        ))
    }

    fn reach(&self) -> Option<String> {
        let [long, short] = self.both(Diagnostic::ReceptiveField)?;
        let within = self.explained.train_length as f64;
        let verdict = if long <= within { ", which is within L" } else { "" };
        Some(format!(
            "99% of the last loss's gradient comes from the last {long:.0} tokens at {} ({short:.0} at {}){verdict}",
            self.long(),
            self.short()
        ))
    }

    fn far(&self) -> Option<String> {
        let kept = self.explained.train_length;
        let of = |diagnostic| self.explained.find(diagnostic, self.extend, self.longest, Some(kept));
        let [cut, shuffled] = [of(Diagnostic::ContextCut)?, of(Diagnostic::ContextShuffled)?];
        let verdict = match (Change::of(cut), Change::of(shuffled)) {
            (Change::Unknown, _) | (_, Change::Unknown) => NO_ERROR.to_owned(),
            (Change::None, Change::None) => format!("neither makes a difference {SHOWN}"),
            (Change::None, _) => {
                format!("leaving them out makes no difference {SHOWN}, and their order does")
            }
            (Change::Down, _) => "the last tokens are read better without them".to_owned(),
            (Change::Up, Change::None) => {
                format!(
                    "the last tokens are read worse without them, and their order makes no difference {SHOWN}"
                )
            }
            (Change::Up, Change::Up) => "the last tokens need them, in their order".to_owned(),
            (Change::Up, Change::Down) => {
                "the last tokens need them, and are read better in another order".to_owned()
            }
        };
        let errors = |it: &Finding| it.se.map_or_else(String::new, |se| format!(" ± {se:.3}"));
        Some(format!(
            "with all but the last L tokens cut the loss changes by {:+.3}{} nats, with them shuffled by {:+.3}{}: {verdict}",
            cut.value,
            errors(cut),
            shuffled.value,
            errors(shuffled)
        ))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Unknown,
    None,
    Up,
    Down,
}

impl Change {
    fn of(change: &Finding) -> Self {
        match change.se {
            None => Self::Unknown,
            Some(se) if change.value.abs() <= ERRORS * se => Self::None,
            Some(_) if change.value > 0.0 => Self::Up,
            Some(_) => Self::Down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(diagnostic: Diagnostic, length: usize, bin: Option<usize>, value: f64) -> Finding {
        Finding { bin, se: Some(0.01), count: 4, ..Finding::of(diagnostic, "direct", length, value) }
    }

    /// What cutting and shuffling change, beside a loss that differs from the baseline by so much.
    fn explained(baseline: f64, cut: f64, shuffled: f64) -> Explained {
        let found = |diagnostic, short, long| {
            [finding(diagnostic, 128, None, short), finding(diagnostic, 1024, None, long)]
        };
        let mut findings = [
            found(Diagnostic::Loss, 2.5, 3.5),
            found(Diagnostic::BaselineChange, 0.0, baseline),
            found(Diagnostic::UnseenAngles, 0.0, 0.42),
            found(Diagnostic::FirstToken, 0.31, 0.02),
            found(Diagnostic::EffectiveKeys, 12.0, 80.0),
            found(Diagnostic::ReceptiveField, 100.0, 700.0),
        ]
        .concat();
        findings.push(finding(Diagnostic::ContextCut, 1024, Some(128), cut));
        findings.push(finding(Diagnostic::ContextShuffled, 1024, Some(128), shuffled));
        Explained { train_length: 128, lengths: vec![128, 1024], findings, ..Explained::default() }
    }

    fn verdict(explained: &Explained) -> String {
        explained.summary("direct").pop().unwrap().split_once(": ").unwrap().1.to_owned()
    }

    #[test]
    fn five_sentences_say_what_breaks() {
        let explained = explained(0.95, -0.9, 0.001);
        assert_eq!(
            explained.summary("direct"),
            [
                "at 8L the loss is 3.500 (2.500 at L): reading beyond L costs 0.950 nats against the window baseline",
                "at 8L 42.0% of attention falls on angles that training never showed (0.0% at L)",
                "the first token's share goes from 31.0% at L to 2.0%, and a query reads 80 keys in effect at 8L (12 at L)",
                "99% of the last loss's gradient comes from the last 700 tokens at 8L (100 at L)",
                "with all but the last L tokens cut the loss changes by -0.900 ± 0.010 nats, with them shuffled by +0.001 ± 0.010: \
                 the last tokens are read better without them",
            ]
        );
        assert_eq!(explained.in_words(200), "200 tokens");
    }

    #[test]
    fn a_change_within_its_error_is_not_said_to_be_none() {
        assert_eq!(
            verdict(&explained(1.1, 0.02, -0.02)),
            "neither makes a difference that these windows show"
        );
        assert_eq!(
            verdict(&explained(1.1, 0.02, 0.021)),
            "leaving them out makes no difference that these windows show, and their order does"
        );
        assert_eq!(
            verdict(&explained(-0.2, 0.3, 0.0)),
            "the last tokens are read worse without them, and their order makes no difference that these windows show"
        );
        assert_eq!(verdict(&explained(-0.2, 0.3, 0.1)), "the last tokens need them, in their order");
        let first = explained(0.02, 0.0, 0.0).summary("direct").remove(0);
        assert!(
            first.ends_with(
                "makes no difference to the window baseline that these windows show (+0.020 nats)"
            ),
            "{first}"
        );
    }

    #[test]
    fn without_an_error_there_is_no_verdict() {
        let mut explained = explained(-0.016, 0.3, 0.1);
        explained.findings.iter_mut().for_each(|it| it.se = None);
        let sentences = explained.summary("direct");
        assert_eq!(
            sentences[0],
            "at 8L the loss is 3.500 (2.500 at L): reading beyond L changes it by -0.016 nats against the window baseline; \
             one window has no error, so that this may be chance"
        );
        assert_eq!(
            sentences[4],
            "with all but the last L tokens cut the loss changes by +0.300 nats, with them shuffled by +0.100: \
             one window has no error, so that this may be chance"
        );
    }

    #[test]
    fn angles_are_of_the_layers_that_rotate_and_of_nothing_where_none_was_counted() {
        let mut explained = explained(0.95, -0.9, 0.001);
        let of_layer = |diagnostic, layer, value| Finding {
            layer: Some(layer),
            ..finding(diagnostic, 1024, None, value)
        };
        explained.findings.extend([
            of_layer(Diagnostic::EffectiveKeys, 0, 80.0),
            of_layer(Diagnostic::EffectiveKeys, 1, 80.0),
            of_layer(Diagnostic::UnseenAngles, 0, 0.42),
        ]);
        assert_eq!(
            explained.summary("direct")[1],
            "at 8L 42.0% of the attention of the layers that rotate falls on angles that training never showed (0.0% at L)"
        );
        explained.findings.push(of_layer(Diagnostic::UnseenAngles, 1, 0.42));
        assert!(explained.summary("direct")[1].starts_with("at 8L 42.0% of attention falls"));
        explained.findings.retain(|it| it.diagnostic != Diagnostic::UnseenAngles);
        assert!(explained.summary("direct").iter().all(|sentence| !sentence.contains("angles")));
    }

    #[test]
    fn a_text_of_the_length_of_training_reads_nothing_beyond() {
        let mut explained = explained(0.0, 0.0, 0.0);
        explained.lengths = vec![128];
        assert_eq!(explained.summary("direct")[0], "at L the loss is 2.500 (2.500 at L)");
    }
}
