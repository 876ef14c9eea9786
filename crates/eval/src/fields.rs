//! The fields of rows, files and blocks that belong to neither a protocol nor a metric. Protocols and metrics of other
//! crates cannot take their names.

use crate::column::ColumnType;

use ColumnType::{Boolean, Number, Text, Whole};

/// The keys of every `[[evaluate]]` block before those of protocols.
pub(crate) const BLOCK_KEYS: [&str; 10] = [
    "lengths",
    "extend",
    "against",
    "protocol",
    "corpus",
    "split",
    "checkpoints",
    "tokens",
    "key_tokens",
    "task",
];

/// The key of every `[[evaluate]]` block after those of protocols.
pub(crate) const EXACT: &str = "exact";

/// The columns before those of protocols.
pub(crate) const FIRST: [(&str, ColumnType, &str); 21] = [
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
    (
        "text_hash",
        Text,
        "hash of the text that was read, or of what the task asks: equal texts have equal hashes, wherever they lie",
    ),
    ("split", Text, "`train`, `valid` or `test`"),
    (
        "key_tokens",
        Text,
        "hash of the file of key tokens, where these alone were scored; empty where all were",
    ),
    ("key_tokens_file", Text, "that file, as written in the config"),
    (
        "checkpoint",
        Text,
        "`last`, `previous`, `best`, the end of a stage such as `stage-0`, or a kept step such as `step-100`",
    ),
    ("step", Whole, "training step of the checkpoint, counted through all stages"),
    ("stage", Whole, "stage of the checkpoint: 0 is `[train]`"),
    ("bos", Text, "the token that every text began with (`data.bos`); empty for none"),
    ("task", Text, "values that the evaluation gives keys of the run's task, as JSON; empty for none"),
    (
        "score",
        Text,
        "of a task whose sequences have several answers, which were scored: `every` or `last`; empty otherwise",
    ),
    ("train_length", Whole, "L: tokens of a training sequence of the first stage"),
    ("length", Whole, "tokens of context"),
];

/// The columns between those of protocols and those of metrics.
pub(crate) const COUNTS: [(&str, ColumnType, &str); 7] = [
    ("exact", Boolean, "`window_baseline`: whether every target had a reading of its own"),
    ("tokens", Whole, "scored tokens"),
    ("documents", Whole, "documents with a scored token"),
    ("skipped_documents", Whole, "documents too short for a window"),
    ("bytes", Whole, "bytes of text of the scored tokens"),
    (
        "unknown_tokens",
        Whole,
        "scored tokens that stand for text which the tokenizer does not know; empty for none",
    ),
    (
        "unread_bytes",
        Whole,
        "those of `bytes` that the tokenizer does not know or leaves out; empty for none",
    ),
];

/// The columns after those of metrics.
pub(crate) const LAST: [(&str, ColumnType, &str); 6] = [
    ("config_hash", Text, "hash of what the model was trained with"),
    ("device", Text, "the device of the measurement, in words"),
    (
        "repeatable",
        Boolean,
        "false where the device gave other bits when it computed the same again; empty otherwise",
    ),
    ("threads", Whole, "threads of the measurement"),
    ("version", Text, "version of the program"),
    ("format", Whole, "version of the row format"),
];

/// The fields of a row that are lists, which CSV and Parquet files leave out.
pub const LISTS: [(&str, &str); 5] = [
    (
        "bigrams",
        "the loss by where the bigram that ends in the token was last seen in its document. Of each: `last_seen` (`within` \
         L tokens, `beyond` them, or `never`), `tokens` (scored), `nll` (nats per token), `nll_se` (its standard error over \
         documents) and `accuracy` (share of the tokens)",
    ),
    (
        "positions",
        "the loss by position, under the protocol `by_position`. Of each bucket: `position` (its first place in the window, \
         from 0), `tokens` (scored) and `nll` (nats per token)",
    ),
    (
        "per_document",
        "sums of each document, which paired differences need: `tokens` (scored), `bytes` (of text that these stand for), `nll` \
         (nats), `correct` (tokens that the model held most likely), and those of registered metrics. With `blocks`, they are of \
         blocks of the one document",
    ),
    (
        "difference",
        "`against`, `nll` and `nll_se`: the loss minus that of another reading, in nats per token; CSV files have them as \
         `against`, `difference` and `difference_se`",
    ),
    ("checksum", "hash of the rest of the line, which shows damage"),
];

/// The fields of a line of `--tokens`, in order.
pub const TOKEN_COLUMNS: [(&str, ColumnType, &str); 17] = [
    ("run", Text, "as in a row"),
    ("seed", Whole, "as in a row"),
    ("extend", Text, "how the model was read, as in a row"),
    ("extend_config", Text, "the extension's config; in CSV as JSON"),
    ("protocol", Text, "as in a row"),
    ("corpus", Text, "as in a row"),
    ("split", Text, "as in a row"),
    ("checkpoint", Text, "as in a row"),
    ("step", Whole, "training step of the checkpoint, as in a row"),
    (
        "task",
        Text,
        "values that the evaluation gives keys of the run's task; null for none; in CSV as JSON, and empty for none",
    ),
    ("length", Whole, "tokens of context, as in a row"),
    ("document", Text, "name of the document; of a task, the number of the sequence"),
    ("position", Whole, "the token's place in its document, from 0; of repeated text, in the repeated one"),
    ("context", Whole, "tokens read before it"),
    ("token", Whole, "its id"),
    ("nll", Number, "negative log likelihood in nats; null where it is no finite number"),
    ("correct", Boolean, "whether the model held it most likely"),
];

/// The names of all columns and lists here, which no key of a protocol and no column of a metric may have.
pub(crate) fn reserved_columns() -> impl Iterator<Item = &'static str> {
    let columns = FIRST.iter().chain(&COUNTS).chain(&LAST).chain(&TOKEN_COLUMNS).map(|(name, ..)| *name);
    columns.chain(LISTS.iter().map(|(name, _)| *name)).chain(["against", "difference_se"])
}

/// The names of keys that a block has whatever its protocol; a study's block has `only` too.
pub(crate) fn reserved_keys() -> impl Iterator<Item = &'static str> {
    BLOCK_KEYS.into_iter().chain([EXACT, "only"])
}
