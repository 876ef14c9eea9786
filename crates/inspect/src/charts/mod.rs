//! Pictures of an encoding as files: charts, heat maps, and a page that shows them.

mod attention;
mod page;

use crate::picture::{Band, ByDistance, LOWEST_LOGIT, Matrix, Picture, Row};
use longwave_core::{Result, file};
use longwave_report::plot::{self, Axis, Chart, Edge, HeatMap, Point, Role, Scale, Series};
use std::f64::consts::TAU;
use std::path::{Path, PathBuf};

/// Heads that have a heat map each.
const MOST_HEADS: usize = 4;

/// One picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// The file's name, without its ending.
    pub file: String,
    pub title: String,
    pub caption: String,
    form: Form,
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Chart(Chart),
    Heat(HeatMap),
}

impl Drawing {
    /// The picture as an SVG document.
    pub fn svg(&self) -> Result<String> {
        match &self.form {
            Form::Chart(chart) => plot::svg(chart),
            Form::Heat(heat) => heat.svg(),
        }
    }

    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let [svg, png] = ["svg", "png"].map(|ending| folder.join(format!("{}.{ending}", self.file)));
        file::write(&svg, self.svg()?.as_bytes())?;
        match &self.form {
            Form::Chart(chart) => plot::write_png(chart, &png)?,
            Form::Heat(heat) => heat.write_png(&png)?,
        }
        Ok(vec![svg, png])
    }
}

/// Writes the drawings of every picture into a folder, as SVG and PNG, and `index.html`, which shows them with what the
/// terminal shows; gives the paths. `of` says in words what was looked at.
pub fn write(pictures: &[Picture], of: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut shown = Vec::new();
    let mut paths = Vec::new();
    for (index, picture) in pictures.iter().enumerate() {
        let mut drawings = drawings(picture);
        if pictures.len() > 1 {
            for drawing in &mut drawings {
                drawing.file = format!("{}-{}-{}", index + 1, picture.encoding, drawing.file);
            }
        }
        for drawing in &drawings {
            paths.extend(drawing.write(folder)?);
        }
        shown.push((picture, drawings));
    }
    let page = folder.join("index.html");
    file::write(&page, page::page(of, &shown)?.as_bytes())?;
    paths.push(page);
    Ok(paths)
}

/// What is drawn of a picture.
pub fn drawings(picture: &Picture) -> Vec<Drawing> {
    let mut drawings = Vec::new();
    if let Some(spectrum) = &picture.spectrum {
        drawings.push(turns(picture, &spectrum.bands));
        if spectrum
            .bands
            .iter()
            .any(|band| (band.inv_freq - band.inv_freq_read).abs() > 1e-12 * band.inv_freq)
        {
            drawings.push(frequencies(picture, &spectrum.bands));
        }
    }
    if let Some(bias) = &picture.bias {
        let caption =
            "What is added to the logit where the last token of the text reads a token so far back.";
        drawings.extend(by_distance(picture, ["bias", "Bias", "added to the logit"], caption, bias));
    }
    if let Some(decay) = &picture.decay {
        let rises = picture.rising_share.map_or_else(String::new, |share| {
            format!(" As read, it rises in {:.1}% of the steps from a distance to the next.", 100.0 * share)
        });
        let caption = format!(
            "What is left of the inner product of a vector with itself, so many tokens apart.{rises}"
        );
        drawings.extend(by_distance(picture, ["decay", "Decay", picture.decay_in_words()], &caption, decay));
    }
    drawings.extend(matrix(picture));
    drawings.extend(attention::attention(picture));
    drawings
}

/// How it is read, as a subtitle, and in which layer where these differ.
fn reading(picture: &Picture) -> String {
    let Picture { train_length, length, extend, shown_layer, .. } = picture;
    let read = if length == train_length && extend.kind() == "direct" {
        format!("L = {train_length}")
    } else {
        format!("trained at L = {train_length}, read at {length} as {}", extend.kind())
    };
    match shown_layer {
        Some(layer) => format!("{read}; layer {layer}"),
        None => read,
    }
}

fn chart(picture: &Picture, title: String, [x, y]: [Axis; 2], series: Vec<Series>) -> Chart {
    Chart { title, subtitle: reading(picture), x, y, series, ..Chart::default() }
}

fn series(name: impl Into<String>, style: usize, points: impl Iterator<Item = (f64, f64)>) -> Series {
    let points = points.map(|(x, y)| Point { x, y, bar: None }).collect();
    Series { name: name.into(), points, style, role: Role::Method }
}

/// A number of each band, where it is above 0.
fn of_bands(bands: &[Band], number: impl Fn(&Band) -> f64) -> impl Iterator<Item = (f64, f64)> {
    let numbers = bands.iter().map(number).enumerate().filter(|(_, number)| *number > 0.0);
    numbers.map(|(index, number)| (index as f64, number))
}

/// Turns of each band within L.
fn turns(picture: &Picture, bands: &[Band]) -> Drawing {
    let train = picture.train_length as f64;
    let trained = of_bands(bands, |band| band.inv_freq * train / TAU);
    let mut all = vec![series(format!("within L = {}", picture.train_length), 0, trained)];
    if picture.length != picture.train_length || picture.extend.kind() != "direct" {
        let read = of_bands(bands, |band| band.inv_freq_read * picture.length as f64 / TAU);
        all.push(series(format!("as read, within {}", picture.length), 1, read));
    }
    let last = bands.len().saturating_sub(1) as f64;
    all.push(Series {
        role: Role::Reference,
        ..series("one turn", 0, [(0.0, 1.0), (last, 1.0)].into_iter())
    });
    let never = bands.iter().filter(|band| band.turns < 1.0).count();
    let title = format!("{}: turns of each band", picture.encoding);
    let axes = [Axis::new("band, the fastest first", Scale::Linear), Axis::new("turns", Scale::LogWhole)];
    Drawing {
        file: "turns".to_owned(),
        title: "Turns of each band".to_owned(),
        caption: format!(
            "{never} of {} bands make less than one turn within L: past L they reach angles that training never showed.",
            bands.len()
        ),
        form: Form::Chart(chart(picture, title, axes, all)),
    }
}

/// Frequencies before and after an extension.
fn frequencies(picture: &Picture, bands: &[Band]) -> Drawing {
    let both = vec![
        series("as trained", 0, of_bands(bands, |band| band.inv_freq)),
        series(format!("as read ({})", picture.extend.kind()), 1, of_bands(bands, |band| band.inv_freq_read)),
    ];
    let title = format!("{}: frequencies before and after", picture.encoding);
    let axes =
        [Axis::new("band, the fastest first", Scale::Linear), Axis::new("radians a token", Scale::LogWhole)];
    Drawing {
        file: "frequencies".to_owned(),
        title: "Frequencies before and after".to_owned(),
        caption: "The angle that a band turns by from a token to the next, as trained and as the extension reads it.".to_owned(),
        form: Form::Chart(chart(picture, title, axes, both)),
    }
}

/// Numbers by distance: a line a head; as trained and as read where these differ. `words` are the file, the heading and what
/// is counted.
fn by_distance(picture: &Picture, words: [&str; 3], caption: &str, numbers: &ByDistance) -> Vec<Drawing> {
    let [file, heading, label] = words;
    let drawing = |file: String, which: &str, heads: &[Row]| {
        let line = |(head, row): (usize, &Row)| {
            let points = numbers.distances.iter().zip(row);
            let number = |value: &Option<f64>| value.filter(|value| value.is_finite()).unwrap_or(f64::NAN);
            let points = points.map(|(&at, value)| (at as f64, number(value)));
            let name = if heads.len() > 1 { format!("head {head}") } else { label.to_owned() };
            series(name, head, points)
        };
        let title = format!("{heading} by distance{which}");
        let axes = [Axis::new("tokens back", Scale::Linear), Axis::new(label, Scale::Linear)];
        let lines = heads.iter().enumerate().map(line).collect();
        let mut chart =
            chart(picture, format!("{}: {}", picture.encoding, title.to_lowercase()), axes, lines);
        if picture.length > picture.train_length {
            chart.mark = Some((picture.train_length as f64, format!("L = {}", picture.train_length)));
        }
        Drawing { file, title, caption: caption.to_owned(), form: Form::Chart(chart) }
    };
    if numbers.is_read_as_trained() {
        return vec![drawing(file.to_owned(), "", &numbers.read)];
    }
    vec![
        drawing(format!("{file}-trained"), ", as trained", &numbers.trained),
        drawing(format!("{file}-read"), ", as read", &numbers.read),
    ]
}

/// The encoding at a glance.
fn matrix(picture: &Picture) -> Vec<Drawing> {
    match &picture.matrix {
        Matrix::Vectors { positions, values } => vec![vectors(picture, positions, values)],
        Matrix::Logits { positions, values } => {
            let alike = values.windows(2).all(|pair| pair[0] == pair[1]);
            let shown = if alike { 1 } else { values.len().min(MOST_HEADS) };
            let head =
                |(head, rows): (usize, &Vec<Row>)| logits(picture, positions, rows, (!alike).then_some(head));
            values.iter().take(shown).enumerate().map(head).collect()
        }
    }
}

fn vectors(picture: &Picture, positions: &[usize], values: &[Vec<f64>]) -> Drawing {
    let channels: Vec<usize> = (0..values.first().map_or(0, Vec::len)).collect();
    Drawing {
        file: "vectors".to_owned(),
        title: "Vectors".to_owned(),
        caption: "What enters the hidden state: a row a position, a column a channel.".to_owned(),
        form: Form::Heat(HeatMap {
            title: format!("{}: what enters at each position", picture.encoding),
            subtitle: reading(picture),
            x: Edge::of("channel", &channels, 9),
            y: Edge::of("position", positions, 9),
            values: values.iter().map(|row| row.iter().copied().map(Some).collect()).collect(),
            around_zero: true,
        }),
    }
}

/// The logits of a head; `None` for all of them.
fn logits(picture: &Picture, positions: &[usize], rows: &[Row], head: Option<usize>) -> Drawing {
    let which = head.map_or_else(|| "every head".to_owned(), |head| format!("head {head}"));
    let lowest = |value: &Option<f64>| value.map(|value| value.max(LOWEST_LOGIT));
    Drawing {
        file: head.map_or_else(|| "logits".to_owned(), |head| format!("logits-head-{head}")),
        title: format!("Logits of equal tokens, {which}"),
        caption: format!(
            "What attention prefers where all tokens are alike: the logit less that of the query's own key. What is below \
             {LOWEST_LOGIT} is drawn as that."
        ),
        form: Form::Heat(HeatMap {
            title: format!("{}: logits of equal tokens, {which}", picture.encoding),
            subtitle: reading(picture),
            x: Edge::of("key", positions, 9),
            y: Edge::of("query", positions, 9),
            values: rows.iter().map(|row| row.iter().map(lowest).collect()).collect(),
            around_zero: false,
        }),
    }
}

#[cfg(test)]
mod tests;
