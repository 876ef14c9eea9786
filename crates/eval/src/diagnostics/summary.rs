//! Findings in words: what a reader should know first.

use super::explained::Explained;
use super::finding::{Diagnostic, Finding, Over};
use crate::statistics::student;

/// What f32 leaves of two losses that are equal, in nats, is below it.
const ROUNDING: f64 = 1e-5;

/// How often a verdict finds a change where there is none.
const LEVEL: f64 = 0.05;

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

    /// What was found at the shortest length, in parentheses; nothing where that is the longest too.
    fn beside(&self, short: &str) -> String {
        if self.shortest == self.longest { String::new() } else { format!(" ({short} at {})", self.short()) }
    }

    fn loss(&self) -> Option<String> {
        let [long, short] = self.both(Diagnostic::Loss)?;
        let change = self.at(Diagnostic::BaselineChange, self.longest)?;
        let words =
            format!("at {} the loss is {long:.3}{}", self.long(), self.beside(&format!("{short:.3}")));
        // A loss that is no number says all there is to say.
        if self.longest <= self.explained.train_length || change.value.is_nan() {
            return Some(words);
        }
        let value = change.value;
        let verdict = match Change::of(change) {
            Change::Unknown => {
                format!("changes it by {value:+.3} nats against the window baseline; {NO_ERROR}")
            }
            Change::None => {
                let (shown, error) = (that_is_shown(change), error(change));
                format!("makes no difference to the window baseline {shown} ({value:+.3}{error} nats)")
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
            "at {} {:.1}% of {of} falls on angles that training never showed{}",
            self.long(),
            100.0 * long,
            self.beside(&format!("{:.1}%", 100.0 * short))
        ))
    }

    fn spread(&self) -> Option<String> {
        let [keys, keys_before] = self.both(Diagnostic::EffectiveKeys)?;
        let first = self.both(Diagnostic::FirstToken).map_or_else(String::new, |[long, short]| {
            let [long, short] = [long, short].map(|share| format!("{:.1}%", 100.0 * share));
            let change = if self.shortest == self.longest {
                format!("is {long}")
            } else {
                format!("goes from {short} at {} to {long}", self.short())
            };
            format!("the first token's share {change}, and ")
        });
        Some(format!(
            "{first}a query reads {keys:.0} keys in effect at {}{}",
            self.long(),
            self.beside(&format!("{keys_before:.0}"))
        ))
    }

    fn reach(&self) -> Option<String> {
        let [long, short] = self.both(Diagnostic::ReceptiveField)?;
        let within = self.explained.train_length as f64;
        let verdict = if long <= within { ", which is within L" } else { "" };
        Some(format!(
            "99% of the last loss's gradient comes from the last {long:.0} tokens at {}{}{verdict}",
            self.long(),
            self.beside(&format!("{short:.0}"))
        ))
    }

    fn far(&self) -> Option<String> {
        let kept = self.explained.train_length;
        let of = |diagnostic| self.explained.find(diagnostic, self.extend, self.longest, Some(kept));
        let [cut, shuffled] = [of(Diagnostic::ContextCut)?, of(Diagnostic::ContextShuffled)?];
        // There is no verdict on what is no number.
        if cut.value.is_nan() || shuffled.value.is_nan() {
            return None;
        }
        let shown = that_is_shown(cut);
        let verdict = match (Change::of(cut), Change::of(shuffled)) {
            (Change::Unknown, _) | (_, Change::Unknown) => NO_ERROR.to_owned(),
            (Change::None, Change::None) => format!("neither makes a difference {shown}"),
            (Change::None, _) => {
                format!("leaving them out makes no difference {shown}, and their order does")
            }
            (Change::Down, _) => "the last tokens are read better without them".to_owned(),
            (Change::Up, Change::None) => {
                format!(
                    "the last tokens are read worse without them, and their order makes no difference {shown}"
                )
            }
            (Change::Up, Change::Up) => "the last tokens need them, in their order".to_owned(),
            (Change::Up, Change::Down) => {
                "the last tokens need them, and are read better in another order".to_owned()
            }
        };
        Some(format!(
            "with all but the last L tokens cut the loss changes by {:+.3}{} nats, with them shuffled by {:+.3}{}: {verdict}",
            cut.value,
            error(cut),
            shuffled.value,
            error(shuffled)
        ))
    }
}

fn error(change: &Finding) -> String {
    change.se.map_or_else(String::new, |se| format!(" ± {se:.3}"))
}

/// What is within its error may be there all the same.
fn that_is_shown(change: &Finding) -> &'static str {
    if change.over == Over::Runs { "that these runs show" } else { "that these windows show" }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Unknown,
    None,
    Up,
    Down,
}

impl Change {
    /// A change is held against its interval of Student's t, the one that `compare` prints: the error of few is itself uncertain.
    fn of(change: &Finding) -> Self {
        let Some(se) = change.se.filter(|_| change.count > 1) else { return Self::Unknown };
        let errors = student::quantile(1.0 - LEVEL / 2.0, change.count as f64 - 1.0);
        match change.value {
            value if value.abs() <= ROUNDING.max(errors * se) => Self::None,
            value if value > 0.0 => Self::Up,
            _ => Self::Down,
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
    fn what_is_no_number_has_no_verdict() {
        let sentences = explained(f64::NAN, f64::NAN, f64::NAN).summary("direct");
        assert_eq!(sentences[0], "at 8L the loss is 3.500 (2.500 at L)");
        assert!(sentences.iter().all(|sentence| !sentence.contains("NaN")), "{sentences:?}");
    }

    #[test]
    fn a_change_within_its_error_is_not_said_to_be_none() {
        assert_eq!(
            verdict(&explained(1.1, 0.02, -0.02)),
            "neither makes a difference that these windows show"
        );
        assert_eq!(
            verdict(&explained(1.1, 0.02, 0.032)),
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
                "makes no difference to the window baseline that these windows show (+0.020 ± 0.010 nats)"
            ),
            "{first}"
        );
    }

    /// Student's 97.5% quantiles: `tan(0.475 pi)` of 1 degree of freedom, `0.95 sqrt(2 / (1 - 0.95^2))` of 2, and of 3 and 11
    /// from published tables (3.1824, 2.2010). With an error of 0.01 a change is held against a hundredth of them.
    #[test]
    fn few_runs_or_windows_need_a_larger_change() {
        for (count, none, shown) in
            [(2, 0.1270, 0.1271), (3, 0.0430, 0.0431), (4, 0.0318, 0.0319), (12, 0.0220, 0.0221)]
        {
            let of =
                |value| Change::of(&Finding { count, ..finding(Diagnostic::ContextCut, 1024, None, value) });
            assert_eq!([of(none), of(-none)], [Change::None; 2], "{count}");
            assert_eq!([of(shown), of(-shown)], [Change::Up, Change::Down], "{count}");
        }
        // Of rounding alone.
        let small = Finding { se: Some(3e-9), ..finding(Diagnostic::BaselineChange, 1024, None, -8e-9) };
        assert_eq!(Change::of(&small), Change::None);
        let one = Finding { count: 1, ..finding(Diagnostic::ContextCut, 1024, None, 9.0) };
        assert_eq!(Change::of(&one), Change::Unknown);
    }

    #[test]
    fn of_runs_the_sentences_speak_of_runs() {
        let mut explained = explained(0.095, 0.3, 0.1);
        explained.findings.iter_mut().for_each(|it| (it.count, it.over) = (2, Over::Runs));
        let sentences = explained.summary("direct");
        assert!(
            sentences[0].ends_with(
                "reading beyond L makes no difference to the window baseline that these runs show (+0.095 ± 0.010 nats)"
            ),
            "{sentences:?}"
        );
        assert!(
            sentences[4].ends_with(
                "read worse without them, and their order makes no difference that these runs show"
            ),
            "{sentences:?}"
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
    fn one_length_is_not_held_against_itself() {
        let mut explained = explained(0.95, -0.9, 0.001);
        explained.lengths = vec![1024];
        // Text is changed at the longest length, after a shorter one: with one length it is not.
        explained.findings.retain(|it| it.length == 1024 && it.bin.is_none());
        assert_eq!(
            explained.summary("direct"),
            [
                "at 8L the loss is 3.500: reading beyond L costs 0.950 nats against the window baseline",
                "at 8L 42.0% of attention falls on angles that training never showed",
                "the first token's share is 2.0%, and a query reads 80 keys in effect at 8L",
                "99% of the last loss's gradient comes from the last 700 tokens at 8L",
            ]
        );
    }

    #[test]
    fn a_text_of_the_length_of_training_reads_nothing_beyond() {
        let mut explained = explained(0.0, 0.0, 0.0);
        explained.lengths = vec![128];
        assert_eq!(explained.summary("direct")[0], "at L the loss is 2.500");
    }
}
