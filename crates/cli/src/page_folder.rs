//! The folders that commands write a page into, with its charts and tables: nothing of somebody else is replaced there.

use longwave_core::text::GENERATOR;
use longwave_core::{Error, Result, file};
use longwave_study::saved;
use std::path::Path;

/// Checks the folder of `--out`: it holds nothing but what the same command wrote earlier, unless it is what is `reported`. `pages` are the
/// names of that command's page.
pub(crate) fn check(out: &Path, reported: Option<&Path>, pages: &[&str]) -> Result<()> {
    let is =
        |other: &Path| out.canonicalize().is_ok_and(|out| other.canonicalize().is_ok_and(|it| it == out));
    if reported.is_some_and(is) {
        return Ok(());
    }
    let holds = if is_of_run(out) {
        "holds a run of its own, or rows of one"
    } else if saved::folder_of(out).is_some() || out.join("plan.json").exists() {
        "holds a study of its own"
    } else if !pages.iter().any(|page| is_ours(&out.join(page))) && !file::holds_leftovers_only(out) {
        "is not empty and holds no report"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("`--out {}` {holds}", out.display())).hint("choose another folder with `--out`"))
}

/// Checks a folder of runs whose report is written into it: what is called as a file of a report is one.
pub(crate) fn check_reported(folder: &Path) -> Result<()> {
    let names = ["report.html", "results.csv", "results.md"];
    let there = names.iter().map(|name| folder.join(name)).find(|path| path.exists());
    match there {
        Some(path) if !is_of_run(folder) && !is_ours(&folder.join("report.html")) => {
            Err(Error::usage(format!("`{}` is of no report, and one would replace it", path.display()))
                .hint("write the report into another folder with `--out`"))
        }
        _ => Ok(()),
    }
}

fn is_of_run(folder: &Path) -> bool {
    ["config.toml", "results.jsonl"].iter().any(|name| folder.join(name).exists())
}

/// Whether a page is one that this program wrote: others call theirs `report.html` too.
fn is_ours(page: &Path) -> bool {
    file::read_text(page).is_ok_and(|page| page.contains(GENERATOR))
}
