//! Which tokens are key tokens, by two readings of a reference model.

use crate::metrics::Score;
use crate::plan::{Plan, Window};
use longwave_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// What makes a token a key token, and how far the two readings of the reference see.
///
/// A token `t` of a document, from `short` on, is one where `loss_short - loss_long > alpha` and `loss_long < -beta`, in nats. The long reading
/// begins at the document's beginning, and past `long` tokens at the first multiple of `sliding` from which it reads at most `long`
/// tokens. The short reading begins at `floor((t - short) / sliding) * sliding`, so that it reads `short` to `short + sliding - 1`
/// tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// By how many nats the longer context must lower the loss.
    pub alpha: f64,
    /// The negative of the loss that it must come below.
    pub beta: f64,
    /// Tokens of the short context, at least.
    pub short: usize,
    /// From one short context's beginning to the next.
    pub sliding: usize,
    /// Tokens of the long context, at most.
    pub long: usize,
}

impl Rule {
    /// Checks the values; options have their names.
    pub fn check(&self) -> Result<()> {
        for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !value.is_finite() {
                return Err(Error::value(&format!("--{name}"), value, "it must be a number")
                    .hint("the published ones are 2 and -2"));
            }
        }
        for (name, value) in [("short", self.short), ("sliding", self.sliding)] {
            if value == 0 {
                return Err(Error::value(&format!("--{name}"), value, "it must be at least one token")
                    .hint("leave it out for the default"));
            }
        }
        // The short reading sees up to `sliding - 1` tokens more.
        if self.short.saturating_add(self.sliding) > self.long {
            let allowed = format!(
                "with `--sliding {}` it comes to the {} tokens that the reference run was trained on, and no context is longer",
                self.sliding, self.long
            );
            return Err(Error::value("--short", self.short, allowed)
                .hint("give fewer tokens, or take a reference run that was trained on longer texts"));
        }
        Ok(())
    }

    /// Whether a token with these losses is a key token. Both comparisons are strict.
    pub fn is_key(&self, loss_short: f64, loss_long: f64) -> bool {
        loss_short - loss_long > self.alpha && loss_long < -self.beta
    }

    /// The long reading of documents: every token from `short` on is scored once.
    pub fn long_reading(&self, documents: &[usize]) -> Plan {
        self.plan(documents, self.long + 1)
    }

    /// The short reading of documents: every token from `short` on is scored once.
    pub fn short_reading(&self, documents: &[usize]) -> Plan {
        self.plan(documents, self.short + self.sliding)
    }

    /// Windows `sliding` apart; the first scores all from `short` on, each of the others its last `sliding` tokens, and a full
    /// one ends `span` tokens behind its beginning.
    fn plan(&self, documents: &[usize], span: usize) -> Plan {
        let mut plan = Plan::default();
        for (document, &tokens) in documents.iter().enumerate() {
            let windows = (0..).step_by(self.sliding).map_while(|start| {
                let first = if start == 0 { self.short } else { start + span - self.sliding };
                let end = (start + span).min(tokens);
                (first < end).then_some(Window { document, start, first, end })
            });
            plan.add_document(windows, None);
        }
        plan
    }

    /// The key tokens of each document, from the scores of both plans.
    pub fn key_tokens(
        &self,
        documents: &[usize],
        short: &[Vec<Score>],
        long: &[Vec<Score>],
    ) -> Vec<Vec<usize>> {
        let losses = |plan: Plan, scores: &[Vec<Score>]| {
            // Every plan has the targets of a document in their order, from `short` on.
            let mut losses: Vec<Vec<f64>> = vec![Vec::new(); documents.len()];
            for (window, scores) in plan.windows.iter().zip(scores) {
                losses[window.document].extend(scores.iter().map(|score| score.nll));
            }
            losses
        };
        let short = losses(self.short_reading(documents), short);
        let long = losses(self.long_reading(documents), long);
        let pairs = short.into_iter().zip(long).map(|(short, long)| short.into_iter().zip(long));
        pairs
            .map(|losses| {
                let tokens = (self.short..).zip(losses);
                tokens
                    .filter(|(_, (short, long))| self.is_key(*short, *long))
                    .map(|(token, _)| token)
                    .collect()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { alpha: 2.0, beta: -2.0, short: 6, sliding: 4, long: 16 };

    fn windows(plan: &Plan) -> Vec<[usize; 3]> {
        plan.windows.iter().map(|window| [window.start, window.first, window.end]).collect()
    }

    #[test]
    fn every_token_has_one_short_and_one_long_reading() {
        assert_eq!(windows(&RULE.short_reading(&[16])), [[0, 6, 10], [4, 10, 14], [8, 14, 16]]);
        // A whole text of the reference's length is read from its beginning.
        assert_eq!(windows(&RULE.long_reading(&[17])), [[0, 6, 17]]);
        assert_eq!(windows(&RULE.long_reading(&[23])), [[0, 6, 17], [4, 17, 21], [8, 21, 23]]);
        for tokens in 0..60 {
            for plan in [RULE.short_reading(&[3, tokens]), RULE.long_reading(&[3, tokens])] {
                let targets: Vec<usize> = plan.windows.iter().flat_map(|it| it.first..it.end).collect();
                assert_eq!(targets, (6..tokens.max(6)).collect::<Vec<_>>());
            }
            let short = RULE.short_reading(&[tokens]);
            let of = |token: usize| short.windows.iter().find(|it| (it.first..it.end).contains(&token));
            assert!((6..tokens).all(|t| of(t).unwrap().start == (t - 6) / 4 * 4));
            let contexts = RULE.long_reading(&[tokens]);
            assert!(contexts.longest_reading() <= RULE.long);
            assert!(contexts.windows.iter().skip(1).all(|it| it.first - it.start > RULE.long - 4));
        }
    }

    #[test]
    fn both_comparisons_are_strict() {
        assert!(RULE.is_key(4.0, 1.5));
        assert!(!RULE.is_key(3.5, 1.5), "a gain of alpha is none");
        assert!(!RULE.is_key(9.0, 2.0), "a loss of -beta is none");
        assert!(!RULE.is_key(f64::NAN, 1.0) && !RULE.is_key(9.0, f64::NAN));
    }

    #[test]
    fn what_makes_no_rule_is_named() {
        for (rule, key) in [
            (Rule { alpha: f64::NAN, ..RULE }, "`--alpha = NaN`"),
            (Rule { sliding: 0, ..RULE }, "`--sliding = 0`"),
            (Rule { short: 13, ..RULE }, "`--short = 13`"),
        ] {
            let error = rule.check().unwrap_err();
            assert!(error.message().starts_with(key) && error.hint_text().is_some(), "{error}");
        }
        Rule { short: 12, ..RULE }.check().unwrap();
    }
}
