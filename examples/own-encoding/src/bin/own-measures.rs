//! The `longwave` program with a protocol and a metric of its own.

use longwave::eval::metrics::{Column, Documents, Facts, Measure, TokenSum};
use longwave::eval::protocols::{self, Key, Keys, Rules};
use longwave::eval::{Metric, Plan, Registered, Window};
use longwave::prelude::*;

/// The first tokens of every document.
struct Opening;

impl Rules for Opening {
    fn description(&self) -> &'static str {
        "One window at the beginning of each document; all of its tokens are scored."
    }

    fn keys(&self) -> &'static [Key] {
        &[]
    }

    fn plan(&self, _keys: &Keys, length: usize, documents: &protocols::Documents<'_>) -> Plan {
        let all = documents.tokens.iter().enumerate();
        let long: Vec<_> = all.filter(|(_, tokens)| **tokens > length).collect();
        let skipped_documents = documents.tokens.len() - long.len();
        let window = |(document, _)| Window { document, start: 0, first: 1, end: length + 1 };
        Plan { windows: long.into_iter().map(window).collect(), skipped_documents }
    }

    fn shown(&self) -> &'static [Metric] {
        &[SURE, Metric::Perplexity]
    }

    fn same_tokens_at_every_length(&self, _keys: &Keys, lengths: &[usize]) -> bool {
        lengths.len() == 1
    }

    fn in_words(&self, _keys: &Keys) -> String {
        "the first tokens of each document".to_owned()
    }
}

/// The share of tokens that the model gave more than half of the probability.
struct Sure;

const SURE: Metric = Metric::Registered(Registered::new("sure", &Sure));

const SUMS: TokenSum =
    TokenSum { name: "sure_tokens", of: |score| f64::from(score.nll < 2f64.ln()), counts: true };

impl Measure for Sure {
    fn title(&self) -> &'static str {
        "Sure tokens in %"
    }

    fn unit(&self) -> &'static str {
        "share of the tokens"
    }

    fn lower_is_better(&self) -> bool {
        false
    }

    fn is_share(&self) -> bool {
        true
    }

    fn column(&self) -> Option<Column> {
        Some(Column::new("sure", "sure_se"))
    }

    fn token_sum(&self) -> Option<TokenSum> {
        Some(SUMS)
    }

    fn documents(&self, facts: &Facts<'_>) -> Option<Documents> {
        let sums = facts.per_document?;
        Some(Documents { sums: sums.get(SUMS.name)?, weights: sums.tokens.clone() })
    }
}

fn main() -> ExitCode {
    Program::new().protocol("opening", &Opening).metric("sure", &Sure).run()
}
