//! `longwave compare`: the paired differences of two runs.

use crate::options::one_of;
use crate::output::data;
use clap::Args;
use longwave_core::{Error, Result};
use longwave_eval::{Metric, ResultRow, row};
use longwave_study::compare::{Comparison, compare};
use longwave_study::document::STORE;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Compare two runs wherever they were measured alike
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A run's folder, or the beginning of a key in the store
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Another one
    #[arg(value_name = "RUN")]
    other: PathBuf,
    #[arg(long, value_name = "METRIC", default_value = "loss", value_parser = parse_metric, help = metrics())]
    metric: Metric,
    /// Print JSON lines instead of the table
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let (run, other) = (find(&arguments.run)?, find(&arguments.other)?);
    let comparisons = compare(&rows(&run)?, &rows(&other)?, arguments.metric)?;
    if !arguments.json {
        return data(&table(&run, &other, arguments.metric, &comparisons));
    }
    let lines = comparisons.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>();
    let lines = lines.map_err(|error| Error::failed(format!("a row cannot be written as JSON: {error}")))?;
    data(&(lines.join("\n") + "\n"))
}

/// Reads a metric by its name.
fn metrics() -> String {
    format!("What is compared: {}", one_of(Metric::comparable().map(Metric::name)))
}

fn parse_metric(text: &str) -> std::result::Result<Metric, String> {
    text.parse().map_err(|error: Error| error.message().to_owned())
}

/// A run's folder, by its path or by the beginning of its key in the store.
fn find(run: &Path) -> Result<PathBuf> {
    if run.join("results.jsonl").exists() {
        return Ok(run.to_owned());
    }
    let beginning = run.to_string_lossy();
    let keys = longwave_study::Store::new(Path::new(STORE)).keys()?;
    let found: Vec<&String> = keys.iter().filter(|key| key.starts_with(&*beginning)).collect();
    match found.as_slice() {
        [key] => Ok(Path::new(STORE).join(key)),
        [] => Err(Error::usage(format!(
            "`{}` holds no results, and no run of the store begins so",
            run.display()
        ))
        .hint("name a run's folder, such as `runs/rope-0`, or a key that `longwave runs` lists")),
        many => Err(Error::usage(format!("{} runs of the store begin with `{beginning}`", many.len()))
            .hint("give more of the key")),
    }
}

fn rows(run: &Path) -> Result<Vec<ResultRow>> {
    row::read_rows(&run.join("results.jsonl"))
}

fn table(run: &Path, other: &Path, metric: Metric, comparisons: &[Comparison]) -> String {
    let (mut extends, mut text) = (vec!["extend".len()], String::new());
    extends.extend(comparisons.iter().map(|comparison| comparison.extend.len()));
    let wide = extends.into_iter().max().unwrap_or(0);
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{} minus {}\n", run.display(), other.display());
    let _ = writeln!(
        text,
        "{:<wide$}  {:>7}  {:>9}  {:>9}  {:>9}  {:>8}  {:>20}  {:>20}  {:>8}  {:>9}",
        "extend",
        "length",
        if metric == Metric::Loss { "ppl" } else { "first" },
        "other",
        if metric == Metric::Loss { "nats" } else { "minus" },
        "se",
        "95% (t)",
        "95% (bootstrap)",
        "p (Holm)",
        "documents"
    );
    for comparison in comparisons {
        let ends = |ends: Option<(f64, f64)>| {
            ends.map_or("-".to_owned(), |(low, high)| format!("{low:+.4} to {high:+.4}"))
        };
        let (first, second) = match metric {
            Metric::Loss => (format!("{:.2}", comparison.ppl), format!("{:.2}", comparison.other_ppl)),
            _ => (format!("{:.4}", comparison.value), format!("{:.4}", comparison.other_value)),
        };
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.4}"));
        let _ = writeln!(
            text,
            "{:<wide$}  {:>7}  {:>9}  {:>9}  {:>+9.4}  {:>8}  {:>20}  {:>20}  {:>8}  {:>9}",
            comparison.extend,
            comparison.settings.length,
            first,
            second,
            comparison.difference,
            number(comparison.se),
            ends(comparison.interval),
            ends(comparison.bootstrap),
            number(comparison.p_holm),
            comparison.documents
        );
    }
    let name = if metric == Metric::Loss { "Loss".to_owned() } else { format!("`{}`", metric.name()) };
    let better = if metric.lower_is_better() { "below" } else { "above" };
    let _ = writeln!(
        text,
        "\n{name} in {}, paired by document; {better} 0 the first run is better.",
        metric.unit()
    );
    text
}
