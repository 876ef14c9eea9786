//! Rejects encodings that one layer cannot read together.

use crate::encoding::{HeadUse, ScoreUse};
use crate::encodings::Encoding;
use crate::positions::Positions;
use longwave_core::{Error, Result};

pub(super) fn check(encodings: &[Encoding], section: &str, name: &str) -> Result<()> {
    if encodings.iter().filter(|encoding| encoding.rotation(0).is_some()).count() > 1 {
        return Err(Error::usage(format!("`{section}` rotates q and k twice: `{name}`"))
            .hint("keep one rotary encoding in the list"));
    }
    if encodings.iter().filter(|encoding| encoding.sink(0).is_some()).count() > 1 {
        return Err(Error::usage(format!("`{section}` has two sinks in one softmax: `{name}`"))
            .hint("keep one `sink_logit` in the list"));
    }
    check_computed_scores(encodings, section, name)?;
    check_centre(encodings, section, name)?;
    let uses = encodings.iter().filter(|encoding| encoding.capabilities().head_use != HeadUse::None).count();
    if uses > 1 && encodings.iter().any(|encoding| encoding.capabilities().head_use.widens()) {
        return Err(Error::usage(format!(
            "`{section}` lists encodings that cannot share q and k: `{name}`: one makes them wider, another needs \
             their width",
        ))
        .hint("keep one of `pope`, `transformer_xl`, `tupe`, `shaw`, `deberta` and `cope` in the list"));
    }
    if let Some(late) = encodings.iter().skip(1).find(|encoding| encoding.capabilities().replaces_hidden()) {
        return Err(Error::usage(format!(
            "`{section}` lists `{}` after an encoding whose work it would discard: `{name}`",
            late.kind()
        ))
        .hint("list it first"));
    }
    Ok(())
}

/// Rejects a decay around the middle of the text beside an encoding that reads q or k: the centre cancels in their product alone, so a loss
/// would depend on how much text follows.
fn check_centre(encodings: &[Encoding], section: &str, name: &str) -> Result<()> {
    let moves = |encoding: &&Encoding| {
        let decay = encoding.rotation(0).and_then(|rotation| rotation.decay);
        decay.is_some_and(|decay| decay.centre.is_none())
    };
    let reads = |encoding: &&Encoding| encoding.capabilities().head_use.reads();
    let (Some(moves), Some(reads)) = (encodings.iter().find(moves), encodings.iter().find(reads)) else {
        return Ok(());
    };
    let [decays, reader] = [moves.kind(), reads.kind()];
    Err(Error::usage(format!(
        "`{section}` lists `{decays}` without a `centre` beside `{reader}`, which reads q or k: `{name}`: the centre would be the middle of \
         the text, so the loss of a token would depend on how much text follows it",
    ))
    .hint(format!("give `{decays}` a `centre` in tokens, such as `centre = 0`, or list it without `{reader}`")))
}

/// Rejects encodings that change q, k or scores beside one that computes the scores itself.
fn check_computed_scores(encodings: &[Encoding], section: &str, name: &str) -> Result<()> {
    let Some(computes) = encodings.iter().position(|one| one.capabilities().score_use == ScoreUse::Computes)
    else {
        return Ok(());
    };
    let changes = |encoding: &&Encoding| {
        let capabilities = encoding.capabilities();
        encoding.rotation(0).is_some()
            || capabilities.head_use != HeadUse::None
            || capabilities.is_relative_qk
            || encoding.needs_scores(&Positions::range(0..1)) && !capabilities.adds_bias()
    };
    let mut others = encodings.iter().enumerate().filter(|(index, _)| *index != computes);
    let Some((_, other)) = others.find(|(_, encoding)| changes(encoding)) else { return Ok(()) };
    Err(Error::usage(format!(
        "`{section}` lists `{}`, which changes q, k or their scores, beside `{}`, which computes the scores of q and k \
         as they are: `{name}`",
        other.kind(),
        encodings[computes].kind(),
    ))
    .hint(format!(
        "keep one of them; a bias such as `fox` or `alibi`, or what is added to the hidden state, goes with `{}`",
        encodings[computes].kind()
    )))
}
