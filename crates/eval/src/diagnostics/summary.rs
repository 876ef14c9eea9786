//! Findings in words: what a reader should know first.

use super::explained::Explained;
use super::finding::{Diagnostic, Finding};

/// A difference of fewer standard errors is none.
const ERRORS: f64 = 2.0;

impl Explained {
    /// A finding of the whole model.
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
        [of.loss(), Some(of.angles()), of.spread(), of.reach(), of.far()].into_iter().flatten().collect()
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

    /// The values at the longest and at the shortest length.
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
        let verdict = match change.value {
            value if is_none(change) => {
                format!("changes nothing against the window baseline ({value:+.3} nats)")
            }
            value if value > 0.0 => format!("costs {value:.3} nats against the window baseline"),
            value => format!("gains {:.3} nats over the window baseline", -value),
        };
        Some(format!(
            "at {} the loss is {long:.3} ({short:.3} at {}): reading beyond L {verdict}",
            self.long(),
            self.short()
        ))
    }

    fn angles(&self) -> String {
        let Some([long, short]) = self.both(Diagnostic::UnseenAngles) else {
            return "queries and keys are not rotated, so there are no angles that training did not show"
                .to_owned();
        };
        format!(
            "at {} {:.1}% of attention falls on angles that training never showed ({:.1}% at {})",
            self.long(),
            100.0 * long,
            100.0 * short,
            self.short()
        )
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
        let verdict = match cut.value {
            _ if is_none(cut) && is_none(shuffled) => "what lies beyond is not read",
            _ if is_none(cut) => "leaving it out changes nothing, and its order does",
            value if value < 0.0 => "what lies beyond only harms",
            _ if is_none(shuffled) => "what lies beyond helps, whatever its order",
            _ => "what lies beyond is read, and helps",
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

/// Whether a change is within its error of nothing.
fn is_none(change: &Finding) -> bool {
    change.value.abs() <= ERRORS * change.se.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(diagnostic: Diagnostic, length: usize, bin: Option<usize>, value: f64) -> Finding {
        let (extend, se) = ("direct".to_owned(), Some(0.01));
        Finding { diagnostic, extend, length, layer: None, head: None, bin, value, se, count: 4 }
    }

    #[test]
    fn five_sentences_say_what_breaks() {
        let found = |diagnostic, short, long| {
            [finding(diagnostic, 128, None, short), finding(diagnostic, 1024, None, long)]
        };
        let mut findings = [
            found(Diagnostic::Loss, 2.5, 3.5),
            found(Diagnostic::BaselineChange, 0.0, 0.95),
            found(Diagnostic::UnseenAngles, 0.0, 0.42),
            found(Diagnostic::FirstToken, 0.31, 0.02),
            found(Diagnostic::EffectiveKeys, 12.0, 80.0),
            found(Diagnostic::ReceptiveField, 100.0, 700.0),
        ]
        .concat();
        findings.push(finding(Diagnostic::ContextCut, 1024, Some(128), -0.9));
        findings.push(finding(Diagnostic::ContextShuffled, 1024, Some(128), 0.001));
        let explained =
            Explained { train_length: 128, lengths: vec![128, 1024], findings, ..Explained::default() };
        assert_eq!(
            explained.summary("direct"),
            [
                "at 8L the loss is 3.500 (2.500 at L): reading beyond L costs 0.950 nats against the window baseline",
                "at 8L 42.0% of attention falls on angles that training never showed (0.0% at L)",
                "the first token's share goes from 31.0% at L to 2.0%, and a query reads 80 keys in effect at 8L (12 at L)",
                "99% of the last loss's gradient comes from the last 700 tokens at 8L (100 at L)",
                "with all but the last L tokens cut the loss changes by -0.900 ± 0.010 nats, with them shuffled by +0.001 ± 0.010: \
                 what lies beyond only harms",
            ]
        );
        assert_eq!(explained.in_words(200), "200 tokens");
    }
}
