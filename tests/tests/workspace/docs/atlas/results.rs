//! What a study measured, from its committed `results.csv` and `study.md`.

use super::super::repository;
use longwave_eval::WINDOW_BASELINE;
use std::collections::BTreeMap;
use std::fs;

/// One number of a study.
#[derive(Clone, Debug)]
struct Measured {
    /// The label on the study's one axis.
    label: String,
    /// The run's name in the study's store.
    run: String,
    seed: String,
    /// `position.kind`.
    kind: String,
    reading: String,
    protocol: String,
    split: String,
    length: usize,
    /// Nats per token.
    loss: f64,
}

/// A study with one axis.
pub(super) struct Study {
    pub(super) name: &'static str,
    pub(super) train_length: usize,
    measured: Vec<Measured>,
    claims: Vec<Claim>,
}

/// A claim and its verdict, as `study.md` has them.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) says: String,
    pub(super) interval: String,
    pub(super) verdict: String,
}

/// The mean over seeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    /// `exp` of the mean loss.
    pub(super) perplexity: f64,
    /// One standard deviation of the loss over seeds, in nats; `None` with one seed.
    pub(super) deviation: Option<f64>,
}

impl Mean {
    fn of(losses: &[f64]) -> Self {
        let count = losses.len() as f64;
        let mean = losses.iter().sum::<f64>() / count;
        let squares = losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>();
        let deviation = (losses.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Self { perplexity: mean.exp(), deviation }
    }

    /// As the tables of a study have it.
    pub(super) fn text(self) -> String {
        let digits = if self.perplexity < 100.0 { 2 } else { usize::from(self.perplexity < 1000.0) };
        let value = format!("{:.digits$}", self.perplexity);
        self.deviation.map_or(value.clone(), |deviation| {
            let digits = usize::from(deviation < 1.0);
            format!("{value} ±{:.digits$}%", 100.0 * deviation)
        })
    }
}

impl Study {
    /// The study `experiments/NAME`.
    pub(super) fn read(name: &'static str) -> Self {
        let text =
            |file: &str| fs::read_to_string(repository(&format!("experiments/{name}/{file}"))).unwrap();
        let mut lines = table(&text("results.csv")).into_iter();
        let header = lines.next().unwrap();
        let column = |name: &str| header.iter().position(|column| column == name).unwrap();
        // The one axis stands first.
        let of = ["run", "seed", "encoding", "reading", "protocol", "split", "length", "nll", "train_length"];
        let of = of.map(column);
        let mut train_length = 0;
        let measured = lines.map(|row| {
            let [run, seed, kind, reading, protocol, split, length, loss, train] =
                of.map(|index| row[index].clone());
            train_length = train.parse().unwrap();
            let (length, loss) = (length.parse().unwrap(), loss.parse().unwrap());
            Measured { label: row[0].clone(), run, seed, kind, reading, protocol, split, length, loss }
        });
        let measured = measured.collect();
        Self { name, train_length, measured, claims: claims(&text("study.md")) }
    }

    /// The labels of its axis, in order of first appearance, with the kind of encoding of each.
    pub(super) fn labels(&self) -> Vec<(&str, &str)> {
        let mut labels: Vec<(&str, &str)> = Vec::new();
        for row in &self.measured {
            if labels.iter().all(|(label, _)| *label != row.label) {
                labels.push((&row.label, &row.kind));
            }
        }
        labels
    }

    /// The run of seed 0 of each label.
    pub(super) fn runs_of_seed_0(&self) -> Vec<(&str, &str)> {
        let run =
            |label: &str| self.measured.iter().find(|row| row.label == label && row.seed == "0").unwrap();
        self.labels().into_iter().map(|(label, _)| (label, run(label).run.as_str())).collect()
    }

    /// The readings of a label, in order of first appearance and the window baseline last.
    pub(super) fn readings(&self, label: &str) -> Vec<&str> {
        let mut readings: Vec<&str> = Vec::new();
        for row in self.measured.iter().filter(|row| row.label == label) {
            if !readings.contains(&row.reading.as_str()) {
                readings.push(&row.reading);
            }
        }
        readings.sort_by_key(|reading| *reading == WINDOW_BASELINE);
        readings
    }

    /// The lengths of the study.
    pub(super) fn lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> = self.measured.iter().map(|row| row.length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths
    }

    /// How many seeds the label with the most has.
    pub(super) fn seeds(&self) -> usize {
        let first = &self.measured[0];
        let (length, reading) = (self.train_length, first.reading.as_str());
        let count = |label: &str| {
            let rows = self.measured.iter().filter(|row| row.label == label && row.reading == reading);
            rows.filter(|row| row.length == length && row.split == "test" && row.protocol == "fixed_target")
                .count()
        };
        self.labels().into_iter().map(|(label, _)| count(label)).max().unwrap()
    }

    /// The perplexity by length of one reading, under `fixed_target`.
    pub(super) fn curve(&self, label: &str, reading: &str, split: &str) -> BTreeMap<usize, Mean> {
        let mut losses: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        let rows = self.measured.iter().filter(|row| row.label == label && row.reading == reading);
        for row in rows.filter(|row| row.split == split && row.protocol == "fixed_target") {
            losses.entry(row.length).or_default().push(row.loss);
        }
        losses.into_iter().map(|(length, losses)| (length, Mean::of(&losses))).collect()
    }

    /// The reading of a label that is best at a length on the validation split, the window baseline aside.
    pub(super) fn best(&self, label: &str, length: usize) -> Option<&str> {
        let readings = self.readings(label).into_iter().filter(|reading| *reading != WINDOW_BASELINE);
        let at = |reading: &str| self.curve(label, reading, "valid").get(&length).map(|mean| mean.perplexity);
        let measured = readings.filter_map(|reading| Some((reading, at(reading)?)));
        measured.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(reading, _)| reading)
    }

    /// The claims in which a side has one of these words, a label or an extension.
    pub(super) fn claims_on(&self, is_meant: impl Fn(&str) -> bool) -> Vec<&Claim> {
        let has = |claim: &&Claim| {
            let sides = claim.says.split(" at ").next().unwrap();
            let sides = [" < ", " > ", " = "].iter().find_map(|sign| sides.split_once(sign)).unwrap();
            [sides.0, sides.1].iter().any(|side| side.split(", ").any(&is_meant))
        };
        self.claims.iter().filter(has).collect()
    }

    pub(super) fn claims(&self) -> &[Claim] {
        &self.claims
    }
}

/// The rows of the table of claims.
fn claims(markdown: &str) -> Vec<Claim> {
    let after = markdown.split_once("\n## Claims\n").map_or("", |(_, after)| after);
    let mut rows = after.lines().filter(|line| line.starts_with('|')).map(|line| {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace("**", "")).collect::<Vec<_>>()
    });
    let Some(header) = rows.next() else { return Vec::new() };
    let column = |name: &str| header.iter().position(|column| column.ends_with(name)).unwrap();
    let [says, interval, verdict] = ["claim", "adjusted interval", "verdict"].map(column);
    rows.skip(1)
        .map(|row| Claim {
            says: row[says].trim_matches('`').replace("&lt;", "<").replace("&gt;", ">"),
            interval: row[interval].clone(),
            verdict: row[verdict].clone(),
        })
        .collect()
}

/// The cells of a CSV file. No cell of ours holds a line end.
fn table(text: &str) -> Vec<Vec<String>> {
    text.lines().map(cells).collect()
}

pub(super) fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' if quoted && signs.peek() == Some(&'"') => {
                cells.last_mut().unwrap().push(signs.next().unwrap());
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cells.last_mut().unwrap().push(other),
        }
    }
    cells
}

#[test]
fn cells_may_be_quoted() {
    assert_eq!(cells(r#"a,"b, ""c""",,d"#), ["a", "b, \"c\"", "", "d"]);
}

/// Every number of the tables of perplexity in a committed `study.md` follows from the `results.csv` beside it.
#[test]
fn the_tables_of_committed_studies_follow_from_their_results() {
    for name in super::STUDIES {
        let study = Study::read(name);
        let text = fs::read_to_string(repository(&format!("experiments/{name}/study.md"))).unwrap();
        let mut compared = 0;
        for section in text.split("\n## ").filter(|section| section.starts_with("Perplexity, fixed_target, "))
        {
            let split = if section.starts_with("Perplexity, fixed_target, test") { "test" } else { "valid" };
            let rows = section.lines().filter(|line| line.starts_with('|') && !line.starts_with("| ---"));
            for row in rows.skip(1) {
                let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
                let curve = study.curve(cells[0], cells[1], split);
                for (length, cell) in study.lengths().into_iter().zip(&cells[2..]) {
                    let expected = curve.get(&length).map_or(String::new(), |mean| mean.text());
                    let shown = cell.rsplit_once(" (").map_or(*cell, |(shown, _)| shown);
                    assert_eq!(shown, expected, "{name}: {row}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 100, "{name}: only {compared} numbers were compared");
    }
}
