//! The manners in which the rows of a claim were measured: the protocol and its keys, the split, the text.
//!
//! A study may read a run in several manners that its claims do not tell apart, such as windows of two numbers. A claim compares
//! one row of each seed and side, all of one manner: losses of other texts or tokens are no pair.

use longwave_eval::{ResolvedEvaluate, ResultRow, Settings};

/// Settings without lengths, and without what belongs to the run.
pub(super) type Manner = Settings;

pub(super) fn of_row(row: &ResultRow) -> Manner {
    of_settings(&row.settings)
}

/// The same of what is planned, where paths stand for the hashes of files.
pub(super) fn of_block(block: &ResolvedEvaluate) -> Manner {
    let settings = block.settings(0, "direct");
    let texts =
        Settings { corpus_hash: block.corpus.clone(), key_tokens: block.key_tokens.clone(), ..settings };
    of_settings(&texts)
}

fn of_settings(settings: &Settings) -> Manner {
    Manner { train_length: 0, ..settings.of_evaluation() }
}

/// Of the manners that each side was measured in, in their order: the first that both have. Where they share none, the first two of one
/// protocol, split and text, as of models whose windows follow their training lengths.
pub(super) fn shared(left: &[Manner], right: &[Manner]) -> Option<[Manner; 2]> {
    let pairs = || left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
    let kind = |it: &Manner| (it.protocol, it.split, it.corpus_hash.clone(), it.key_tokens.clone());
    let found = pairs().find(|(a, b)| a == b).or_else(|| pairs().find(|(a, b)| kind(a) == kind(b)));
    found.map(|(a, b)| [a.clone(), b.clone()])
}

#[cfg(test)]
mod tests {
    use crate::claim::ClaimConfig;
    use crate::difference::tests::set_key;
    use crate::judge::{Judged, judge};
    use crate::plan::tests::plan;
    use crate::results::Results;
    use crate::results::tests::results;

    const AXES: &str = "seeds = 3\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n";

    fn judged(results: &Results) -> Judged {
        let says = "says = \"rope, ntk = rope, yarn at 4L\"\ntolerance = 0.3".parse().unwrap();
        let claim = ClaimConfig::read(&says, "claim[0]").unwrap();
        judge(&[claim], &plan(AXES), results).unwrap().claims.remove(0)
    }

    #[test]
    fn a_seed_that_was_measured_in_several_manners_is_one_seed() {
        let once = results();
        let mut twice = once.clone();
        for measured in &mut twice.rows {
            set_key(&mut measured.row, "windows_per_document", 2);
        }
        for measured in &once.rows {
            // Other windows hold other tokens: their losses lie a nat higher.
            let mut measured = measured.clone();
            set_key(&mut measured.row, "windows_per_document", 12);
            let nll = measured.row.nll() + 1.0;
            measured.row.values.set("nll", Some(nll));
            twice.rows.push(measured);
        }
        let (alone, first) = (judged(&once), judged(&twice));
        assert_eq!(first.difference.as_ref().unwrap().seeds, 3);
        assert_eq!((first.interval, first.verdict), (alone.interval, alone.verdict));
        // The second manner is compared where the first lacks a side.
        twice
            .rows
            .retain(|it| it.extend != "yarn" || it.row.settings.keys.get("windows_per_document") == Some(12));
        let second = judged(&twice);
        assert_eq!(second.difference.as_ref().unwrap().seeds, 3);
        assert!((second.difference.unwrap().mean - alone.difference.unwrap().mean).abs() < 1e-12);
    }
}
