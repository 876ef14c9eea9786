//! Every number of the tables in a committed `study.md` follows from the `results.csv` beside it.

use super::repository;
use super::results::{Mean, Measured, Study, attention_metrics};
use longwave_eval::Metric;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The studies of `experiments` whose results are committed.
pub(super) fn committed() -> Vec<String> {
    let folders = fs::read_dir(repository("experiments")).unwrap();
    let folders =
        folders.map(|entry| entry.unwrap().path()).filter(|path| path.join("results.csv").is_file());
    let mut names: Vec<String> =
        folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// What the cells of a table show.
#[derive(Clone, Copy)]
enum Shown {
    Perplexity,
    BitsPerByte,
    ExactMatch,
    Accuracy,
    /// A metric of attention.
    Attention(Metric),
}

impl Shown {
    /// As the table has it, without what stands in parentheses or brackets.
    fn text(self, rows: &[&Measured]) -> String {
        let shares = |of: fn(&Measured) -> Option<f64>| {
            Mean::share(&rows.iter().map(|row| of(row).unwrap()).collect::<Vec<_>>())
        };
        match self {
            _ if rows.is_empty() => String::new(),
            Self::Perplexity => Mean::of(&rows.iter().map(|row| row.loss).collect::<Vec<_>>()).text(),
            Self::BitsPerByte => Mean::number(&rows.iter().map(|row| row.bits.unwrap()).collect::<Vec<_>>()),
            Self::ExactMatch => shares(|row| row.exact_match),
            Self::Accuracy => shares(|row| row.accuracy),
            Self::Attention(metric) => {
                let values: Vec<f64> = rows.iter().map(|row| row.of_attention[metric.name()]).collect();
                if metric.is_share() { Mean::share(&values) } else { Mean::number(&values) }
            }
        }
    }
}

/// A table of `study.md`, by its title.
struct Title<'a> {
    shown: Shown,
    protocol: &'a str,
    split: &'a str,
    train_length: usize,
    by_step: bool,
}

impl<'a> Title<'a> {
    /// `Perplexity, fixed_target, test split, L = 64`, with `, by training step` or without.
    fn read(title: &'a str) -> Option<Self> {
        let kinds = [
            ("Perplexity, ", Shown::Perplexity),
            ("Bits per byte, ", Shown::BitsPerByte),
            ("Exact match in %, ", Shown::ExactMatch),
            ("Accuracy in %, ", Shown::Accuracy),
        ];
        let of_attention =
            attention_metrics().map(|metric| (format!("{}, ", metric.title()), Shown::Attention(metric)));
        let kinds = kinds.map(|(begin, shown)| (begin.to_owned(), shown));
        let (rest, shown) = kinds
            .into_iter()
            .chain(of_attention)
            .find_map(|(begin, shown)| Some((title.strip_prefix(&begin)?, shown)))?;
        let (rest, by_step) =
            rest.strip_suffix(", by training step").map_or((rest, false), |rest| (rest, true));
        let (protocol, rest) = rest.split_once(", ")?;
        let (split, length) = rest.split_once(" split, L = ")?;
        Some(Self { shown, protocol, split, train_length: length.parse().ok()?, by_step })
    }

    fn is_of(&self, row: &Measured) -> bool {
        row.protocol == self.protocol && row.split == self.split && row.train_length == self.train_length
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect()
}

/// Compares the cells of one table and counts them.
fn compare(study: &Study, title: &Title<'_>, section: &str) -> usize {
    let mut lines = section.lines().filter(|line| line.starts_with('|'));
    let header = cells(lines.next().unwrap());
    let of_table: Vec<&Measured> = study.rows().filter(|row| title.is_of(row)).collect();
    let first = study.axes + 1 + usize::from(title.by_step);
    let first_number = |text: &str| -> usize { text.split(' ').find_map(|word| word.parse().ok()).unwrap() };
    let mut compared = 0;
    for line in lines.skip(1) {
        let row = cells(line);
        let (label, reading) = (row[..study.axes].join(", "), row[study.axes]);
        let of_line: Vec<&&Measured> =
            of_table.iter().filter(|one| one.label == label && one.reading == reading).collect();
        for (name, cell) in header.iter().zip(&row).skip(first) {
            let is_meant = |one: &Measured| {
                if title.by_step {
                    one.length == first_number(row[first - 1]) && one.step == first_number(name) as u64
                } else {
                    one.length == first_number(name) && !one.is_of_kept_step
                }
            };
            let rows: Vec<&Measured> = of_line.iter().map(|one| **one).filter(|one| is_meant(one)).collect();
            let shown =
                cell.split([' ']).take_while(|part| !part.starts_with(['(', '['])).collect::<Vec<_>>();
            assert_eq!(shown.join(" "), title.shown.text(&rows), "{}: {line}", study.name);
            compared += 1;
        }
    }
    compared
}

#[test]
fn the_tables_of_committed_studies_follow_from_their_results() {
    let names = committed();
    assert!(names.len() >= 2, "{names:?}");
    for name in names {
        let study = Study::read(&name);
        let text = fs::read_to_string(repository(&format!("experiments/{name}/study.md"))).unwrap();
        let sections = text.split("\n## ").skip(1);
        let tables = sections.filter_map(|section| Some((Title::read(section.lines().next()?)?, section)));
        let compared: usize = tables.map(|(title, section)| compare(&study, &title, section)).sum();
        let results: BTreeSet<_> = study.rows().map(|row| (&row.label, &row.reading, row.length)).collect();
        assert!(compared >= results.len().min(100), "{name}: only {compared} numbers were compared");
    }
}

/// The numbers of a text with an error: a perplexity, `15.44 ±1.0%`, or a share, `95.9 ±9.2`.
fn numbers(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |word: &str| word.starts_with(|sign: char| sign.is_ascii_digit());
    let is_part = |sign: char| sign.is_ascii_digit() || "±.%".contains(sign);
    let error = |word: &str| -> String { word.chars().take_while(|sign| is_part(*sign)).collect() };
    let pairs = words.windows(2).map(|pair| (pair[0], error(pair[1])));
    let pairs =
        pairs.filter(|(number, error)| is_number(number) && error.starts_with('±') && error.len() > 2);
    pairs.map(|(number, error)| format!("{number} {}", error.trim_end_matches('.'))).collect()
}

/// The page that the head of a study's file names, which several studies may share: `# Result    experiments/PAGE.md (..)`.
fn page_of(file: &str) -> &str {
    let line = file.lines().find_map(|line| line.strip_prefix("# Result ")).unwrap();
    let name = line.trim_start().split([' ', ';']).next().unwrap();
    name.strip_prefix("experiments/").unwrap_or_else(|| panic!("{name} is not in experiments"))
}

/// What a reader looks for first: the file, the page about it, and the number of claims that stands in both.
#[test]
fn each_committed_study_has_a_file_and_a_page() {
    let read = |path: &str| {
        fs::read_to_string(repository(&format!("experiments/{path}")))
            .unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let mut pages: BTreeMap<String, String> = BTreeMap::new();
    for name in committed() {
        let file = read(&format!("{name}.toml"));
        for part in ["# Command", "# Time", "# Asks", "# Scale", "# Result", "# On a GPU"] {
            assert!(file.contains(part), "experiments/{name}.toml has no `{part}`");
        }
        let page = page_of(&file);
        assert!(read(page).contains(&format!("cargo longwave study {name}.toml")), "{page} has no command");
        assert!(read("README.md").contains(&format!("({page})")), "experiments/README.md has no {page}");
        *pages.entry(page.to_owned()).or_default() += &read(&format!("{name}/study.md"));
        let study = Study::read(&name);
        let of =
            |verdict: &str| study.claims().iter().filter(|claim| claim.verdict.starts_with(verdict)).count();
        let counted = format!(
            "{} claims: {} held, {} failed, {} undecided",
            study.claims().len(),
            of("holds"),
            of("fails"),
            of("undecided")
        );
        assert!(file.contains(&counted), "experiments/{name}.toml does not say `{counted}`");
    }
    // What a page copies is what its studies say.
    for (page, studies) in pages {
        for number in numbers(&read(&page)) {
            assert!(studies.contains(&number), "{page} has {number}, and no study.md of it has");
        }
    }
}
