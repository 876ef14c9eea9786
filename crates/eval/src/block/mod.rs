//! One `[[evaluate]]` block: what the file says, and the same checked with its defaults filled in.

mod checkpoints;

use crate::fields::{BLOCK_KEYS, EXACT};
use crate::plan::{Plan, WINDOW_BASELINE};
use crate::protocols::{self, Documents, Given, Keys, Protocol, Unit};
use crate::row::Settings;
use crate::scored_tokens::ScoredTokens;
use crate::source::Source;
use crate::task_keys::TaskKeys;
use crate::text::{Material, Text};
use longwave_core::config::check_path;
use longwave_core::{Error, OneOrMany, Result};
use longwave_data::{Dataset, Split};
use longwave_position::extensions::rope_parameters;
use longwave_position::{Lengths, Tokens};
use schemars::{JsonSchema, Schema};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::sync::LazyLock;
use toml::{Table, Value};

pub use checkpoints::Checkpoints;

/// One `[[evaluate]]` block, as written. Every length is a number of tokens or a multiple of the training length L,
/// such as `"2L"`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, transform = add_keys)]
pub struct EvaluateConfig {
    /// Context lengths to read the test at. Default: `["L", "2L", "4L", "8L"]`.
    #[serde(default = "lengths")]
    #[schemars(with = "OneOrMany<Tokens>")]
    pub lengths: Vec<Tokens>,
    /// Extensions to read with, each a kind (`"yarn"`) or a table (`{ kind = "yarn", ramp = "paper" }`). A list in
    /// the place of a value (`window = ["L/4", "L/2"]`) tries each on the validation split and reads this block's split
    /// with the best. Default: `["direct"]`.
    #[serde(default = "direct")]
    #[schemars(with = "OneOrMany<crate::extend_schema::ExtendSchema>")]
    pub extend: Vec<Value>,
    /// The reading that the others are compared with, paired by document: `window_baseline`, or one of `extend` by its
    /// kind or as a table. Default: `window_baseline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<crate::extend_schema::ReferenceSchema>")]
    pub against: Option<Value>,
    /// Which windows are read and which of their tokens are scored. Default: `fixed_target`.
    #[serde(default)]
    pub protocol: Protocol,
    /// Other text to read than the corpus of `[data]`, in tokens of the run's tokenizer: a folder, a glob
    /// or a file as there. Without folders `train`, `valid` and `test` all of it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<String>,
    /// The part of the corpus to read. Default: `test`.
    #[serde(default)]
    pub split: Split,
    /// The checkpoints to read: `"last"`, the end of training; `"best"`, the step of the best validation in its place; `"all"`, the end
    /// and the steps that `train.keep_checkpoints` names; or a list of such steps beside the end. Default: `"last"`.
    #[serde(default, skip_serializing_if = "Checkpoints::is_last")]
    pub checkpoints: Checkpoints,
    /// Which of the protocol's tokens are scored: `"all"`, or `"key"`, those of `key_tokens` alone (`LongPPL`). Default: `"all"`.
    #[serde(default, skip_serializing_if = "ScoredTokens::is_all")]
    pub tokens: ScoredTokens,
    /// `tokens = "key"`: the file of key tokens, which `longwave key-tokens` writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_tokens: Option<String>,
    /// `task`: other values for keys of `data.task`, such as `{ depth = 0.5 }` or `{ score = "last" }`. A list in the place of
    /// a value asks with each, in rows of their own: `{ depth = [0, 0.25, 0.5, 0.75, 1] }`. Default: as in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub task: Option<Table>,
    /// The keys of the protocol that are given, see [`crate::protocols`].
    #[serde(flatten)]
    #[schemars(skip)]
    pub keys: Keys<Tokens>,
    /// The window baseline gives every target exactly `train.length` tokens of context, at one reading
    /// per target, instead of reading blocks of `train.length / 8` targets together. Default: false.
    #[serde(default)]
    pub exact: bool,
}

fn lengths() -> Vec<Tokens> {
    [1.0, 2.0, 4.0, 8.0].map(Tokens::times).to_vec()
}

fn direct() -> Vec<Value> {
    vec![Value::String("direct".into())]
}

/// One `[[evaluate]]` block with everything filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedEvaluate {
    /// Context lengths, in tokens, as listed.
    pub lengths: Vec<usize>,
    /// Extensions as written: strings, or tables with a `kind`.
    pub extend: Vec<Value>,
    /// Which windows are read and which of their tokens are scored.
    pub protocol: Protocol,
    pub corpus: Option<String>,
    pub split: Split,
    pub checkpoints: Checkpoints,
    /// The file of key tokens, where these alone are scored.
    pub key_tokens: Option<String>,
    /// How the run's task is asked, one after the other; once without other values where none is given.
    pub tasks: Vec<TaskKeys>,
    /// Length of the first training stage, in tokens.
    pub train_length: usize,
    pub keys: Keys,
    /// Whether the window baseline reads every target for itself.
    pub exact: bool,
}

/// The block where nothing is written: how the test split is read as trained, at up to eight times L.
impl Default for EvaluateConfig {
    fn default() -> Self {
        Self {
            lengths: lengths(),
            extend: direct(),
            against: None,
            protocol: Protocol::default(),
            corpus: None,
            split: Split::default(),
            checkpoints: Checkpoints::default(),
            tokens: ScoredTokens::default(),
            key_tokens: None,
            task: None,
            keys: Keys::default(),
            exact: false,
        }
    }
}

impl EvaluateConfig {
    /// The same block with every length as a number of tokens: what resolved configs hold, so that a run is
    /// identified by what it reads, however that is written.
    pub fn in_tokens(&self, section: &str, train_length: usize) -> Result<Self> {
        let lengths = Lengths { train: train_length, length: train_length };
        let count =
            |key: &str, tokens: Tokens| tokens.whole(&format!("{section}.{key}"), lengths).map(Tokens::Count);
        let listed = self.lengths.iter().enumerate();
        let listed = listed.map(|(index, tokens)| count(&format!("lengths[{index}]"), *tokens));
        let mut block = Self { lengths: listed.collect::<Result<_>>()?, ..self.clone() };
        for key in protocols::keys().into_iter().filter(|key| key.unit == Unit::Tokens) {
            if let Some(tokens) = self.keys.get(key.name) {
                block.keys.set(key, count(key.name, tokens)?);
            }
        }
        for (index, entry) in block.extend.iter_mut().enumerate() {
            // What a `config.json` says today must not be read from it again tomorrow.
            *entry = rope_parameters::translated(entry, &format!("{section}.extend[{index}]"))?.into_owned();
        }
        Ok(block)
    }

    /// Checks the block and fills in its defaults.
    ///
    /// `section` is its place in the file (`evaluate[0]`), `train_length` the tokens of a training
    /// sequence of the first stage.
    pub fn validate(&self, section: &str, train_length: usize) -> Result<ResolvedEvaluate> {
        let block = self.in_tokens(section, train_length)?;
        let lengths: Vec<usize> =
            block.lengths.iter().map(|length| length.rounded_down(train_length)).collect();
        let (shortest, longest) = ends(&lengths, section)?;
        if self.extend.is_empty() {
            return Err(Error::value(&format!("{section}.extend"), "[]", "there must be a way to read")
                .hint("`extend = [\"direct\"]` reads as trained, as does leaving the key out"));
        }
        let mut keys = Keys::default();
        for key in protocols::keys() {
            if let Some(number) = block.keys.number(key.name, train_length) {
                keys.set(key, number);
            }
        }
        let (corpus, split) = (self.corpus.as_deref(), self.split);
        corpus.map_or(Ok(()), |corpus| check_path(&format!("{section}.corpus"), corpus))?;
        self.check_key_tokens(section)?;
        let tasks = self.tasks(section)?;
        let given = Given { section, train_length, shortest, longest, keys: &keys, corpus, split };
        Ok(ResolvedEvaluate {
            keys: self.protocol.fill_in(&given)?,
            lengths,
            extend: block.extend.clone(),
            protocol: self.protocol,
            corpus: self.corpus.clone(),
            split,
            checkpoints: self.checkpoints.clone(),
            key_tokens: self.key_tokens.clone(),
            tasks,
            train_length,
            exact: self.exact,
        })
    }

    /// The word and the file come together, and only text as it was written has key tokens.
    fn check_key_tokens(&self, section: &str) -> Result<()> {
        let key = |name: &str| format!("{section}.{name}");
        match (self.tokens, &self.key_tokens) {
            (ScoredTokens::All, None) => Ok(()),
            (ScoredTokens::Key, None) => Err(Error::value(
                &key("tokens"),
                "\"key\"",
                format!("`{}` must name the file of key tokens", key("key_tokens")),
            )
            .hint("a run that was trained on longer texts writes it: `longwave key-tokens RUN FILE`")),
            (ScoredTokens::All, Some(file)) => Err(Error::value(
                &key("key_tokens"),
                format!("\"{file}\""),
                "it has no meaning without `tokens = \"key\"`",
            )
            .hint("leave it out, or give `tokens = \"key\"` too")),
            (ScoredTokens::Key, Some(file)) if self.protocol.material() == Material::Documents => {
                check_path(&key("key_tokens"), file)
            }
            (ScoredTokens::Key, Some(_)) => Err(Error::value(
                &key("tokens"),
                "\"key\"",
                format!("`protocol = \"{}\"` reads no text as it was written", self.protocol),
            )
            .hint("leave `tokens` and `key_tokens` out, or use another protocol")),
        }
    }

    fn tasks(&self, section: &str) -> Result<Vec<TaskKeys>> {
        let section = format!("{section}.task");
        let Some(given) = &self.task else { return Ok(vec![TaskKeys::default()]) };
        if self.protocol.material() != Material::Answers {
            let allowed = format!("it has no meaning for `protocol = \"{}\"`", self.protocol);
            return Err(Error::value(&section, Value::Table(given.clone()), allowed)
                .hint("remove it, or use `protocol = \"task\"`"));
        }
        TaskKeys::combinations(given, &section)
    }
}

/// The shortest and the longest of the lengths, each of which stands once in the list.
fn ends(lengths: &[usize], section: &str) -> Result<(usize, usize)> {
    let key = format!("{section}.lengths");
    let (Some(&shortest), Some(&longest)) = (lengths.iter().min(), lengths.iter().max()) else {
        return Err(Error::value(&key, "[]", "there must be a length to read at").hint(
            "list lengths in tokens or as multiples of the training length, such as `[\"L\", \"2L\"]`",
        ));
    };
    let twice = lengths.iter().enumerate().find(|(index, length)| lengths[..*index].contains(length));
    if let Some((_, length)) = twice {
        let allowed = format!("{length} is listed twice");
        return Err(Error::value(&key, format!("{lengths:?}"), allowed).hint("list each length once"));
    }
    Ok((shortest, longest))
}

/// Adds the keys of the protocols to the schema of a block, where they stand in a file.
fn add_keys(schema: &mut Schema) {
    let Some(serde_json::Value::Object(properties)) = schema.pointer_mut("/properties") else { return };
    let exact = properties.remove("exact");
    properties.extend(protocols::key_schemas());
    properties.extend(exact.map(|exact| ("exact".to_owned(), exact)));
}

impl<'de> Deserialize<'de> for EvaluateConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        static FIELDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
            let of_protocols = protocols::keys().into_iter().map(|key| key.name);
            BLOCK_KEYS.into_iter().chain(of_protocols).chain([EXACT]).collect()
        });
        deserializer.deserialize_struct("EvaluateConfig", &FIELDS, BlockVisitor { fields: &FIELDS })
    }
}

/// Reads a block key by key.
struct BlockVisitor {
    fields: &'static [&'static str],
}

impl<'de> Visitor<'de> for BlockVisitor {
    type Value = EvaluateConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<EvaluateConfig, A::Error> {
        let keys = protocols::keys();
        let mut block = EvaluateConfig::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "lengths" => block.lengths = map.next_value::<OneOrMany<Tokens>>()?.0,
                "extend" => block.extend = map.next_value::<OneOrMany<Value>>()?.0,
                "against" => block.against = map.next_value()?,
                "protocol" => block.protocol = map.next_value()?,
                "corpus" => block.corpus = map.next_value()?,
                "split" => block.split = map.next_value()?,
                "checkpoints" => block.checkpoints = map.next_value()?,
                "tokens" => block.tokens = map.next_value()?,
                "key_tokens" => block.key_tokens = map.next_value()?,
                "task" => block.task = map.next_value()?,
                EXACT => block.exact = map.next_value()?,
                other => match keys.iter().find(|key| key.name == other) {
                    Some(key) => block.keys.set(*key, key.read(&mut map)?),
                    None => return Err(serde::de::Error::unknown_field(other, self.fields)),
                },
            }
        }
        Ok(block)
    }
}

impl ResolvedEvaluate {
    /// The same block on a split, with all tokens scored: what choices are made by.
    #[must_use]
    pub fn to_choose_on(&self, split: Split) -> Self {
        Self { split, key_tokens: None, ..self.clone() }
    }

    pub fn tokens(&self) -> ScoredTokens {
        if self.key_tokens.is_some() { ScoredTokens::Key } else { ScoredTokens::All }
    }

    pub fn source<'a>(&self, dataset: &'a Dataset) -> Result<Source<'a>> {
        Source::open(dataset, self.corpus.as_deref(), self.split)
    }

    /// The same block once for each way to ask the task.
    pub fn variants(&self) -> impl Iterator<Item = Self> {
        self.tasks.iter().map(|keys| Self { tasks: vec![keys.clone()], ..self.clone() })
    }

    /// What is read at a length; of a task, as the first way asks it.
    pub fn text(&self, length: usize, source: &Source<'_>) -> Result<Text> {
        self.protocol.text(&self.keys, length, &source.asking(&self.tasks[0])?)
    }

    pub fn windows(&self, length: usize, text: &Text) -> Result<Plan> {
        self.plan_of(length, &Documents { tokens: &text.lengths(), answers: text.answers() })
    }

    /// The windows of one of the lengths, for documents of so many tokens each.
    pub fn plan(&self, length: usize, documents: &[usize]) -> Result<Plan> {
        self.plan_of(length, &Documents { tokens: documents, answers: &[] })
    }

    fn plan_of(&self, length: usize, documents: &Documents<'_>) -> Result<Plan> {
        let plan = self.protocol.plan(&self.keys, length, documents);
        if plan.windows.is_empty() {
            let longest = documents.tokens.iter().copied().max().unwrap_or(0);
            if longest < 2 {
                return Err(no_text(self.split));
            }
            return Err(self.protocol.too_short(&self.keys, length, self.split, longest));
        }
        Ok(plan)
    }

    /// What a result row says of the protocol, but for the hash of other text, when one of the lengths is
    /// read with an extension.
    pub fn settings(&self, length: usize, extend: &str) -> Settings {
        let mut keys = self.keys.clone();
        if let Some(key) = self.protocol.key_of_length() {
            keys.set(key, length);
        }
        Settings {
            protocol: self.protocol,
            split: self.split,
            corpus_hash: None,
            key_tokens: None,
            bos: None,
            task: self.tasks[0].clone(),
            score: None,
            train_length: self.train_length,
            length,
            keys,
            exact: (extend == WINDOW_BASELINE).then_some(self.exact),
        }
    }
}

fn no_text(split: Split) -> Error {
    Error::usage(format!("the {split} split holds no text to score")).hint(format!(
        "its files are in a folder `{split}`, or have `{split}` in their names; where there are none, training with \
         `data.split = {{ {split} = 0.1 }}` holds out a tenth of the text, also of files whose names say `train`"
    ))
}

#[cfg(test)]
mod tests;
