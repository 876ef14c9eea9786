//! What a table says around its numbers: title, setting and notes.

use super::chance::{CHANCE, is_chance};
use super::order::length_of_order;
use super::{Cell, Spread, TableRow};
use crate::block::{Block, Line, multiple};
use longwave_core::in_order::distinct;
use longwave_eval::label::assigned;
use longwave_eval::metrics::DocumentSums;
use longwave_eval::parts::WINDOWS;
use longwave_eval::text::Material;
use longwave_eval::{Metric, ResultRow, ScoredTokens, Scoring, Settings, WINDOW_BASELINE};
use serde_json::Value;
use std::collections::BTreeSet;

/// Which text was read, and with which checkpoint, as a title ends.
pub(crate) fn text_of(block: &Block) -> String {
    match block.checkpoint.as_str() {
        "last" => split_of(block),
        checkpoint => format!("{}, {checkpoint} checkpoint", split_of(block)),
    }
}

fn split_of(block: &Block) -> String {
    let text = text_and_split(block);
    match block.settings.tokens() {
        ScoredTokens::All => text,
        ScoredTokens::Key => format!("{text}, key tokens"),
    }
}

fn text_and_split(block: &Block) -> String {
    let settings = &block.settings;
    let named = distinct(block.rows().filter_map(|row| row.corpus.as_deref()));
    let corpus = named.first().copied().unwrap_or_default();
    if has_answers(settings) {
        format!(" {}, {} split", named.join(" and "), settings.split)
    } else if settings.corpus_hash.is_some() {
        format!(", {} split of {corpus}", settings.split)
    } else {
        format!(", {} split", settings.split)
    }
}

pub(super) fn layout(settings: &Settings) -> String {
    let text = settings.protocol.in_words(&settings.keys);
    let text = match settings.score {
        Some(Scoring::Every) => format!("{text}, every one of a sequence"),
        Some(Scoring::Last) => format!("{text}, the last one of a sequence alone"),
        None => text,
    };
    let asked: Vec<String> = settings.task.fields().iter().map(|(key, value)| assigned(key, value)).collect();
    let text = if asked.is_empty() { text } else { format!("{text}; asked with {}", asked.join(", ")) };
    let text = match settings.keys.windows_per_document() {
        Some(limit) => format!("{text}, up to {limit} of each document"),
        None => text,
    };
    let text = match &settings.key_tokens {
        Some(hash) => format!("{text}; of these the key tokens of file {hash} (LongPPL)"),
        None => text,
    };
    match &settings.bos {
        Some(bos) => format!("{text}; every text begins with `{bos}`"),
        None => text,
    }
}

fn has_answers(settings: &Settings) -> bool {
    settings.protocol.material() == Material::Answers
}

/// Scored tokens and documents per cell, and the documents skipped.
pub(super) fn counts(block: &Block) -> String {
    let task = has_answers(&block.settings);
    let range = |of: fn(&ResultRow) -> u64| {
        let (least, most) = block.rows().map(of).fold((u64::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
        if least == most { most.to_string() } else { format!("{least} to {most}") }
    };
    let documents = |of: fn(&ResultRow) -> u64| match (range(of), task) {
        (count, true) => format!("{count} sequences"),
        (count, _) if count == "1" => "1 document".to_owned(),
        (count, _) => format!("{count} documents"),
    };
    if task {
        return format!(
            "{} tokens of {} scored per cell",
            range(|row| row.tokens),
            documents(|row| row.documents as u64)
        );
    }
    format!(
        "{} tokens of {} scored per cell, {} too short",
        range(|row| row.tokens),
        documents(|row| row.documents as u64),
        documents(|row| row.skipped_documents as u64)
    )
}

pub(super) fn notes(block: &Block, rows: &[TableRow], metric: Metric) -> Vec<String> {
    let cells: Vec<&Cell> = rows.iter().flat_map(|row| row.cells.iter().flatten()).collect();
    let mut notes: Vec<String> = block.obstacle(metric).into_iter().collect();
    notes.extend(notes_of_errors(block, &cells, metric));
    notes.extend(marks(block, &cells, metric, "length"));
    if rows.iter().any(is_chance) {
        notes.push(format!("{CHANCE} is a guess that is always the most frequent token of the answers"));
    }
    notes.extend(across(block).map(str::to_owned));
    notes.extend(many_unknown(block));
    notes.extend(without_sums(block));
    notes.extend(devices_that_do_not_repeat(block));
    let differences: Vec<&&Cell> = cells.iter().filter(|cell| cell.metric == Metric::Difference).collect();
    if let (false, Some(longest)) = (differences.is_empty(), block.lengths.last()) {
        // The note on ± over seeds is about per cent.
        let is_over_seeds = metric.is_exponential() && differences.iter().any(|cell| cell.seeds > 1);
        notes.push(format!(
            "\u{394} is the loss at {longest} tokens minus that of {}, in nats per token{}, paired by {}",
            against(block, *longest),
            if is_over_seeds { " (so is its ±)" } else { "" },
            block.rows().next().map_or("document", ResultRow::unit)
        ));
    }
    notes
}

/// What the errors of cells are over, or why there are none.
pub(crate) fn notes_of_errors(block: &Block, cells: &[&Cell], metric: Metric) -> Vec<String> {
    let seeds = cells.iter().map(|cell| cell.seeds).max().unwrap_or(0);
    let mut notes = Vec::new();
    if seeds > 1 {
        let percent = ", in per cent of the perplexity: 100 times that of the loss in nats";
        let unit = if metric.is_exponential() { percent } else { "" };
        notes.push(format!(
            "± is one standard deviation over seeds{unit} (up to {seeds} per cell; none for one seed)"
        ));
        if metric.is_exponential() {
            notes.push("the perplexity of several seeds is exp of the mean of their losses".into());
        }
    } else if cells.iter().any(|cell| matches!(cell.error, Some(Spread::Interval(..)))) {
        notes.push("[ ] is the 95% interval over sequences (Wilson's score interval)".into());
    } else if cells.iter().any(|cell| cell.error.is_some()) {
        let unit = block.rows().next().map_or("document", ResultRow::unit);
        let of = if unit == "block" {
            format!(" of {WINDOWS} windows or more of the one document")
        } else {
            String::new()
        };
        notes.push(format!("± is one standard error over {unit}s{of}"));
    } else if block.rows().any(|row| row.documents == 1) {
        let unit = block.settings.protocol.material().unit();
        let more = format!("; {} windows of it that do not overlap would make two blocks", 2 * WINDOWS);
        let has_blocks =
            matches!(block.settings.protocol.material(), Material::Documents | Material::Watched);
        let more = if has_blocks { more } else { String::new() };
        notes.push(format!("one {unit} alone was scored, so there is no ±{more}"));
    }
    notes
}

/// What makes losses too low where the tokenizer knows little of the text.
fn many_unknown(block: &Block) -> Option<String> {
    let share = block.rows().filter_map(ResultRow::many_unknown).reduce(f64::max)?;
    Some(format!(
        "warning: {:.0}% of the scored text, in bytes, is unknown to the tokenizer or left out by it: nothing predicts what it says, \
         so losses and perplexities are too low",
        100.0 * share
    ))
}

/// What is missing where a row has more documents than it keeps the sums of.
fn without_sums(block: &Block) -> Option<String> {
    let most = DocumentSums::MOST;
    block.rows().any(|row| row.per_document.is_none() && row.documents > most).then(|| {
        format!(
            "a row keeps the sums of {most} documents at most, and more were scored: there are no differences between readings, and \
             `compare` has no errors over documents"
        )
    })
}

/// The devices whose rows come out with other last digits when they are measured again.
fn devices_that_do_not_repeat(block: &Block) -> Option<String> {
    let rows = block.lines.iter().flat_map(|line| line.rows.values().flatten());
    let devices = rows.filter(|row| row.repeatable == Some(false)).map(|row| row.device.as_str());
    let devices: BTreeSet<&str> = devices.collect();
    (!devices.is_empty()).then(|| {
        let named = devices.into_iter().collect::<Vec<_>>().join(" and ");
        format!("{named} does not repeat its sums bit for bit: measured again, the last digits may differ")
    })
}

/// What a reader must know before comparing two lengths of a block, see [`across_lengths`].
pub(crate) fn across(block: &Block) -> Option<&'static str> {
    across_lengths(&block.settings, &block.lengths)
}

/// What a reader must know before comparing two lengths; nothing where they score the same tokens. The setting of a
/// task says already that every length asks other sequences.
pub fn across_lengths(settings: &Settings, lengths: &[usize]) -> Option<&'static str> {
    let same = settings.protocol.same_tokens_at_every_length(&settings.keys, lengths);
    let compares = same || lengths.len() < 2 || has_answers(settings);
    (!compares).then_some("the lengths score different tokens: compare down a column, not across columns")
}

/// What the marks of lines and cells mean, where lines are sorted by the metric `order`.
pub(super) fn marks(block: &Block, cells: &[&Cell], order: Metric, column: &str) -> Vec<String> {
    let mut notes = Vec::new();
    if cells.iter().any(|cell| cell.best) {
        let of = if block.runs().len() > 1 { "each run and " } else { "each " };
        let of_task = if block.tasks().len() > 1 { " and way to ask the task" } else { "" };
        notes.push(format!("the best of {of}{column}{of_task} is marked, the window baseline aside"));
    }
    if block.lines.len() > 1 && block.tasks().len() < 2 {
        let length = length_of_order(block);
        let multiple = multiple(length, block.settings.train_length);
        let of = if block.runs().len() > 1 { "the lines of each run are sorted" } else { "sorted" };
        notes.push(format!("{of} by the {} at {length} ({multiple})", order.in_words()));
    }
    if block.lines.iter().any(Line::is_baseline) {
        let length = block.settings.train_length;
        notes.push(format!(
            "< window_baseline reads the last L = {length} tokens only: what a longer context must beat"
        ));
    }
    if block.lines.iter().any(|line| line.chosen) {
        notes.push("† its values were chosen by the loss on the validation split".into());
    }
    notes
}

fn against(block: &Block, length: usize) -> String {
    let rows = block.lines.iter().filter_map(|line| line.rows.get(&length)).flatten();
    let recorded =
        rows.filter_map(|row| row.difference.as_ref()).map(|difference| &difference.against).next();
    let is_it = |line: &&Line| match recorded {
        Some(Value::String(name)) => line.extend == *name,
        Some(config) => line.rows.values().flatten().any(|row| row.extend_config == *config),
        None => false,
    };
    block.lines.iter().find(is_it).map_or_else(|| WINDOW_BASELINE.to_owned(), |line| line.label.clone())
}
