//! A picture as text for the terminal.

use super::{ByDistance, LOWEST_LOGIT, Layer, Matrix, Picture, Row, Spectrum, Summary};
use crate::attention::Attention;
use longwave_report::grid::{Grid, Header};
use std::fmt::Write as _;

/// From the lowest number to the highest.
const SHADES: &[u8] = b".:-=+*#%@";

/// Channels shown of a vector.
const CHANNELS: usize = 64;

impl Picture {
    /// The whole picture, some paragraphs long.
    pub fn text(&self) -> String {
        let mut parts = vec![self.head()];
        parts.extend(self.spectrum.as_ref().map(|spectrum| self.bands(spectrum)));
        if let Some(bias) = &self.bias {
            parts.push(by_distance("bias by distance", bias));
        }
        if let Some(decay) = &self.decay {
            let mut text =
                by_distance(&format!("decay: {} over the bands, by distance", self.decay_in_words()), decay);
            if let Some(share) = self.rising_share {
                let _ = writeln!(
                    text,
                    "it rises in {:.1}% of the steps from a distance to the next",
                    100.0 * share
                );
            }
            parts.push(text);
        }
        parts.extend(self.details.iter().map(detail));
        parts.push(self.matrix.text());
        parts.extend(self.attention.as_ref().map(Attention::text));
        parts.join("\n")
    }

    fn bands(&self, bands: &Spectrum) -> String {
        let is = |base: f64, length: usize| (base / length as f64 - 1.0).abs() < 1e-9;
        let about_base = match (is(bands.base, self.train_length), is(bands.base_read, self.length)) {
            (true, true) if self.length > self.train_length => {
                "the base is L, and the text is read with its length as the base (FMRoPE)\n"
            }
            (true, _) => {
                "the base is L: `su_ntk_old` reads a longer text with its length as the base (FMRoPE)\n"
            }
            _ => "",
        };
        spectrum(bands, about_base)
    }

    /// What the decay is the mean of.
    pub(crate) fn decay_in_words(&self) -> &'static str {
        let factor = self.spectrum.as_ref().map_or(1.0, |spectrum| spectrum.attention_factor);
        if (factor - 1.0).abs() > 0.0 {
            "mean of cos(angle) times the factor on q.k"
        } else {
            "mean of cos(angle)"
        }
    }

    fn head(&self) -> String {
        let acts: Vec<&str> = self.acts.iter().map(|place| place.name()).collect();
        let acts = if acts.is_empty() { "nothing".to_owned() } else { acts.join(", ") };
        let shape = |(name, shape): &(String, Vec<usize>)| format!("{name} {shape:?}");
        let parameters: Vec<String> = self.parameters.iter().map(shape).collect();
        let parameters = if parameters.is_empty() { "none".to_owned() } else { parameters.join(", ") };
        let shown =
            self.shown_layer.map_or(String::new(), |layer| format!("; those of layer {layer} are shown"));
        let mut text = format!(
            "{}: {} ({})\n{}acts on     {acts}\nparameters  {parameters}{shown}\npast L      {}\ntrained at L = {}, read at {} as \
             `{}`\n",
            self.encoding,
            self.summary,
            self.source,
            formula("formula", self.formula),
            self.past,
            self.train_length,
            self.length,
            self.extend.kind()
        );
        if self.extend.kind() != "direct" {
            text += &formula("read as", self.extend_formula);
        }
        let same = self.layers.windows(2).all(|pair| pair[0].route == pair[1].route);
        if let Some(first) = self.layers.first().filter(|_| same) {
            let _ = writeln!(text, "{:<10}  {}", "attention", first.route);
        }
        if !self.alike || !same {
            text.extend(self.layers.iter().map(|one| layer(one, !same)));
        }
        for (index, part) in self.model.iter().enumerate() {
            let _ = writeln!(text, "{:<10}  {part}", if index == 0 { "model" } else { "" });
        }
        if self.spectrum.is_none() {
            text.push_str("it is not made of frequencies\n");
        }
        text
    }
}

/// A formula behind its name, every line of it in the same column. What is shown may have other keys.
fn formula(name: &str, formula: &str) -> String {
    let lines = formula.lines().collect::<Vec<_>>().join(&format!("\n{:12}", ""));
    format!("{name:<10}  {lines}   (default keys)\n")
}

fn layer(layer: &Layer, with_attention: bool) -> String {
    let window =
        layer.window.map_or("every earlier key".to_owned(), |window| format!("a window of {window}"));
    let sinks = if layer.sinks > 0 { format!(" and the first {}", layer.sinks) } else { String::new() };
    // What a window hides is counted all the same, but by the learned law.
    let log_n = match (layer.log_n, layer.window) {
        (false, _) => "",
        (true, None) => ", queries scaled by the number of keys",
        (true, Some(_)) if layer.log_n_of_seen => ", queries scaled by the number of keys that they see",
        (true, Some(_)) => ", queries scaled by the number of tokens so far",
    };
    let attention = if with_attention { format!("; attention {}", layer.route) } else { String::new() };
    format!("layer {} sees {window}{sinks}{log_n}{attention}\n", layer.index)
}

/// The bands as a table, below the base; `about_base` is a line more.
fn spectrum(spectrum: &Spectrum, about_base: &str) -> String {
    let names = [
        ("band", 4),
        ("inv_freq", 12),
        ("wavelength", 12),
        ("turns in L", 10),
        ("read as", 12),
        ("ratio", 8),
    ];
    let rows = spectrum.bands.iter().enumerate().map(|(index, band)| {
        let ratio = if band.inv_freq == 0.0 { 1.0 } else { band.inv_freq_read / band.inv_freq };
        [
            index.to_string(),
            format!("{:.6e}", band.inv_freq),
            format!("{:.2}", band.wavelength),
            format!("{:.3}", band.turns),
            format!("{:.6e}", band.inv_freq_read),
            format!("{ratio:.4}"),
        ]
    });
    format!(
        "base {:.1} -> {:.1}, attention factor {:.6}\n{about_base}\n{}",
        spectrum.base,
        spectrum.base_read,
        spectrum.attention_factor,
        Grid::of(names.map(|(name, width)| Header::number(name).at_least(width)), rows).lines()
    )
}

impl ByDistance {
    /// Whether the extension leaves the numbers as they are, NaN too.
    pub(crate) fn is_read_as_trained(&self) -> bool {
        let bits = |rows: &[Row]| -> Vec<Option<u64>> {
            rows.iter().flatten().map(|number| number.map(|number| (number + 0.0).to_bits())).collect()
        };
        bits(&self.trained) == bits(&self.read)
    }
}

/// A column a head; where the extension changes the numbers, both as trained and as read.
fn by_distance(title: &str, numbers: &ByDistance) -> String {
    if numbers.is_read_as_trained() {
        return columns(title, &numbers.distances, &numbers.read);
    }
    let trained = columns(&format!("{title}, as trained"), &numbers.distances, &numbers.trained);
    trained + "\n" + &columns(&format!("{title}, as read"), &numbers.distances, &numbers.read)
}

fn columns(title: &str, distances: &[usize], heads: &[Row]) -> String {
    let name = |head: usize| if heads.len() > 1 { format!("head {head}") } else { String::new() };
    let names = (0..heads.len()).map(|head| Header::number(name(head)).at_least(10));
    let rows = distances.iter().enumerate().map(|(row, distance)| {
        let cell = |number: f64| format!("{:.4}", zero(number));
        let cells = heads.iter().map(|head| head[row].map_or_else(|| "hidden".to_owned(), cell));
        std::iter::once(distance.to_string()).chain(cells).collect::<Vec<_>>()
    });
    format!("{title}\n{}", Grid::of(std::iter::once(Header::number("distance")).chain(names), rows).lines())
}

/// A number that shows as zero has no sign.
fn zero(number: f64) -> f64 {
    if number.abs() < 5e-5 { 0.0 } else { number }
}

fn detail(detail: &Summary) -> String {
    let names = detail.columns.iter().map(|name| Header::number(name).at_least(8));
    let cell =
        |number: &f64| if number.fract() == 0.0 { format!("{number}") } else { format!("{number:.4}") };
    let rows = detail.rows.iter().map(|row| row.iter().map(cell));
    format!("{}\n{}", detail.title, Grid::of(names, rows).lines())
}

impl Matrix {
    fn text(&self) -> String {
        match self {
            Self::Vectors { positions, values } => {
                let step = values.first().map_or(1, |row| row.len().div_ceil(CHANNELS)).max(1);
                let rows: Vec<Row> = values
                    .iter()
                    .map(|row| row.iter().step_by(step).map(|&value| Some(value)).collect())
                    .collect();
                let every = if step == 1 { String::new() } else { format!(", every {step}th") };
                drawn(&format!("vectors: a row a position, a column a channel{every}"), positions, &rows)
            }
            Self::Logits { positions, values } => {
                let Some(head) = values.first() else { return String::new() };
                let lowest = |value: Option<f64>| value.map(|value| value.max(LOWEST_LOGIT));
                let rows: Vec<Row> =
                    head.iter().map(|row| row.iter().map(|&value| lowest(value)).collect()).collect();
                drawn("logits of equal tokens, head 0: a row a query, a column a key", positions, &rows)
            }
        }
    }
}

/// A matrix in shades, the position of each row before it.
fn drawn(title: &str, positions: &[usize], rows: &[Row]) -> String {
    let values = || rows.iter().flatten().flatten().copied();
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let span = high - low;
    let shade = |value: &Option<f64>| match value {
        None => ' ',
        // All alike, but for rounding.
        Some(_) if span < 1e-5 => char::from(SHADES[SHADES.len() - 1]),
        Some(value) => {
            let last = (SHADES.len() - 1) as f64;
            char::from(SHADES[((value - low) / span * last).round() as usize])
        }
    };
    let [first, last] = [SHADES[0], SHADES[SHADES.len() - 1]].map(char::from);
    let mut text = format!("{title}; `{first}` is {:.4}, `{last}` is {:.4}\n", zero(low), zero(high));
    for (position, row) in positions.iter().zip(rows) {
        let row: String = row.iter().map(shade).collect();
        let _ = writeln!(text, "{position:>8}  {}", row.trim_end());
    }
    text
}
