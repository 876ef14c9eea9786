//! The changes that a study makes to the config of its runs, `[set]` and `--set`.

use super::{KEYS, SECTIONS};
use crate::axis::{Axis, Point};
use longwave_core::config::set;
use longwave_core::{Error, Result};
use toml::{Table, Value};

const EVALUATE: &str = "evaluate";

/// Changes a study's document by `KEY=VALUE`: keys of the study itself, or of the config that every run begins
/// with. `read_base` gives the document of the base config. Gives a warning where a key could mean several blocks.
pub fn assign(
    document: &mut Table,
    assignments: &[String],
    read_base: &dyn Fn(&str) -> Result<Table>,
) -> Result<Vec<String>> {
    // A key that is changed has one place.
    if let (false, Some(Value::Table(changes))) = (assignments.is_empty(), document.get_mut("set")) {
        *changes = nested(changes)?;
    }
    // A change of the base's evaluations is one of the base that is named here too, in whatever order.
    let (bases, others): (Vec<_>, Vec<_>) = assignments.iter().partition(|it| first_part(it) == "base");
    let mut warnings = Vec::new();
    for assignment in bases.into_iter().chain(others) {
        warnings.extend(assign_one(document, assignment, read_base)?);
    }
    Ok(warnings)
}

fn first_part(assignment: &str) -> &str {
    assignment.split(['.', '=']).next().unwrap_or_default().trim()
}

fn assign_one(
    document: &mut Table,
    assignment: &str,
    read_base: &dyn Fn(&str) -> Result<Table>,
) -> Result<Option<String>> {
    let first = first_part(assignment);
    let key = assignment.split('=').next().unwrap_or_default();
    if first == EVALUATE && key.contains('.') && !document.contains_key(EVALUATE) {
        // It changes a key of what the runs are read with, and leaves the other keys as they are there.
        if let Some(Value::Table(changes)) = document.get_mut("set")
            && changes.contains_key(EVALUATE)
        {
            return set(changes, assignment);
        }
        let base = document.get("base").and_then(Value::as_str).map(read_base).transpose()?;
        if let Some(blocks) = base.and_then(|mut base| base.remove(EVALUATE)) {
            document.insert(EVALUATE.to_owned(), blocks);
        }
    }
    if KEYS.contains(&first) || SECTIONS.contains(&first) {
        return set(document, assignment);
    }
    match document.entry("set").or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(changes) => set(changes, assignment),
        other => Err(Error::value("set", &*other, "it must be a table")),
    }
}

/// The changes of `[set]` with a table for every dot in a key: `"train.steps" = 9` and `train = { steps = 9 }` say the same, and a key
/// has one value.
pub(super) fn nested(changes: &Table) -> Result<Table> {
    let mut found = Table::new();
    put_all(&mut found, changes, "set")?;
    Ok(found)
}

fn put_all(table: &mut Table, changes: &Table, place: &str) -> Result<()> {
    changes.iter().try_for_each(|(key, value)| put(table, key, value, &format!("{place}.{key}")))
}

fn put(table: &mut Table, key: &str, value: &Value, place: &str) -> Result<()> {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    if rest.is_none() && !value.is_table() && !table.contains_key(first) {
        table.insert(first.to_owned(), value.clone());
        return Ok(());
    }
    match (table.entry(first).or_insert_with(|| Value::Table(Table::new())), rest, value) {
        (Value::Table(inner), Some(rest), value) => put(inner, rest, value, place),
        (Value::Table(inner), None, Value::Table(changes)) => put_all(inner, changes, place),
        (other, ..) => Err(Error::value(place, value, format!("`[set]` says `{other}` there already")).hint(
            "leave one of them out, or write them as one table, such as `position = { kind = \"rope\", base = 500.0 }`",
        )),
    }
}

/// What a run of a study takes from elsewhere cannot be changed by `[set]`.
pub(super) fn check_set(changes: &Table, [has_evaluations, has_stages]: [bool; 2]) -> Result<()> {
    let ignored = [
        ("seed", true, "every run has one of `seeds`; write `seeds = [3]`"),
        ("name", true, "runs are named after their content; `name` above `[set]` is the study's"),
        ("stage", has_stages, "the study has `[[stage]]` of its own; change it there"),
        ("evaluate", has_evaluations, "the study has `[[evaluate]]` of its own; change it there"),
    ];
    for (key, is_ignored, hint) in ignored {
        if let (true, Some(value)) = (is_ignored, changes.get(key)) {
            return Err(Error::value(&format!("set.{key}"), value, "it would have no effect").hint(hint));
        }
    }
    Ok(())
}

/// Whether a change of `leaf` leaves nothing of what was said of `key`: it is that key, or the table that holds it.
fn replaces(leaf: &str, key: &str) -> bool {
    key.strip_prefix(leaf).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A key that an axis varies everywhere, by itself or with the table that holds it, has no other value.
pub(super) fn check_varied(changes: &Table, axes: &[Axis]) -> Result<()> {
    for (key, value) in leaves(changes, "") {
        let varies = |axis: &&Axis| {
            axis.points
                .iter()
                .all(|point| leaves(&point.changes, "").iter().any(|(leaf, _)| replaces(leaf, &key)))
        };
        if let Some(axis) = axes.iter().find(varies) {
            let why = format!("the axis `{}` sets it in every run", axis.name);
            return Err(Error::value(&format!("set.{key}"), value, why).hint("change the values of the axis"));
        }
    }
    Ok(())
}

/// An axis does not undo what an earlier one sets: tables would name what no run has.
pub(super) fn check_undone(axes: &[Axis]) -> Result<()> {
    let keys = |axis: &Axis| -> Vec<String> {
        let of_point = |point: &Point| leaves(&point.changes, "").into_iter().map(|(key, _)| key).collect();
        axis.points.iter().flat_map::<Vec<_>, _>(of_point).collect()
    };
    for (index, later) in axes.iter().enumerate() {
        let leaves = keys(later);
        for earlier in &axes[..index] {
            let undone = |key: &&String| leaves.iter().any(|leaf| replaces(leaf, key));
            if let Some(key) = keys(earlier).iter().find(undone) {
                return Err(Error::usage(format!(
                    "the axis `{}` sets `{key}`, which the axis `{}` has set already",
                    later.name, earlier.name
                ))
                .hint(
                    "write both into the points of one axis, or let the later one change single keys, such as `position.fraction`: a \
                     table with a `kind` takes the place of the whole table",
                ));
            }
        }
    }
    Ok(())
}

/// The keys of a table with their values, dotted; a table with a `kind` is one value.
pub(crate) fn leaves<'a>(table: &'a Table, section: &str) -> Vec<(String, &'a Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let key = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
        match value {
            Value::Table(inner) if !inner.contains_key("kind") => found.extend(leaves(inner, &key)),
            other => found.push((key, other)),
        }
    }
    found
}

/// Changes a config: dotted and nested keys alike. A table with a `kind`, or one that takes the place of
/// another kind of value, replaces what stands there; other tables change key by key.
pub(crate) fn merge(document: &mut Table, changes: &Table) {
    for (key, value) in changes {
        merge_at(document, key, value);
    }
}

fn merge_at(table: &mut Table, key: &str, value: &Value) {
    if let Some((first, rest)) = key.split_once('.') {
        if !matches!(table.get(first), Some(Value::Table(_))) {
            table.insert(first.to_owned(), Value::Table(Table::new()));
        }
        if let Some(Value::Table(inner)) = table.get_mut(first) {
            merge_at(inner, rest, value);
        }
        return;
    }
    match (table.get_mut(key), value) {
        (Some(Value::Table(old)), Value::Table(new)) if !new.contains_key("kind") => merge(old, new),
        _ => {
            table.insert(key.to_owned(), value.clone());
        }
    }
}
