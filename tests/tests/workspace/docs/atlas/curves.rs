//! Curves of perplexity by length, among those of all others.

use super::super::results::Study;
use longwave_eval::WINDOW_BASELINE;
use longwave_report::plot::{Axis, Chart, Point, Role, Scale, Series};

/// A reading of a label of a study.
#[derive(Clone, Debug)]
pub(in super::super) struct Line {
    /// What the legend calls it.
    pub(in super::super) name: String,
    pub(in super::super) label: String,
    pub(in super::super) reading: String,
}

impl Line {
    pub(in super::super) fn new(name: &str, label: &str, reading: &str) -> Self {
        Self { name: name.to_owned(), label: label.to_owned(), reading: reading.to_owned() }
    }

    /// Every label of a study, read as trained.
    pub(in super::super) fn of_labels(study: &Study) -> Vec<Self> {
        study.labels().iter().map(|(label, _)| Self::new(label, label, "direct")).collect()
    }
}

/// The lines in colour, the others of the study in grey, and the window baseline of the first line.
pub(in super::super) fn chart(study: &Study, title: &str, lines: &[Line], others: &[Line]) -> Chart {
    let is_shown =
        |other: &&Line| !lines.iter().any(|line| line.label == other.label && line.reading == other.reading);
    let mut series: Vec<Series> =
        lines.iter().enumerate().map(|(style, line)| of(study, line, style, Role::Method)).collect();
    if let Some(first) = lines.first() {
        let baseline = Line::new("last L tokens alone", &first.label, WINDOW_BASELINE);
        series.push(of(study, &baseline, 0, Role::Reference));
    }
    series.extend(others.iter().filter(is_shown).map(|line| of(study, line, 0, Role::Background)));
    let multiple = |length: usize| match length / study.train_length {
        1 => "L".to_owned(),
        more => format!("{more}L"),
    };
    let ticks =
        study.lengths().into_iter().map(|length| (length as f64, vec![length.to_string(), multiple(length)]));
    Chart {
        title: title.to_owned(),
        subtitle: format!("the others of the study in grey; mean of {} seeds, test split", study.seeds()),
        x: Axis {
            label: format!("tokens of context (trained on L = {})", study.train_length),
            scale: Scale::Log,
            ticks: ticks.collect(),
        },
        y: Axis::new("perplexity (log scale)", Scale::Log),
        series,
        ..Chart::default()
    }
}

fn of(study: &Study, line: &Line, style: usize, role: Role) -> Series {
    let points = study.curve(&line.label, &line.reading, "test").into_iter().map(|(length, mean)| {
        let bar = mean.deviation.filter(|_| role == Role::Method);
        let ends = |deviation: f64| {
            let factor = deviation.exp();
            (mean.perplexity / factor, mean.perplexity * factor)
        };
        Point { x: length as f64, y: mean.perplexity, bar: bar.map(ends) }
    });
    Series { name: line.name.clone(), points: points.collect(), style, role }
}
