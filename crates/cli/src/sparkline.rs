//! The course of a number in one line of text.

/// Signs at most.
const WIDE: usize = 24;
/// From low to high.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Means over equally many values each, as many as fit a short line: however many values come, it keeps few.
#[derive(Clone, Debug)]
pub(crate) struct Sparkline {
    means: Vec<f64>,
    /// Values of a mean.
    size: usize,
    /// The sum and the number of the values that are not in a mean yet.
    open: (f64, usize),
}

impl Default for Sparkline {
    fn default() -> Self {
        Self { means: Vec::new(), size: 1, open: (0.0, 0) }
    }
}

impl Sparkline {
    /// Adds a value; one that is not finite is left out.
    pub(crate) fn push(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.open = (self.open.0 + value, self.open.1 + 1);
        if self.open.1 == self.size {
            self.means.push(self.open.0 / self.size as f64);
            self.open = (0.0, 0);
        }
        if self.means.len() == 2 * WIDE {
            self.means = self.means.chunks(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
            self.size *= 2;
        }
    }

    /// A sign for each mean, or for each pair of them where they are many; nothing for fewer than two.
    pub(crate) fn text(&self) -> String {
        let step = if self.means.len() > WIDE { 2 } else { 1 };
        let shown: Vec<f64> =
            self.means.chunks(step).map(|means| means.iter().sum::<f64>() / means.len() as f64).collect();
        let low = shown.iter().copied().fold(f64::INFINITY, f64::min);
        let high = shown.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if shown.len() < 2 {
            return String::new();
        }
        let level = |value: f64| {
            let share = if high > low { (value - low) / (high - low) } else { 0.0 };
            LEVELS[((share * LEVELS.len() as f64) as usize).min(LEVELS.len() - 1)]
        };
        shown.into_iter().map(level).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(values: impl IntoIterator<Item = f64>) -> String {
        let mut line = Sparkline::default();
        values.into_iter().for_each(|value| line.push(value));
        line.text()
    }

    #[test]
    fn a_fall_is_a_fall() {
        assert_eq!(text([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), "█▇▆▅▄▃▂▁");
        assert_eq!(text([2.0, f64::NAN, 1.0]), "█▁");
        assert_eq!(text([3.0, 3.0]), "▁▁");
        assert_eq!(text([3.0]), "");
    }

    #[test]
    fn many_values_fit_a_short_line() {
        for count in [23, 24, 25, 47, 48, 49, 1_000, 100_000] {
            let line = text((0..count).map(|index| -f64::from(index)));
            let signs = line.chars().count();
            assert!((WIDE / 2..=WIDE).contains(&signs), "{count}: {signs} signs");
            assert!(line.starts_with('█') && line.ends_with('▁'), "{line}");
        }
    }
}
