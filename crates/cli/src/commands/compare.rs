//! `longwave compare`: the paired differences of two runs, of two readings, or of several seeds of each.

use crate::options::{extensions, one_of, one_value, parsed};
use crate::output::{json_lines, lines, width};
use clap::Args;
use longwave_core::{Error, Result, file};
use longwave_eval::{Metric, Reference, row};
use longwave_position::Tokens;
use longwave_report::grid::{Entry, Format, Grid, Header};
use longwave_study::Store;
use longwave_study::compare::{Comparison, Comparisons, Filter, Side, compare};
use longwave_study::difference::Over;
use longwave_study::document::STORE;
use longwave_train::Run;
use std::path::{Path, PathBuf};

/// Compare two runs, two readings or several seeds wherever they were measured alike
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A run's folder or the beginning of a key in the store; several seeds as `a-0,a-1` or `'a-*'`; one extension as
    /// `RUN:yarn`, a checkpoint as `RUN@best`
    #[arg(value_name = "RUN")]
    run: String,
    /// What it is compared with, in the same form
    #[arg(value_name = "RUN")]
    other: String,
    /// Only these lengths, separated by commas, in tokens or as multiples of the training length such as `8L`
    #[arg(long, value_delimiter = ',', value_name = "N,2L,..")]
    lengths: Vec<Tokens>,
    /// Only these extensions, by kind, separated by commas, or one as an inline TOML table; repeatable
    #[arg(long, value_name = "KIND,KIND,..")]
    extend: Vec<String>,
    #[arg(long, value_name = "METRIC", default_value = "loss", value_parser = parsed::<Metric>, help = metrics())]
    metric: Metric,
    /// What the table is printed as: `text`, `markdown`, `latex` or `csv`
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = parsed::<Format>)]
    format: Format,
    /// Print JSON lines instead of the table
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (a, b) = (side(&arguments.run)?, side(&arguments.other)?);
    let mut filter = Filter { lengths: arguments.lengths.clone(), extend: Vec::new() };
    for text in &arguments.extend {
        for value in extensions(text)? {
            filter.extend.push(Reference::from_value(&value, "--extend")?);
        }
    }
    let mut compared = compare(&a, &b, &filter, arguments.metric)?;
    let model = |side: &Side| side.runs.iter().flatten().next().map(|row| row.config_hash.clone());
    if model(&a) != model(&b) && compared.list.iter().all(|one| one.over == Over::Documents) {
        let unit = unit(&compared.list);
        compared.notes.push(format!(
            "one seed each: intervals are over {unit}s, and say nothing about other seeds of the two configs"
        ));
    }
    if arguments.json {
        return json_lines(&compared.list);
    }
    let title = format!("{} minus {}", a.name, b.name);
    let table = |columns: &[&Column]| table(&title, arguments.metric, &compared, columns);
    if arguments.format != Format::Text {
        return lines(&fitted(None, table).written(arguments.format));
    }
    lines(&fitted(width(), table).text_within(width()))
}

fn metrics() -> String {
    format!("What is compared: {}", one_of(Metric::comparable().map(Metric::name)))
}

/// Reads `RUN[,RUN..][@CHECKPOINT][:EXTENSION]`.
fn side(text: &str) -> Result<Side> {
    let mut side = Side::new(text, Vec::new());
    let (mut runs, mut extend) = (text, None);
    if !holds_results(Path::new(text)) {
        (runs, extend) = split_extension(text);
    }
    if !holds_results(Path::new(runs))
        && let Some((before, checkpoint)) = runs.rsplit_once('@')
    {
        runs = before;
        side.checkpoint = Some(checkpoint.to_owned());
    }
    if let Some(extend) = extend {
        side.extend = Some(Reference::from_value(&one_value("RUN:EXTENSION", extend)?, "RUN:EXTENSION")?);
    }
    let mut folders = Vec::new();
    for run in runs.split(',').map(str::trim).filter(|run| !run.is_empty()) {
        folders.extend(find(run)?);
    }
    for other in folders.iter().skip(1) {
        if let Some(differing) = Run::differ_beside_seed(&folders[0], other)? {
            return Err(Run::no_seeds(&folders[0], other, &differing));
        }
    }
    side.runs =
        folders.iter().map(|folder| row::read_rows(&folder.join("results.jsonl"))).collect::<Result<_>>()?;
    Ok(side)
}

/// A run and, after a colon, its extension. The colon of a drive is none.
fn split_extension(text: &str) -> (&str, Option<&str>) {
    let table = text.find(":{").or_else(|| text.find(": {"));
    let parts = table.map(|at| (&text[..at], text[at + 1..].trim())).or_else(|| text.rsplit_once(':'));
    match parts {
        Some((run, extend)) if !extend.starts_with(['/', '\\']) => (run, Some(extend)),
        _ => (text, None),
    }
}

fn holds_results(folder: &Path) -> bool {
    folder.join("results.jsonl").exists()
}

/// The folders of runs: one by its path, several by a pattern, or one by the beginning of its key in the store.
fn find(run: &str) -> Result<Vec<PathBuf>> {
    let path = Path::new(run);
    if holds_results(path) {
        return Ok(vec![path.to_owned()]);
    }
    if run.contains('*') {
        return matching(path);
    }
    let keys = Store::new(Path::new(STORE)).keys()?;
    let found: Vec<&String> = keys.iter().filter(|key| key.starts_with(run)).collect();
    match found.as_slice() {
        [key] => Ok(vec![Path::new(STORE).join(key)]),
        [] => Err(Error::usage(format!("`{run}` holds no results, and no run of the store begins so"))
            .hint(match near_run(run) {
                Some(near) => format!("did you mean `{}`?", near.display()),
                None => "name the folder of a run that is trained, such as `runs/rope-0`, or a key that `longwave runs` lists"
                    .to_owned(),
            })),
        many => Err(Error::usage(format!("{} runs of the store begin with `{run}`", many.len()))
            .hint("give more of the key")),
    }
}

/// The run of that name in the folder where runs are kept.
fn near_run(run: &str) -> Option<PathBuf> {
    let near = Path::new("runs").join(run);
    holds_results(&near).then_some(near)
}

/// The runs in a folder whose names match the last part of a path, in which `*` stands for anything.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let folder = file::folder_of(pattern);
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io("list", folder, &error))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(std::result::Result::ok)
        .filter(|entry| matches(&name, &entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .filter(|path| holds_results(path))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(Error::usage(format!("no run matches `{}`", pattern.display()))
            .hint("`*` stands for any part of the last folder's name, such as `'runs/rope-*'`"));
    }
    Ok(found)
}

/// Whether a name is what a pattern says, `*` being any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(after, &rest[at..]))
        }),
    }
}

struct Column {
    /// What a narrow terminal calls it that goes without it.
    name: &'static str,
    header: fn(&Shown<'_>) -> Header,
    entry: fn(&Comparison) -> String,
}

/// What the table is of.
struct Shown<'a> {
    metric: Metric,
    over_seeds: bool,
    /// What readings are paired by beside the seed.
    unit: &'a str,
}

const COLUMNS: [Column; 10] = [
    Column { name: "", header: |_| Header::words("extend"), entry: |one| one.reading.clone() },
    Column { name: "", header: |_| Header::number("length"), entry: |one| one.settings.length.to_string() },
    Column {
        name: "",
        header: |shown| Header::number(if shown.metric == Metric::Loss { "ppl" } else { "first" }),
        entry: |one| value(one.metric, one.ppl, one.value),
    },
    Column {
        name: "the second side's value",
        header: |_| Header::number("other"),
        entry: |one| value(one.metric, one.other_ppl, one.other_value),
    },
    Column {
        name: "",
        header: |_| Header::number("difference"),
        entry: |one| format!("{:+.4}", one.difference),
    },
    Column {
        name: "the standard error",
        header: |_| Header::number("se"),
        entry: |one| one.se.map_or("-".to_owned(), |se| format!("{se:.4}")),
    },
    Column { name: "the interval", header: |_| Header::number("95% (t)"), entry: |one| ends(one.interval) },
    Column {
        name: "the bootstrap interval",
        header: |_| Header::number("95% (bootstrap)"),
        entry: |one| ends(one.bootstrap),
    },
    Column {
        name: "",
        header: |_| Header::number("p (Holm)"),
        entry: |one| p_value(one.p_holm) + if one.repeats { " =" } else { "" },
    },
    Column {
        name: "the number of pairs",
        header: |Shown { unit, over_seeds, .. }| {
            Header::number(if *over_seeds { format!("seeds, {unit}s") } else { format!("{unit}s") })
        },
        entry: |one| {
            let seeds = if one.over == Over::Documents { String::new() } else { format!("{}, ", one.seeds) };
            format!("{seeds}{}", one.documents)
        },
    },
];

/// The columns that a narrow terminal goes without, the first first.
const SPARED: [&str; 5] = [
    "the bootstrap interval",
    "the standard error",
    "the number of pairs",
    "the second side's value",
    "the interval",
];

/// The table with as many columns as a terminal of `width` has room for; a note names those that are left out.
fn fitted(width: Option<usize>, table: impl Fn(&[&Column]) -> Grid) -> Grid {
    let (mut columns, mut left_out): (Vec<&Column>, _) = (COLUMNS.iter().collect(), Vec::new());
    let mut fitted = table(&columns);
    let Some(width) = width else { return fitted };
    for name in SPARED {
        if fitted.width() <= width {
            break;
        }
        columns.retain(|column| column.name != name);
        left_out.push(name);
        fitted = table(&columns);
    }
    // What a reading is called is the one part that can be of any width.
    let excess = fitted.width().saturating_sub(width);
    if excess > 0 {
        let widest = fitted.rows.iter().map(|row| row[0].value.chars().count()).max().unwrap_or(0);
        let room = widest.saturating_sub(excess).max(8);
        for row in &mut fitted.rows {
            if row[0].value.chars().count() > room {
                row[0].value = row[0].value.chars().take(room - 1).chain(['…']).collect();
            }
        }
    }
    if !left_out.is_empty() {
        fitted
            .notes
            .push(format!("the terminal is too narrow for {}; `--json` has everything", left_out.join(", ")));
    }
    fitted
}

fn table(title: &str, metric: Metric, compared: &Comparisons, columns: &[&Column]) -> Grid {
    let name = if metric == Metric::Loss { "Loss".to_owned() } else { format!("`{}`", metric.name()) };
    let first = match metric.better() {
        None => "below 0 the first is smaller",
        Some(_) if metric.lower_is_better() => "below 0 the first is better",
        Some(_) => "above 0 the first is better",
    };
    let over = compared.list.first().map_or(Over::Documents, |one| one.over);
    let over_seeds = over != Over::Documents;
    let unit = unit(&compared.list);
    let by = if over_seeds {
        format!("seed and {unit}; the 95% interval is over {}", over.in_words(unit))
    } else {
        unit.to_owned()
    };
    let mut notes = vec![format!("{name} in {}, paired by {by}; {first}", metric.unit())];
    let repeats = compared.list.iter().filter(|one| one.repeats).count();
    if repeats > 0 {
        notes.push(format!(
            "= is the same as a line above by construction, so Holm's correction counts it once ({repeats})"
        ));
    }
    notes.extend(compared.notes.iter().cloned());
    let shown = Shown { metric, over_seeds, unit };
    let row = |one: &Comparison| columns.iter().map(|column| Entry::new((column.entry)(one))).collect();
    Grid {
        title: title.to_owned(),
        setting: String::new(),
        headers: columns.iter().map(|column| (column.header)(&shown)).collect(),
        rows: compared.list.iter().map(row).collect(),
        notes,
    }
}

/// What readings are paired by beside the seed: documents, the sequences of a task, or blocks of the one document.
fn unit(list: &[Comparison]) -> &'static str {
    list.first().map_or("document", |one| one.unit)
}

fn value(metric: Metric, ppl: f64, value: f64) -> String {
    if metric == Metric::Loss { format!("{ppl:.2}") } else { format!("{value:.4}") }
}

fn ends(ends: Option<(f64, f64)>) -> String {
    ends.map_or("-".to_owned(), |(low, high)| format!("{low:+.4} to {high:+.4}"))
}

/// A probability with four digits; one that is smaller is no zero.
fn p_value(p: Option<f64>) -> String {
    match p {
        None => "-".to_owned(),
        Some(small) if small < 1e-4 => "<0.0001".to_owned(),
        Some(p) => format!("{p:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_begins_an_extension_unless_a_drive_does() {
        assert_eq!(split_extension("runs/a-0:yarn"), ("runs/a-0", Some("yarn")));
        assert_eq!(
            split_extension("a:{ kind = \"yarn\", ramp = \"a:b\" }"),
            ("a", Some("{ kind = \"yarn\", ramp = \"a:b\" }"))
        );
        assert_eq!(split_extension("C:\\runs\\a-0"), ("C:\\runs\\a-0", None));
        assert_eq!(split_extension("runs/a-0"), ("runs/a-0", None));
    }

    #[test]
    fn a_star_is_any_text() {
        assert!(matches("rope-*", "rope-0") && matches("*-0", "rope-0") && matches("r*-*", "rope-10"));
        assert!(!matches("rope-*", "alibi-0") && !matches("rope-*x", "rope-0"));
    }
}
