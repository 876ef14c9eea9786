//! What `longwave explain` found, as tables, charts and CSV.

#[cfg(test)]
mod tests;
mod words;

use crate::file_name::file_name_of;
use crate::grid::{Entry, Grid, Header};
use crate::plot::{Axis, Chart, Scale, Series};
use longwave_core::{Result, csv, file};
use longwave_eval::diagnostics::{Diagnostic, Explained, Finding, Over};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use words::{definition, entry, line, short};

/// What stands in the table by length, in its order.
const BY_LENGTH: [Diagnostic; 13] = [
    Diagnostic::Loss,
    Diagnostic::BaselineChange,
    Diagnostic::UnseenAngles,
    Diagnostic::UnseenPairs,
    Diagnostic::FirstToken,
    Diagnostic::Sinks,
    Diagnostic::BeyondLength,
    Diagnostic::Entropy,
    Diagnostic::EffectiveKeys,
    Diagnostic::StableRank,
    Diagnostic::PreferredBand,
    Diagnostic::PredictedBand,
    Diagnostic::ReceptiveField,
];
/// What stands in the table by head.
const BY_HEAD: [Diagnostic; 7] = [
    Diagnostic::UnseenAngles,
    Diagnostic::FirstToken,
    Diagnostic::BeyondLength,
    Diagnostic::Entropy,
    Diagnostic::EffectiveKeys,
    Diagnostic::StableRank,
    Diagnostic::PreferredBand,
];
const BY_BAND: [Diagnostic; 3] = [Diagnostic::KeyNorm, Diagnostic::QueryNorm, Diagnostic::BandShare];

#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The name of the chart's files, without an ending.
    pub file: String,
    pub grid: Grid,
    pub chart: Option<Chart>,
}

pub fn tables(explained: &Explained) -> Vec<Shown> {
    let of = |extend: &String| Reading { explained, extend }.tables();
    explained.extend.iter().flat_map(of).filter(|shown| !shown.grid.rows.is_empty()).collect()
}

/// The sentences to read first, those of each reading after its name where there are several.
pub fn summary(explained: &Explained) -> Vec<String> {
    let several = explained.extend.len() > 1;
    let of = |extend: &String| {
        let named = move |sentence| if several { format!("{extend}: {sentence}") } else { sentence };
        explained.summary(extend).into_iter().map(named).collect::<Vec<_>>()
    };
    explained.extend.iter().flat_map(of).collect()
}

/// Keeps every number in a folder, as `explained.json` and `explained.csv`. Gives the paths it wrote.
pub fn keep(explained: &Explained, folder: &Path) -> Result<Vec<PathBuf>> {
    let lines = folder.join("explained.csv");
    file::write(&lines, csv(explained).as_bytes())?;
    Ok(vec![explained.keep(folder)?, lines])
}

pub fn csv(explained: &Explained) -> String {
    let header = ["diagnostic", "extend", "length", "layer", "head", "bin", "value", "se", "count", "over"];
    let number = |number: Option<usize>| number.map_or_else(String::new, |number| number.to_string());
    let row = |it: &Finding| {
        csv::line([
            it.diagnostic.name(),
            it.extend.clone(),
            it.length.to_string(),
            number(it.layer),
            number(it.head),
            number(it.bin),
            it.value.to_string(),
            it.se.map_or_else(String::new, |se| se.to_string()),
            it.count.to_string(),
            it.over.name().to_owned(),
        ])
    };
    csv::line(header) + &explained.findings.iter().map(row).collect::<String>()
}

/// What errors are over; of one window there are none.
fn errors(explained: &Explained) -> String {
    match explained.findings.iter().find(|it| it.se.is_some()) {
        Some(it) if it.over == Over::Runs => format!("errors are standard errors over {} runs", it.count),
        Some(it) => format!("errors are standard errors over {}", it.over.name()),
        None => "one window has no error".to_owned(),
    }
}

struct Reading<'a> {
    explained: &'a Explained,
    extend: &'a str,
}

impl Reading<'_> {
    fn tables(&self) -> Vec<Shown> {
        let longest = self.explained.lengths.iter().copied().max().unwrap_or_default();
        let ends = BTreeSet::from([self.explained.train_length, longest]);
        let ends: Vec<usize> = ends.into_iter().filter(|end| self.explained.lengths.contains(end)).collect();
        let mut shown = vec![self.by_length()];
        shown.extend(ends.iter().map(|&length| self.by_head(length)));
        shown.extend([
            self.by_band(&ends),
            self.probe(longest),
            self.gradient(),
            self.repetition(),
            self.context(longest),
        ]);
        shown
    }

    fn of(&self, diagnostic: Diagnostic) -> impl Iterator<Item = &Finding> {
        let is_here = move |it: &&Finding| it.diagnostic == diagnostic && it.extend == self.extend;
        self.explained.findings.iter().filter(is_here)
    }

    fn at(&self, diagnostic: Diagnostic, length: usize, place: [Option<usize>; 3]) -> Entry {
        let is_here = |it: &&Finding| it.length == length && [it.layer, it.head, it.bin] == place;
        self.of(diagnostic).find(is_here).map_or_else(|| Entry::new("–"), entry)
    }

    fn grid(&self, title: &str, labels: &[&str], columns: Vec<String>, diagnostics: &[Diagnostic]) -> Grid {
        let reading =
            if self.extend == "direct" { String::new() } else { format!(", read as `{}`", self.extend) };
        let labels = labels.iter().map(|label| Header::words(*label));
        let there = |it: &&Diagnostic| self.of(**it).next().is_some();
        Grid {
            title: format!("{title}{reading}"),
            setting: format!(
                "{}{}; {}",
                self.explained.measured_on,
                self.first_windows(diagnostics),
                errors(self.explained)
            ),
            headers: labels.chain(columns.into_iter().map(Header::number)).collect(),
            rows: Vec::new(),
            notes: diagnostics.iter().filter(there).map(|it| definition(*it)).collect(),
        }
    }

    /// Which windows the gradient was taken of, where a table has numbers of it and these are not all.
    fn first_windows(&self, diagnostics: &[Diagnostic]) -> String {
        let mut found = diagnostics.iter().flat_map(|it| self.of(*it));
        let Some((windows, it)) = found.find_map(|it| Some((it.windows?, it))) else {
            return String::new();
        };
        let first = if windows == 1 { "first one".to_owned() } else { format!("first {windows}") };
        let of = match it.over {
            Over::Documents | Over::Sequences => {
                let one = it.over.name().trim_end_matches('s');
                let plural = if it.count == 1 { "" } else { "s" };
                format!(" ({} {one}{plural})", it.count)
            }
            Over::Windows | Over::Runs => String::new(),
        };
        format!(", the gradient of the {first} of these{of}")
    }

    fn lengths(&self) -> Vec<String> {
        self.explained.lengths.iter().map(|&length| self.column(length)).collect()
    }

    /// A length as the other tables name it.
    fn column(&self, length: usize) -> String {
        match self.explained.in_words(length) {
            words if words.ends_with("tokens") => length.to_string(),
            words => format!("{length} ({words})"),
        }
    }

    fn by_length(&self) -> Shown {
        let mut grid =
            self.grid("What the model does at each length", &["diagnostic"], self.lengths(), &BY_LENGTH);
        let whole =
            |diagnostic| self.of(diagnostic).any(|it| (it.layer, it.head, it.bin) == (None, None, None));
        for diagnostic in BY_LENGTH.into_iter().filter(|it| whole(*it)) {
            let cells = self.explained.lengths.iter().map(|&at| self.at(diagnostic, at, [None; 3]));
            let unit = if diagnostic.is_share() { "%" } else { diagnostic.unit() };
            let name = Entry::new(format!("{} ({unit})", diagnostic.title()));
            grid.rows.push(std::iter::once(name).chain(cells).collect());
        }
        let shares = BY_LENGTH.into_iter().filter(|it| it.is_share() && *it != Diagnostic::Sinks);
        let lines = shares.enumerate().map(|(style, diagnostic)| {
            let whole = self.of(diagnostic).filter(|it| it.layer.is_none() && it.bin.is_none());
            line(diagnostic.title().to_owned(), style, whole.map(|it| (it.length as f64, it)))
        });
        let chart = self.chart(&grid, ["context length (tokens)", "per cent"], Scale::Log, lines.collect());
        self.shown("length", grid, chart)
    }

    fn by_head(&self, length: usize) -> Shown {
        let there: Vec<Diagnostic> =
            BY_HEAD.into_iter().filter(|it| self.of(*it).any(|it| it.head.is_some())).collect();
        let title = format!("Layers and heads at {}", self.column(length));
        let mut grid =
            self.grid(&title, &["layer", "head"], there.iter().map(|it| short(*it)).collect(), &[]);
        let places: BTreeSet<(usize, Option<usize>)> =
            there.iter().flat_map(|it| self.of(*it).filter_map(|it| Some((it.layer?, it.head)))).collect();
        for (layer, head) in places {
            let cells = there.iter().map(|it| self.at(*it, length, [Some(layer), head, None]));
            let labels = [layer.to_string(), head.map_or_else(|| "all".to_owned(), |head| head.to_string())];
            grid.rows.push(labels.map(Entry::new).into_iter().chain(cells).collect());
        }
        self.shown("heads", grid, None)
    }

    fn by_band(&self, lengths: &[usize]) -> Shown {
        let columns = BY_BAND.iter().flat_map(|it| {
            lengths.iter().map(|&at| format!("{} at {}", short(*it), self.explained.in_words(at)))
        });
        let mut grid = self.grid("Bands, the fastest first", &["band"], columns.collect(), &BY_BAND);
        let bands: BTreeSet<Option<usize>> = self.of(Diagnostic::KeyNorm).map(|it| it.bin).collect();
        for band in bands {
            let cells =
                BY_BAND.iter().flat_map(|it| lengths.iter().map(|&at| self.at(*it, at, [None, None, band])));
            let name = Entry::new(band.unwrap_or_default().to_string());
            grid.rows.push(std::iter::once(name).chain(cells).collect());
        }
        let train = self.explained.train_length;
        let layers: BTreeSet<usize> = self.of(Diagnostic::KeyNorm).filter_map(|it| it.layer).collect();
        let lines = layers.into_iter().map(|layer| {
            let here = self
                .of(Diagnostic::KeyNorm)
                .filter(move |it| (it.layer, it.head, it.length) == (Some(layer), None, train));
            line(format!("layer {layer}"), layer, here.map(|it| (it.bin.unwrap_or_default() as f64, it)))
        });
        let mut chart = self.chart(
            &grid,
            ["band, the fastest first", "mean norm of keys"],
            Scale::Linear,
            lines.collect(),
        );
        let predicted =
            self.of(Diagnostic::PredictedBand).next().map(|it| (it.value, "predicted".to_owned()));
        if let Some(chart) = &mut chart {
            chart.mark = predicted;
        }
        self.shown("bands", grid, chart)
    }

    fn probe(&self, length: usize) -> Shown {
        let ranges: BTreeSet<usize> = self.of(Diagnostic::PositionProbe).filter_map(|it| it.bin).collect();
        let both = [Diagnostic::PositionProbe, Diagnostic::LogPositionProbe];
        let of = |diagnostic| if diagnostic == Diagnostic::PositionProbe { "i" } else { "ln i" };
        let columns =
            both.iter().flat_map(|it| ranges.iter().map(|start| format!("{} from {start}", of(*it))));
        let mut grid = self.grid("Position read by a linear probe", &["layer"], columns.collect(), &both);
        let layers: BTreeSet<Option<usize>> = self.of(Diagnostic::PositionProbe).map(|it| it.layer).collect();
        for layer in layers {
            let cells = both
                .iter()
                .flat_map(|it| ranges.iter().map(|&at| self.at(*it, length, [layer, None, Some(at)])));
            let name = Entry::new(layer.unwrap_or_default().to_string());
            grid.rows.push(std::iter::once(name).chain(cells).collect());
        }
        self.shown("probe", grid, None)
    }

    fn gradient(&self) -> Shown {
        self.by_bin(Diagnostic::GradientWithin, "Where the gradient of the last loss lies", "gradient")
    }

    fn repetition(&self) -> Shown {
        self.by_bin(
            Diagnostic::RepetitionChange,
            "Loss against the window baseline, by the last repetition",
            "repetition",
        )
    }

    /// A row a bin, a column a length.
    fn by_bin(&self, diagnostic: Diagnostic, title: &str, file: &str) -> Shown {
        let bins: BTreeSet<usize> = self.of(diagnostic).filter_map(|it| it.bin).collect();
        let mut grid = self.grid(title, &[diagnostic.bins()], self.lengths(), &[diagnostic]);
        for &bin in &bins {
            let cells =
                self.explained.lengths.iter().map(|&at| self.at(diagnostic, at, [None, None, Some(bin)]));
            let name = if diagnostic == Diagnostic::RepetitionChange && bin == 0 {
                "never".into()
            } else {
                bin.to_string()
            };
            grid.rows.push(std::iter::once(Entry::new(name)).chain(cells).collect());
        }
        let lines = self.explained.lengths.iter().enumerate().map(|(style, &length)| {
            let here = self
                .of(diagnostic)
                .filter(move |it| it.length == length && it.bin.is_some_and(|bin| bin > 0));
            line(self.column(length), style, here.map(|it| (it.bin.unwrap_or_default() as f64, it)))
        });
        let unit = if diagnostic.is_share() { "per cent" } else { diagnostic.unit() };
        let chart = self.chart(&grid, [diagnostic.bins(), unit], Scale::Log, lines.collect());
        self.shown(file, grid, chart)
    }

    fn context(&self, length: usize) -> Shown {
        let all = [Diagnostic::ContextCut, Diagnostic::ContextShuffled, Diagnostic::ContextOther];
        let columns = ["cut", "shuffled", "of another text"].map(str::to_owned);
        let title = format!("Far context changed, at {}", self.column(length));
        let mut grid = self.grid(&title, &["kept tokens"], columns.to_vec(), &all);
        let kept: BTreeSet<Option<usize>> = self.of(Diagnostic::ContextCut).map(|it| it.bin).collect();
        for kept in kept {
            let cells = all.iter().map(|it| self.at(*it, length, [None, None, kept]));
            let name = Entry::new(kept.unwrap_or_default().to_string());
            grid.rows.push(std::iter::once(name).chain(cells).collect());
        }
        self.shown("context", grid, None)
    }

    fn chart(&self, grid: &Grid, [x, y]: [&str; 2], scale: Scale, series: Vec<Series>) -> Option<Chart> {
        let is_length = x.starts_with("context");
        let train = self.explained.train_length as f64;
        let chart = Chart {
            title: grid.title.clone(),
            subtitle: format!("{}, L = {train}", self.explained.runs.join(", ")),
            x: Axis::new(x, scale),
            y: Axis::new(y, Scale::Linear),
            mark: (is_length || scale == Scale::Log).then(|| (train, format!("L = {train}"))),
            series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
            ..Chart::default()
        };
        chart.has_numbers().then_some(chart)
    }

    fn shown(&self, name: &str, grid: Grid, chart: Option<Chart>) -> Shown {
        let reading =
            if self.extend == "direct" { String::new() } else { format!("-{}", file_name_of(self.extend)) };
        Shown { file: format!("explained-{name}{reading}"), grid, chart }
    }
}
