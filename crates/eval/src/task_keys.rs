//! Other values for keys of the run's task, which an evaluation asks with: `task = { depth = 0.5 }`.
//!
//! A list in the place of a value gives rows for each of its values: a grid of depths by lengths is
//! `task = { depth = [0, 0.25, 0.5, 0.75, 1] }`. Rows record the values, and tables name what their lines differ in.

use crate::combinations::{as_json, combinations};
use longwave_core::{Error, Result, written};
use longwave_data::TaskConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toml::Table;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskKeys(Map<String, Value>);

impl TaskKeys {
    /// Every combination of the values of lists, the last key fastest.
    pub(crate) fn combinations(given: &Table, section: &str) -> Result<Vec<Self>> {
        let lists: Vec<(&String, &Vec<toml::Value>)> =
            given.iter().filter_map(|(key, value)| Some((key, value.as_array()?))).collect();
        for (key, items) in &lists {
            let key = format!("{section}.{key}");
            if items.is_empty() {
                return Err(Error::value(&key, "[]", "a list of values to ask with must hold one")
                    .hint("leave the key out to ask as in training"));
            }
            let twice = items.iter().enumerate().find(|(index, item)| items[..*index].contains(item));
            if let Some((_, item)) = twice {
                let all = toml::Value::Array((*items).clone());
                return Err(
                    Error::value(&key, all, format!("{item} is listed twice")).hint("list each value once")
                );
            }
        }
        combinations(given, &lists).iter().map(Self::new).collect()
    }

    fn new(table: &Table) -> Result<Self> {
        let value = |value: &toml::Value| match value.as_float() {
            // `0.0` and `0` are one depth.
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => Ok((whole as i64).into()),
            _ => as_json(value),
        };
        let fields = table.iter().map(|(key, it)| Ok((key.clone(), value(it)?)));
        Ok(Self(fields.collect::<Result<_>>()?))
    }

    #[doc(hidden)]
    pub fn of(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    pub(crate) fn applied(&self, task: &TaskConfig) -> Result<TaskConfig> {
        let table = written::toml_table("`evaluate.task`", &self.0)?;
        task.with(&table, "evaluate.task")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Vec<Value>> {
        let keys = TaskKeys::combinations(&text.parse().unwrap(), "evaluate[0].task")?;
        Ok(keys.iter().map(|keys| serde_json::to_value(keys).unwrap()).collect())
    }

    #[test]
    fn lists_are_combined() {
        let expected = [
            json!({ "depth": 0, "distractors": 2 }),
            json!({ "depth": 0, "distractors": 4 }),
            json!({ "depth": 0.5, "distractors": 2 }),
            json!({ "depth": 0.5, "distractors": 4 }),
        ];
        assert_eq!(read("depth = [0.0, 0.5]\ndistractors = [2, 4]").unwrap(), expected);
        assert_eq!(read("").unwrap(), [json!({})]);
        for (text, wanted) in
            [("depth = []", "must hold one"), ("depth = [0.5, 1, 0.5]", "0.5 is listed twice")]
        {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("evaluate[0].task.depth") && error.contains(wanted), "{error}");
        }
    }
}
