//! What a study varies: the points of an axis, each a set of changes to the config.

use crate::schema::pointed;
use longwave_core::config::read;
use longwave_core::text::is_invisible;
use longwave_core::{Error, Result};
use longwave_position::Tokens;
use serde::Deserialize;
use std::collections::HashSet;
use toml::{Table, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Names it in results, claims and conditions.
    pub name: String,
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub label: String,
    /// What it changes: dotted keys and their values.
    pub changes: Table,
}

/// `[[axis]]`: `key` with `values`; `keys` with lists of `values`, which change together; or `points`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisConfig {
    name: Option<String>,
    key: Option<String>,
    keys: Option<Vec<String>>,
    values: Option<Vec<Value>>,
    labels: Option<Vec<String>>,
    points: Option<Vec<Table>>,
}

impl Axis {
    /// Reads one `[[axis]]`; `section` is its place in the file.
    pub(crate) fn read(table: &Table, section: &str) -> Result<Self> {
        let config: AxisConfig = read(table, section).map_err(pointed)?;
        let axis = match (&config.key, &config.keys, &config.points) {
            (Some(key), None, None) => grid(key, &config, section)?,
            (None, Some(keys), None) => zipped(keys, &config, section)?,
            (None, None, Some(points)) => listed(points, &config, section)?,
            _ => {
                return Err(Error::usage(format!("`{section}` needs one of `key`, `keys` and `points`"))
                    .hint("write `key = \"train.learning_rate\"` and `values = [1e-3, 3e-3]`"));
            }
        };
        axis.check(section)?;
        Ok(axis)
    }

    fn check(&self, section: &str) -> Result<()> {
        if self.points.is_empty() {
            return Err(Error::usage(format!("`{section}` has no points")).hint("list one value at least"));
        }
        let mut seen = HashSet::new();
        plain(&self.name, &format!("{section}.name"))?;
        for point in &self.points {
            plain(&point.label, &format!("{section}, label"))?;
            trimmed(&point.label, section)?;
            if !seen.insert(point.label.as_str()) {
                return Err(Error::usage(format!("`{section}` has two points named `{}`", point.label))
                    .hint("take one of them out, or name them apart with `labels = [..]`"));
            }
            let own = ["seed", "name", "evaluate"];
            let key = point.changes.keys().find(|key| own.contains(&first(key)));
            if let Some(key) = key {
                return Err(Error::usage(format!("`{section}` cannot vary `{key}`"))
                    .hint("seeds are `seeds = [..]`, evaluations are `[[evaluate]]` with `only`"));
            }
        }
        Ok(())
    }
}

impl Axis {
    /// Whether claims can name its labels, which they must where there are several.
    pub(crate) fn check_nameable(&self) -> Result<()> {
        let has_sign = |label: &str| [",", " < ", " > ", " = "].into_iter().find(|sign| label.contains(sign));
        // `x at 2L` would be `x`, read at 2L.
        let has_length = |label: &str| {
            label.rsplit_once(" at ").is_some_and(|(_, length)| length.trim().parse::<Tokens>().is_ok())
        };
        for Point { label, .. } in self.points.iter().filter(|_| self.points.len() > 1) {
            let what = match has_sign(label) {
                Some(sign) => format!("claims cannot name it: `{}` has a meaning in them", sign.trim()),
                None if has_length(label) => "claims would read its end as a length".to_owned(),
                None => continue,
            };
            return Err(Error::value(
                &format!("label of the axis `{}`", self.name),
                format!("\"{label}\""),
                what,
            )
            .hint("choose another `label`, or `labels = [..]` beside `values`"));
        }
        Ok(())
    }
}

/// Names are printed in terminals, tables and charts: none may break a line or change how others are shown.
fn plain(name: &str, place: &str) -> Result<()> {
    if !name.chars().any(is_invisible) {
        return Ok(());
    }
    let shown = name.escape_debug();
    Err(Error::value(place, format!("\"{shown}\""), "it must have no line breaks and no control characters")
        .hint("name it in visible characters"))
}

/// A label stands alone in tables and in claims.
fn trimmed(label: &str, section: &str) -> Result<()> {
    if !label.is_empty() && label.trim() == label {
        return Ok(());
    }
    let allowed = "it must not be empty, nor begin or end with a space";
    Err(Error::value(&format!("{section}, label"), format!("\"{label}\""), allowed)
        .hint("name each value in `labels = [..]`, or each point in `label`"))
}

fn first(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

fn grid(key: &str, config: &AxisConfig, section: &str) -> Result<Axis> {
    let values = values(config, section)?;
    let labels = labels(config, section, values.iter().map(label_of).collect())?;
    let change = |value: &Value| Table::from_iter([(key.to_owned(), value.clone())]);
    let name = config.name.clone().unwrap_or_else(|| key.to_owned());
    Ok(Axis { name, points: points(labels, values.iter().map(change)) })
}

fn zipped(keys: &[String], config: &AxisConfig, section: &str) -> Result<Axis> {
    let rows = values(config, section)?
        .iter()
        .enumerate()
        .map(|(index, row)| match row {
            Value::Array(row) if row.len() == keys.len() => Ok(row),
            other => Err(Error::value(
                &format!("{section}.values[{index}]"),
                other,
                format!("it must be a list of {} values, one for each of `keys`", keys.len()),
            )),
        })
        .collect::<Result<Vec<_>>>()?;
    let joined = |row: &&Vec<Value>| row.iter().map(label_of).collect::<Vec<_>>().join(" ");
    let labels = labels(config, section, rows.iter().map(joined).collect())?;
    let changes = rows.iter().map(|row| keys.iter().cloned().zip(row.iter().cloned()).collect());
    let name = config.name.clone().unwrap_or_else(|| keys.join(" "));
    Ok(Axis { name, points: points(labels, changes) })
}

fn listed(list: &[Table], config: &AxisConfig, section: &str) -> Result<Axis> {
    if config.values.is_some() || config.labels.is_some() {
        return Err(Error::usage(format!(
            "`{section}` has `points`, which hold their own values and labels"
        ))
        .hint("write `points = [{ label = \"hope\", position = { kind = \"rope\" } }]`"));
    }
    let points = list
        .iter()
        .enumerate()
        .map(|(index, table)| {
            let mut changes = table.clone();
            match changes.remove("label") {
                Some(Value::String(label)) => Ok(Point { label, changes }),
                _ => Err(Error::usage(format!("`{section}.points[{index}]` has no `label`"))
                    .hint("add `label = \"...\"`: it names the point in results")),
            }
        })
        .collect::<Result<_>>()?;
    Ok(Axis { name: config.name.clone().unwrap_or_else(|| "point".to_owned()), points })
}

fn values<'a>(config: &'a AxisConfig, section: &str) -> Result<&'a [Value]> {
    config.values.as_deref().ok_or_else(|| {
        Error::usage(format!("`{section}.values` is missing")).hint("list the values of the axis")
    })
}

fn labels(config: &AxisConfig, section: &str, found: Vec<String>) -> Result<Vec<String>> {
    match &config.labels {
        None => Ok(found),
        Some(labels) if labels.len() == found.len() => Ok(labels.clone()),
        Some(labels) => Err(Error::value(
            &format!("{section}.labels"),
            format!("{labels:?}"),
            format!("there must be one for each of the {} values", found.len()),
        )),
    }
}

fn points(labels: Vec<String>, changes: impl Iterator<Item = Table>) -> Vec<Point> {
    labels.into_iter().zip(changes).map(|(label, changes)| Point { label, changes }).collect()
}

/// A short label of a value: `rope`, `0.003`, `rope fraction=0.5`.
pub(crate) fn label_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(label_of).collect::<Vec<_>>().join("+"),
        Value::Table(table) => {
            let kind = table.get("kind").map(label_of);
            let rest = table
                .iter()
                .filter(|(key, _)| *key != "kind")
                .map(|(key, value)| format!("{key}={}", label_of(value)));
            kind.into_iter().chain(rest).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(text: &str) -> Result<Axis> {
        Axis::read(&text.parse().unwrap(), "axis[0]")
    }

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.points.iter().map(|point| point.label.as_str()).collect()
    }

    #[test]
    fn three_forms() {
        let grid = axis("key = \"position\"\nvalues = [\"alibi\", { kind = \"rope\", base = 5.0 }]").unwrap();
        assert_eq!((grid.name.as_str(), labels(&grid)), ("position", vec!["alibi", "rope base=5.0"]));
        let zip =
            axis("name = \"size\"\nkeys = [\"model.width\", \"model.heads\"]\nvalues = [[32, 2], [64, 4]]");
        let zip = zip.unwrap();
        assert_eq!((zip.name.as_str(), labels(&zip)), ("size", vec!["32 2", "64 4"]));
        assert_eq!(zip.points[1].changes["model.heads"].as_integer(), Some(4));
        let list = axis("points = [{ label = \"a\", train.steps = 5 }, { label = \"b\" }]").unwrap();
        assert_eq!((list.name.as_str(), labels(&list)), ("point", vec!["a", "b"]));
    }

    #[test]
    fn refusals_name_the_key() {
        let message = |text: &str| axis(text).unwrap_err().to_string();
        assert!(message("key = \"a\"\nkeys = [\"b\"]\nvalues = [1]").contains("needs one of"));
        assert!(message("key = \"a\"").contains("`axis[0].values` is missing"));
        assert!(message("key = \"a\"\nvalues = []").contains("has no points"));
        assert!(message("key = \"a\"\nvalues = [1, 1]").contains("two points named `1`"));
        assert!(message("key = \"a\"\nvalues = [1]\nlabels = []").contains("axis[0].labels"));
        assert!(message("keys = [\"a\", \"b\"]\nvalues = [[1]]").contains("axis[0].values[0]"));
        assert!(message("key = \"seed\"\nvalues = [1]").contains("cannot vary `seed`"));
        assert!(message("points = [{ x = 1 }]").contains("has no `label`"));
        assert!(message("key = \"a\"\nvalue = [1]").contains("did you mean `values`?"));
    }
}
