//! Chooses the key tokens of a text by a trained model.

use crate::key_tokens::{Document, FORMAT, KeyTokens, ReferenceRun, Rule};
use crate::measure::{Counter, Progress, Subject, needed, reading};
use crate::memory_check;
use crate::plan::Plan;
use crate::scorer::Scorer;
use crate::source::Source;
use longwave_core::memory_check::available;
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_position::ExtensionConfig;

/// What key tokens are chosen by, and of which text.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub rule: Rule,
    /// Other text than the corpus of the reference run.
    pub corpus: Option<String>,
    pub split: Split,
}

/// Reads a text twice with a model, as trained, and gives its key tokens; `sha256` is the hash of the checkpoint's file.
///
/// # Errors
/// The text is none that was written, no document is long enough, a reading does not fit in memory, or no token is a key token.
pub fn choose(
    subject: &Subject<'_>,
    sha256: &str,
    choice: &Choice,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<KeyTokens> {
    let rule = choice.rule;
    rule.check()?;
    let source = Source::open(subject.dataset, choice.corpus.as_deref(), choice.split)?;
    let Some(text_hash) = source.text_hash.clone().filter(|_| !source.has_task() || source.is_other_text())
    else {
        return Err(Error::usage("the run was trained on a task, and key tokens are those of a text")
            .hint("name a text with `--corpus PATH`"));
    };
    let text = source.documents();
    let documents = text.lengths();
    let plans = [rule.short_reading(&documents), rule.long_reading(&documents)];
    if plans[0].windows.is_empty() {
        let longest = documents.iter().max().copied().unwrap_or(0);
        return Err(Error::failed(format!(
            "no document of the {} split has more than {} tokens: the longest has {longest}",
            choice.split, rule.short
        ))
        .hint("give a smaller `--short`, or a corpus of longer documents"));
    }
    let direct = ExtensionConfig::from_value(&"direct".into(), "extend")?;
    let mut counter = Counter::new(plans.iter().map(Plan::tokens_read).sum(), show);
    let mut scores = Vec::new();
    for plan in &plans {
        let length = plan.longest_reading();
        memory_check::check(length, needed(plan, subject.resolved).reading, available())?;
        let read = reading(&subject.model.position, &direct, subject.config.train.length, length)?;
        let scorer = Scorer { model: subject.model, text: &text, device: subject.device };
        scores.push(scorer.scores(plan, &read, &mut |tokens| counter.read(tokens))?);
    }
    let key = rule.key_tokens(&documents, &scores[0], &scores[1]);
    let chosen = KeyTokens {
        format: FORMAT,
        reference: ReferenceRun {
            run: subject.config.name.clone(),
            config_hash: subject.config_hash.to_owned(),
            checkpoint: subject.checkpoint.to_owned(),
            step: subject.step,
            sha256: sha256.to_owned(),
        },
        rule,
        tokenizer: source.tokenizer_hash()?,
        corpus: source.name.clone(),
        split: choice.split,
        text: text_hash,
        documents: documents.into_iter().zip(key).map(|(tokens, key)| Document { tokens, key }).collect(),
    };
    if chosen.count() > 0 {
        return Ok(chosen);
    }
    Err(Error::failed(format!(
        "none of {} tokens is a key token: nowhere does the longer context lower the loss by more than {} nats to below {}",
        chosen.candidates(),
        rule.alpha,
        -rule.beta
    ))
    .hint("give a smaller `--alpha` or a smaller `--beta`, so that 1% to 5% of the tokens are key"))
}
