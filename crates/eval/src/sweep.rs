//! The entries of `extend`: an extension, one whose hyper-parameters are lists, or one whose factors are searched for.
//!
//! A list in the place of a value stands for one reading with each; several lists for every combination. A key
//! that takes a list by itself (`long_factor`, `inv_freq`) is one value, and so is a list of lists where a key takes one
//! (`temperature`). Which of the readings is reported is decided
//! on the validation split, see [`select()`](crate::select()).

use crate::block::ResolvedEvaluate;
use crate::combinations::{as_json, combinations};
use crate::search::Search;
use longwave_core::config::kind_and_rest;
use longwave_core::{Error, Result, written};
use longwave_data::Split;
use longwave_position::ExtensionConfig;
use toml::{Table, Value};

/// One entry of `extend`, checked.
#[derive(Clone, Debug, PartialEq)]
pub enum ExtendEntry {
    Fixed(ExtensionConfig),
    /// Several readings with one extension; the validation split selects one.
    Sweep(Sweep),
}

/// The readings that the validation split selects from.
#[derive(Clone, Debug, PartialEq)]
pub enum Sweep {
    Values {
        given: serde_json::Value,
        /// Every combination, in the order of the lists, the last key fastest.
        candidates: Vec<ExtensionConfig>,
    },
    /// The factors that a search for `longrope` finds.
    Search(Search),
}

impl ExtendEntry {
    /// Reads one entry; `section` is its place in the file, such as `evaluate[0].extend[1]`.
    pub fn from_value(value: &Value, section: &str) -> Result<Self> {
        let Value::Table(table) = value else {
            return Ok(Self::Fixed(ExtensionConfig::from_value(value, section)?));
        };
        let (kind, _) = kind_and_rest(value, section)?;
        if let Some(search) = Search::take(&kind, table, section)? {
            return Ok(Self::Sweep(Sweep::Search(search)));
        }
        let table = &with_laws(table);
        let lists: Vec<(&String, &Vec<Value>)> =
            lists_of(table).filter(|(key, items)| are_values(&kind, key, items)).collect();
        if lists.is_empty() {
            return Ok(Self::Fixed(ExtensionConfig::from_value(value, section)?));
        }
        if let Some((key, _)) = lists.iter().find(|(_, items)| items.is_empty()) {
            return Err(Error::value(
                &format!("{section}.{key}"),
                "[]",
                "a list of values to try must hold one",
            )
            .hint("leave the key out for its default"));
        }
        let candidates = combinations(table, &lists)
            .into_iter()
            .map(|table| ExtensionConfig::from_value(&Value::Table(table), section))
            .collect::<Result<Vec<_>>>()?;
        let given = lists.iter().map(|(key, items)| Ok(((*key).clone(), as_json(&items[..])?)));
        let given = serde_json::Value::Object(given.collect::<Result<_>>()?);
        Ok(match <[ExtensionConfig; 1]>::try_from(candidates) {
            Ok([one]) => Self::Fixed(one),
            Err(candidates) => Self::Sweep(Sweep::Values { given, candidates }),
        })
    }

    /// The extensions that are known before the selection; none where a search has yet to find the factors.
    pub(crate) fn extensions(&self) -> &[ExtensionConfig] {
        match self {
            Self::Fixed(extension) => std::slice::from_ref(extension),
            Self::Sweep(sweep) => sweep.candidates(),
        }
    }
}

impl Sweep {
    /// The readings that are known before the selection; none where a search has yet to find the factors.
    pub fn candidates(&self) -> &[ExtensionConfig] {
        match self {
            Self::Values { candidates, .. } => candidates,
            Self::Search(_) => &[],
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Values { candidates, .. } => candidates[0].kind(),
            Self::Search(_) => "longrope",
        }
    }

    /// The alternatives, as rows record them: the keys with their lists, or the search.
    pub fn among(&self, block: &ResolvedEvaluate) -> serde_json::Value {
        match self {
            Self::Values { given, .. } => given.clone(),
            Self::Search(search) => search.recorded(block),
        }
    }

    /// What is read of the validation split to decide, and how many times each of its lengths is.
    pub fn trials(&self, block: &ResolvedEvaluate) -> (ResolvedEvaluate, usize) {
        match self {
            Self::Values { candidates, .. } => (block.to_choose_on(Split::Valid), candidates.len()),
            Self::Search(search) => search.trials(block),
        }
    }
}

/// The value that an extension has of a key for which one of `values` was chosen: its config leaves some defaults out.
pub fn chosen_value(
    config: &serde_json::Value,
    key: &str,
    values: &serde_json::Value,
) -> Option<serde_json::Value> {
    if let Some(value) = config.get(key) {
        return Some(value.clone());
    }
    values.as_array()?.iter().find(|value| has(config, key, value)).cloned()
}

/// Whether the config of an extension is one of those that a [choice](crate::ResultRow::choice) from lists was made among, by what these
/// give; its other keys are not looked at.
pub fn is_candidate(config: &serde_json::Value, lists: &serde_json::Map<String, serde_json::Value>) -> bool {
    let is_in = |(key, values): (&String, &serde_json::Value)| {
        values.as_array().is_some_and(|values| values.iter().any(|value| has(config, key, value)))
    };
    lists.iter().all(is_in)
}

/// Whether an extension is the same with this value of a key, however it is written.
fn has(config: &serde_json::Value, key: &str, value: &serde_json::Value) -> bool {
    let mut fields = config.as_object().cloned().unwrap_or_default();
    fields.insert(key.to_owned(), value.clone());
    // TOML has no null.
    fields.retain(|_, value| !value.is_null());
    let with = written::toml_value("an extension", &fields);
    let read = with.and_then(|with| ExtensionConfig::from_value(&with, "extend"));
    read.is_ok_and(|read| serde_json::to_value(&read).is_ok_and(|read| read == *config))
}

fn lists_of(table: &Table) -> impl Iterator<Item = (&String, &Vec<Value>)> {
    table.iter().filter_map(|(key, value)| Some((key, value.as_array()?)))
}

/// The table with a list of laws in the place of one whose number is a list.
fn with_laws(table: &Table) -> Table {
    let mut with = table.clone();
    if let Some(Value::Table(law)) = table.get("temperature_law") {
        let lists: Vec<_> = lists_of(law).collect();
        if !lists.is_empty() {
            let laws = combinations(law, &lists).into_iter().map(Value::Table).collect();
            with.insert("temperature_law".to_owned(), Value::Array(laws));
        }
    }
    with
}

/// Whether the items of a list are values of its key to try, and the list is not one value.
fn are_values(kind: &str, key: &str, items: &[Value]) -> bool {
    if ExtensionConfig::takes_rows(kind, key) {
        let is_value = |item: &Value| item.as_array().is_some_and(|rows| nested(rows));
        return !nested(items) || items.iter().all(is_value);
    }
    !ExtensionConfig::takes_list(kind, key) || nested(items)
}

fn nested(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(Value::is_array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<ExtendEntry> {
        let mut table: Table = format!("x = {text}").parse().unwrap();
        ExtendEntry::from_value(&table.remove("x").unwrap(), "extend[0]")
    }

    fn candidates(text: &str) -> (serde_json::Value, Vec<serde_json::Value>) {
        match read(text).unwrap() {
            ExtendEntry::Sweep(Sweep::Values { given, candidates }) => {
                (given, candidates.iter().map(|one| as_json(one).unwrap()).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    /// `log_n = false` is the default, which a config does not write.
    #[test]
    fn a_chosen_default_is_told() {
        let (given, both) = candidates("{ kind = 'ntk', log_n = [true, false] }");
        assert!(both[1].get("log_n").is_none(), "{}", both[1]);
        let chosen = |config| chosen_value(config, "log_n", &given["log_n"]);
        assert_eq!([chosen(&both[0]), chosen(&both[1])], [Some(json!(true)), Some(json!(false))]);
        assert_eq!(chosen_value(&both[1], "scale", &json!([2.0, 3.0])), Some(both[1]["scale"].clone()));
    }

    #[test]
    fn lists_become_every_combination() {
        let (given, windows) = candidates("{ kind = 'rerope', window = ['L/4', 'L/2'] }");
        assert_eq!(given, json!({ "window": ["L/4", "L/2"] }));
        assert_eq!(windows.iter().map(|one| &one["window"]).collect::<Vec<_>>(), ["L/4", "L/2"]);
        let (given, laws) =
            candidates("{ kind = 'direct', temperature_law = { kind = 'one_plus_log', c = [0, 0.4] } }");
        assert_eq!(given["temperature_law"][1], json!({ "kind": "one_plus_log", "c": 0.4 }));
        assert_eq!(laws[1]["temperature_law"], json!({ "kind": "one_plus_log", "c": 0.4 }));
        let (given, bands) = candidates("{ kind = 'bands', keep = [1, 0.75], without = 0 }");
        assert_eq!((given["keep"].clone(), bands.len()), (json!([1, 0.75]), 2));
        assert!(bands.iter().all(|one| one["without"] == 0));
        let (_, both) =
            candidates("{ kind = 'yarn', beta = [16, 32], ramp = ['code', 'paper'], log_n = true }");
        let told: Vec<_> =
            both.iter().map(|one| (one["beta"].as_f64().unwrap(), one["ramp"].clone())).collect();
        assert_eq!(
            told,
            [(16.0, "code"), (16.0, "paper"), (32.0, "code"), (32.0, "paper")].map(|(b, r)| (b, json!(r)))
        );
        assert!(both.iter().all(|one| one["log_n"] == true));
    }

    #[test]
    fn a_key_that_takes_a_list_is_one_value() {
        for text in [
            "{ kind = 'longrope', long_factor = [1.0, 2.0], short_factor = [1.0, 1.0] }",
            "{ kind = 'frequencies', inv_freq = [1.0, 0.5] }",
            "{ kind = 'rerope', window = ['L/4'] }",
            "'linear'",
        ] {
            assert!(matches!(read(text).unwrap(), ExtendEntry::Fixed(_)), "{text}");
        }
        let heads = "{ kind = 'direct', temperature = [[0.5, 1.0], [2.0, 1.0]] }";
        assert!(matches!(read(heads).unwrap(), ExtendEntry::Fixed(_)));
        let (_, numbers) = candidates("{ kind = 'direct', temperature = [0.5, 1.0] }");
        assert_eq!(numbers.len(), 2);
        let (_, tables) = candidates("{ kind = 'yarn', temperature = [[[0.5, 1.0]], [[2.0, 1.0]]] }");
        assert_eq!(tables[1]["temperature"], json!([[2.0, 1.0]]));
        let (given, factors) = candidates("{ kind = 'longrope', long_factor = [[1.0, 2.0], [1.0, 3.0]] }");
        assert_eq!((given["long_factor"][1][1].as_f64(), factors.len()), (Some(3.0), 2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("{ kind = 'rerope', window = [] }").starts_with("`extend[0].window = []`"));
        assert!(message("{ kind = 'yarn', beta = [32, -1] }").contains("beta"));
        assert!(message("{ kind = ['linear', 'ntk'] }").contains("`extend[0].kind"));
        assert!(message("{ kind = 'linear', search = {} }").contains("extend[0].search"));
    }
}
