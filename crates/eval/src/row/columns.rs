//! What the columns of result files hold: the one list that CSV and Parquet files, and their reference, follow.

use crate::column::{ColumnInfo, ColumnType};
use crate::metrics::Metric;
use crate::protocols::{self, Unit};

use ColumnType::{Boolean, Number, Text, Whole};

/// The columns before those of protocols.
const FIRST: [(&str, ColumnType, &str); 16] = [
    ("run", Text, "name of the run, as its config has it"),
    ("seed", Whole, "seed of the run"),
    ("encoding", Text, "kind of the encoding"),
    ("extend", Text, "kind of the extension that the model was read with, or `window_baseline`"),
    ("extend_config", Text, "the extension's config with every default, as JSON"),
    (
        "chosen_among",
        Text,
        "what the extension's values were chosen among on the validation split, as JSON; null where nothing was chosen",
    ),
    ("protocol", Text, "which windows were read, and which of their tokens were scored"),
    ("corpus", Text, "the corpus as written in the config, or the task"),
    ("corpus_hash", Text, "hash of the text where it is not the corpus of the run's config"),
    ("text_hash", Text, "hash of the text that was read: equal texts have equal hashes, wherever they lie"),
    ("split", Text, "`train`, `validation` or `test`"),
    (
        "checkpoint",
        Text,
        "`last`, `previous`, `best`, the end of a stage such as `stage-0`, or a kept step such as `step-100`",
    ),
    ("step", Whole, "training step of the checkpoint, counted through all stages"),
    ("stage", Whole, "stage of the checkpoint: 0 is `[train]`"),
    ("train_length", Whole, "L: tokens of a training sequence of the first stage"),
    ("length", Whole, "tokens of context"),
];

/// The columns between those of protocols and those of metrics.
const COUNTS: [(&str, ColumnType, &str); 5] = [
    ("exact", Boolean, "`window_baseline`: whether every target had a reading of its own"),
    ("tokens", Whole, "scored tokens"),
    ("documents", Whole, "documents with a scored token"),
    ("skipped_documents", Whole, "documents too short for a window"),
    ("bytes", Whole, "bytes of text of the scored tokens"),
];

/// The columns after those of metrics.
const LAST: [(&str, ColumnType, &str); 5] = [
    ("config_hash", Text, "hash of what the model was trained with"),
    ("device", Text, "the device of the measurement, in words"),
    ("threads", Whole, "threads of the measurement"),
    ("version", Text, "version of the program"),
    ("format", Whole, "version of the row format"),
];

/// The fields of a row that are lists, which CSV and Parquet files leave out.
pub const LISTS: [(&str, &str); 4] = [
    ("bigrams", "the loss by where the bigram that ends in the token was last seen"),
    ("positions", "the loss by position, under the protocol `by_position`"),
    ("per_document", "sums of each document, which paired differences need"),
    (
        "difference",
        "`against`, `nll` and `nll_se`: the loss minus that of another reading; CSV files have them as `against`, \
         `difference` and `difference_se`",
    ),
];

/// The names of fields that belong to neither a protocol nor a metric, in rows, in files, or of one target.
pub(crate) fn reserved() -> impl Iterator<Item = &'static str> {
    let columns = FIRST.iter().chain(&COUNTS).chain(&LAST).chain(&TOKEN_COLUMNS).map(|(name, ..)| *name);
    columns.chain(LISTS.iter().map(|(name, _)| *name)).chain(["against", "difference_se"])
}

/// The columns of a row in CSV and Parquet files, in order.
pub fn columns() -> Vec<ColumnInfo> {
    let fixed = |list: &[(&'static str, ColumnType, &'static str)]| -> Vec<ColumnInfo> {
        list.iter().map(|&(name, of, meaning)| ColumnInfo { name, of, meaning: meaning.into() }).collect()
    };
    let keys = protocols::keys().into_iter().map(|key| ColumnInfo {
        name: key.name,
        of: Whole,
        meaning: match key.unit {
            Unit::Tokens => format!("key of the protocol, in tokens: {}", key.description),
            Unit::Count => format!("key of the protocol: {}", key.description),
        }
        .into(),
    });
    let metrics = Metric::all().iter().flat_map(|metric| metric.csv_columns());
    fixed(&FIRST).into_iter().chain(keys).chain(fixed(&COUNTS)).chain(metrics).chain(fixed(&LAST)).collect()
}

/// The fields of a line of `--tokens`, in order.
pub const TOKEN_COLUMNS: [(&str, ColumnType, &str); 13] = [
    ("run", Text, "as in a row"),
    ("seed", Whole, "as in a row"),
    ("extend", Text, "how the model was read, as in a row"),
    ("extend_config", Text, "the extension's config; in CSV as JSON"),
    ("protocol", Text, "as in a row"),
    ("split", Text, "as in a row"),
    ("length", Whole, "tokens of context, as in a row"),
    ("document", Text, "name of the document; of a task, the number of the sequence"),
    ("position", Whole, "the token's place in its document, from 0; of repeated text, in the repeated one"),
    ("context", Whole, "tokens read before it"),
    ("token", Whole, "its id"),
    ("nll", Number, "negative log likelihood in nats; null where it is no finite number"),
    ("correct", Boolean, "whether the model held it most likely"),
];
