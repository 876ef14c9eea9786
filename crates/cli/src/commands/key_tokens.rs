//! `longwave key-tokens`: chooses the key tokens of a text by a trained run, for other runs to be scored on.

use crate::device_check;
use crate::options::{RunOptions, introduce, parsed};
use crate::output::{json_lines, lines, status};
use crate::terminal::{Terminal, describe_notes};
use clap::Args;
use longwave_core::text::quoted;
use longwave_core::{Error, Result};
use longwave_data::Split;
use longwave_eval::KeyTokens;
use longwave_eval::key_choice::Choice;
use longwave_eval::key_tokens::Rule;
use longwave_experiment::{FoundRun, TrainedRun};
use longwave_position::{Lengths, Tokens};
use longwave_train::Run;
use serde_json::json;
use std::path::{Path, PathBuf};

/// The shares of key tokens that say something: of fewer the errors are large, more are no longer those that a long context decides.
const USUAL: std::ops::RangeInclusive<f64> = 0.01..=0.05;

/// Choose the tokens that only a long context makes likely (`LongPPL`), for other runs to be scored on
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    of: RunOptions,
    /// The file to write, such as `keys.json`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The text to read, in tokens of the run's tokenizer: a folder, a glob or a file; the run's own unless given
    #[arg(long, value_name = "PATH")]
    corpus: Option<String>,
    /// The part of the corpus to read
    #[arg(long, value_name = "train|validation|test", default_value_t = Split::Test, value_parser = parsed::<Split>)]
    split: Split,
    /// Tokens of the short context, at least: L of the runs to be scored. Here L is what the run at hand was trained on
    #[arg(long, value_name = "N|L/8|..", default_value = "L/8")]
    short: Tokens,
    /// From one short context's beginning to the next; a quarter of `--short` unless given
    #[arg(long, value_name = "N|L/32|..")]
    sliding: Option<Tokens>,
    /// By how many nats the longer context must lower the loss of a key token
    #[arg(long, value_name = "NATS", default_value_t = 2.0, allow_negative_numbers = true)]
    alpha: f64,
    /// The negative of the loss in nats that a key token must come below
    #[arg(long, value_name = "NATS", default_value_t = -2.0, allow_negative_numbers = true)]
    beta: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let RunOptions { run, checkpoint, json, compute } = &arguments.of;
    Run::read(run)?;
    let file = &arguments.file;
    check_file(file)?;
    let corpus = arguments.corpus.as_deref();
    let found = FoundRun::find(run, checkpoint.unwrap_or_default(), corpus, &mut Terminal::default())?;
    let other = corpus.filter(|_| found.other_given()).map(str::to_owned);
    let mut machine = compute.open()?;
    device_check::before_reading(&mut machine)?;
    let trained = TrainedRun::open_found(found, &machine, &mut Terminal::default())?;
    if let Some(warning) = trained.warning() {
        tracing::warn!("{warning}");
    }
    let long = trained.longest_trained();
    let lengths = Lengths { train: long, length: long };
    let short = arguments.short.whole("--short", lengths)?;
    let sliding = match arguments.sliding {
        Some(sliding) => sliding.whole("--sliding", lengths)?,
        None => (short / 4).max(1),
    };
    let rule = Rule { alpha: arguments.alpha, beta: arguments.beta, short, sliding, long };
    rule.check()?;
    describe_notes(&trained.notes(&[])?);
    introduce(&machine);
    let choice = Choice { rule, corpus: other, split: arguments.split };
    let keys = trained.key_tokens(&choice, &mut Terminal::default())?;
    keys.write(file)?;
    let (_, hash) = KeyTokens::read(file)?;
    if *json {
        return json_lines([summary(&keys, file, &hash)]);
    }
    lines(&described(&keys, file, &hash))?;
    let share = share(&keys);
    if !USUAL.contains(&share) {
        let other = if share < *USUAL.start() { "smaller" } else { "larger" };
        status(&format!(
            "{:.1}% of the tokens are key, and usual are 1% to 5%: a {other} `--alpha` or `--beta` changes that",
            100.0 * share
        ));
    }
    Ok(())
}

/// Rows name a file by its hash: it is written once.
fn check_file(file: &Path) -> Result<()> {
    let shown = file.display();
    if file.exists() {
        return Err(Error::usage(format!("`{shown}` exists, and a file of key tokens is never changed"))
            .hint("name another file, or remove that one first"));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => {
            Err(Error::usage(format!("cannot write `{shown}`: there is no folder `{}`", folder.display()))
                .hint("make the folder first, or name a file in another one"))
        }
    }
}

fn share(keys: &KeyTokens) -> f64 {
    keys.count() as f64 / keys.candidates() as f64
}

fn described(keys: &KeyTokens, file: &Path, hash: &str) -> String {
    let KeyTokens { reference, rule, corpus, split, documents, .. } = keys;
    let with = documents.iter().filter(|document| !document.key.is_empty()).count();
    format!(
        "Key tokens of {corpus}, {split} split, by {} ({} checkpoint, step {})\n\
         {} of {} tokens ({:.1}%), in {with} of {} documents\n\
         a longer context, of up to {} tokens in place of {} to {}, lowers their loss by more than {} nats to below {}\n\
         file {hash}: `longwave eval RUN --set tokens=key --set key_tokens={}` scores another run on them\n",
        reference.run,
        reference.checkpoint,
        reference.step,
        keys.count(),
        keys.candidates(),
        100.0 * share(keys),
        documents.len(),
        rule.long,
        rule.short,
        rule.short + rule.sliding - 1,
        rule.alpha,
        -rule.beta,
        quoted(&file.to_string_lossy())
    )
}

fn summary(keys: &KeyTokens, file: &Path, hash: &str) -> serde_json::Value {
    let KeyTokens { reference, rule, tokenizer, corpus, split, text, documents, .. } = keys;
    json!({
        "file": file,
        "key_tokens": hash,
        "reference": reference,
        "rule": rule,
        "tokenizer": tokenizer,
        "corpus": corpus,
        "split": split,
        "text": text,
        "documents": documents.len(),
        "tokens": keys.candidates(),
        "key": keys.count(),
    })
}
