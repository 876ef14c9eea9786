//! `longwave report`: tables, plots and the page of a run, of a study, or of a folder of runs.

use crate::options::{one_value, parsed};
use crate::output::{lines, status};
use crate::page_folder;
use crate::study_runner::{report_again, write_again};
use crate::tables::{print, write_figure, write_figures, write_report};
use clap::{ArgGroup, Args};
use longwave_core::{Error, Result, file};
use longwave_eval::Reference;
use longwave_report::Format;
use longwave_report::page::Report;
use longwave_report::plot::{Figure, FigureFormat, Typeface};
use longwave_study::saved;
use std::path::{Path, PathBuf};

/// Write tables, plots and the HTML page of a run, of a study, or of a folder of runs
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("paper").args(["pdf", "figure"])))]
pub(crate) struct Arguments {
    /// A run's folder, a study's, or a folder of runs
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write into this folder, and nothing into DIR, which may be read-only; a new folder, or that of an earlier report
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The reading that the others are compared with, `window_baseline` or an extension; as they were evaluated unless
    /// given
    #[arg(long, value_name = "METHOD")]
    against: Option<String>,
    /// Print the tables too: as `text`, `markdown`, `latex` or `csv`
    #[arg(long, value_name = "FORMAT", value_parser = parsed::<Format>)]
    format: Option<Format>,
    /// Write the charts as PDF too, without headings, for a paper
    #[arg(long)]
    pdf: bool,
    /// Write one figure for a paper and nothing else, perplexity by length, into a file that ends with `.svg`, `.png` or
    /// `.pdf`
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    figure: Option<PathBuf>,
    /// The width of a figure or of the PDF charts, as `85mm`, `8.5cm`, `3.3in` or `240pt`
    #[arg(long, value_name = "SIZE", requires = "paper", value_parser = parse_points)]
    width: Option<f64>,
    /// Their height; in proportion to the width unless given
    #[arg(long, value_name = "SIZE", requires = "paper", value_parser = parse_points)]
    height: Option<f64>,
    /// The size of the numbers at their axes
    #[arg(long, value_name = "SIZE", requires = "paper", default_value = "9pt", value_parser = parse_points)]
    font_size: f64,
    /// The font of their texts, a TrueType file, in place of the program's own
    #[arg(long, value_name = "FILE", requires = "paper")]
    font: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let against = arguments
        .against
        .as_deref()
        .map(|text| Reference::from_value(&one_value("--against", text)?, "--against"))
        .transpose()?;
    // A font that cannot be read, and a file of another kind, are found before anything is written.
    let figure = figure(arguments)?;
    let only = arguments.figure.as_deref().map(|path| Ok((path, FigureFormat::of(path)?))).transpose()?;
    if let Some(out) = &arguments.out {
        page_folder::check(out, Some(&arguments.folder), &["report.html", "report/report.html"])?;
        file::make_folders(out).map_err(|error| Error::io("make", out, &error))?;
    }
    if let Some(study) = saved::folder_of(&arguments.folder) {
        let out = arguments.out.as_ref().unwrap_or(&study);
        let report = report_again(&study, against.as_ref())?;
        match (only, report.page()) {
            (Some((path, kind)), Some(page)) => write_figure(page, path, kind, &figure)?,
            (_, page) => {
                write_again(&report, out)?;
                if let Some(page) = page.filter(|_| arguments.pdf) {
                    write_figures(page, &out.join(saved::PAGES), &figure)?;
                }
            }
        }
        return arguments.format.map_or(Ok(()), |format| lines(&report.tables(format)));
    }
    check_has_plan(&arguments.folder)?;
    if arguments.out.is_none() {
        page_folder::check_reported(&arguments.folder)?;
    }
    let report = Report::read(&arguments.folder, against.as_ref())?;
    let out = arguments.out.as_ref().unwrap_or(&arguments.folder);
    report.notes().iter().for_each(|note| status(note));
    if let Some((path, kind)) = only {
        write_figure(&report, path, kind, &figure)?;
    } else {
        write_report(&report, out)?;
        if arguments.pdf {
            write_figures(&report, out, &figure)?;
        }
    }
    arguments.format.map_or(Ok(()), |format| print(&report.tables(), &report.histories(), format))
}

fn figure(arguments: &Arguments) -> Result<Figure> {
    let typeface = arguments.font.as_deref().map(Typeface::load).transpose()?;
    Ok(Figure {
        width: arguments.width,
        height: arguments.height,
        font_size: arguments.font_size,
        typeface: typeface.unwrap_or_default(),
    })
}

/// A size on paper, in points of 1/72 inch.
fn parse_points(text: &str) -> std::result::Result<f64, String> {
    let units = [("pt", 1.0), ("mm", 72.0 / 25.4), ("cm", 720.0 / 25.4), ("in", 72.0)];
    let size = units.iter().find_map(|(unit, points)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * points)
    });
    // A page of a PDF has 14,400 points at most.
    size.filter(|points| (1.0..=14_400.0).contains(points)).ok_or_else(|| {
        "write a number and `pt`, `mm`, `cm` or `in`, such as `85mm`; 1pt to 14400pt".to_owned()
    })
}

/// A study without its plan cannot be reported from, and the report of a folder would replace its table.
fn check_has_plan(folder: &Path) -> Result<()> {
    if !folder.join("plan.json").is_file() {
        return Ok(());
    }
    let text = format!(
        "`{}` is a study that has lost its `plan.toml`, and cannot be reported again",
        folder.display()
    );
    Err(Error::usage(text).hint("`longwave study FILE --collect` writes its tables, claims and page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(parse_points("240pt"), Ok(240.0));
        assert!((parse_points("25.4mm").unwrap() - 72.0).abs() < 1e-9);
        assert!((parse_points("2.54 cm").unwrap() - 72.0).abs() < 1e-9);
        for wrong in ["85", "mm", "-3in", "0pt", "NaNpt", "1e9mm"] {
            assert!(parse_points(wrong).is_err(), "{wrong}");
        }
    }
}
