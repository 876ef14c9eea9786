//! Tables on the terminal, and reports in a folder.

use crate::output::{self, lines, status};
use longwave_core::text::quoted;
use longwave_core::{Result, file};
use longwave_eval::{ResultRow, reference};
use longwave_report::page::Report;
use longwave_report::plot::{self, Figure, FigureFormat};
use longwave_report::{Format, Grid, History, Table, blocks, histories};
use std::path::{Path, PathBuf};

pub(crate) fn print_tables(rows: &[ResultRow], format: Format) -> Result<()> {
    let mut rows = rows.to_vec();
    reference::resolve(&mut rows, None)?;
    let tables: Vec<Table> = blocks(&rows).iter().flat_map(Table::all).collect();
    let readings = histories(&rows).iter().flat_map(History::readings).collect::<Vec<_>>();
    print(&tables, &readings.into_iter().map(|reading| reading.table).collect::<Vec<_>>(), format)
}

/// Prints tables by length and by training step in a format; as text they are fitted to the terminal.
pub(crate) fn print(tables: &[Table], histories: &[Grid], format: Format) -> Result<()> {
    let by_length = tables.iter().map(|table| match format {
        Format::Text => table.terminal(output::width()),
        format => table.grid().written(format),
    });
    let by_step = histories.iter().map(|grid| match format {
        Format::Text => grid.text_within(output::width()),
        format => grid.written(format),
    });
    lines(&by_length.chain(by_step).collect::<Vec<_>>().join("\n"))
}

/// Writes plots, tables and page of a run again, from all its rows: into its folder, or into another one that has rows of it, see
/// [`Report::read_elsewhere`].
pub(crate) fn renew_report(run: &Path, elsewhere: Option<&Path>) -> Result<()> {
    let folder = elsewhere.unwrap_or(run);
    let report = elsewhere.map_or_else(|| Report::read(run, None), |out| Report::read_elsewhere(out, run));
    let word = quoted(&folder.to_string_lossy());
    report.and_then(|report| write_report(&report, folder)).map_err(|error| {
        let hint = format!("`longwave report {word}` writes them once that is put right");
        let hint = error.hint_text().map_or(hint, str::to_owned);
        let old = "the rows are kept in `results.jsonl`, but tables, charts and page do not show them";
        error.context(old).hint(hint)
    })
}

/// Writes plots, tables and page into a folder, and says where they are.
pub(crate) fn write_report(report: &Report, folder: &Path) -> Result<()> {
    wrote(folder, &report.write(folder)?);
    Ok(())
}

/// Writes the charts as PDF into a folder, and says where they are.
pub(crate) fn write_figures(report: &Report, folder: &Path, figure: &Figure) -> Result<()> {
    wrote(folder, &report.write_figures(folder, figure)?);
    Ok(())
}

/// Writes the one chart of a paper, and says what it shows, for its caption.
pub(crate) fn write_figure(report: &Report, path: &Path, kind: FigureFormat, figure: &Figure) -> Result<()> {
    let (chart, left_out) = report.figure()?;
    file::write(path, &plot::figure(&chart, figure, kind)?)?;
    status(&format!("wrote {}: {}", path.display(), chart.title));
    status(&chart.subtitle);
    if left_out > 0 {
        status(&format!("{left_out} more tables by length are not in it: `--pdf` draws each"));
    }
    Ok(())
}

pub(crate) fn wrote(folder: &Path, paths: &[PathBuf]) {
    let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    let names: Vec<String> = paths.iter().filter_map(name).collect();
    status(&format!("wrote {} in {}", names.join(", "), folder.display()));
}
