//! Positions are data: every hook receives the absolute positions of its rows.
//!
//! They are whole numbers in order for plain reading, but an interpolated reading makes them
//! fractional, a random one makes them gap, and a chunked one starts anywhere.
//!
//! A position also says how many tokens lie before its row, unless it was drawn at random: then rows are counted
//! ([`Positions::keys_seen`]).

use std::ops::Range;
use std::sync::Arc;

/// Absolute positions `[rows, length]`; `rows` is 1 where every sequence of a batch shares them.
///
/// An encoding that is interpolated gets them divided by a scale ([`over`](Self::over)). What knows only positions
/// reads [`values`](Self::values); distances are taken in the text and divided then.
#[derive(Clone, Debug, PartialEq)]
pub struct Positions {
    rows: usize,
    in_text: Arc<[f64]>,
    scale: f64,
    /// Those in the text over the scale.
    values: Arc<[f64]>,
    consecutive: bool,
    /// Where positions are drawn, the tokens before the first column.
    drawn_after: Option<usize>,
}

impl Positions {
    /// `range.start, range.start + 1, ..`, shared by the batch.
    pub fn range(range: Range<usize>) -> Self {
        let values: Arc<[f64]> = range.map(|position| position as f64).collect();
        Self { rows: 1, in_text: values.clone(), scale: 1.0, values, consecutive: true, drawn_after: None }
    }

    /// Positions drawn at random, row after row; every row begins a text.
    ///
    /// # Panics
    /// The values do not divide into `rows` rows.
    pub fn drawn(rows: usize, values: impl Into<Arc<[f64]>>) -> Self {
        Self { drawn_after: Some(0), ..Self::explicit(rows, values) }
    }

    /// Explicit positions, row after row.
    ///
    /// # Panics
    /// The values do not divide into `rows` rows.
    pub fn explicit(rows: usize, values: impl Into<Arc<[f64]>>) -> Self {
        let values = values.into();
        assert!(rows > 0 && values.len() % rows == 0, "{} positions in {rows} rows", values.len());
        let length = (values.len() / rows).max(1);
        let consecutive = values.chunks(length).all(|row| {
            row.windows(2).all(|pair| (pair[1] - pair[0] - 1.0).abs() < f64::EPSILON)
                && row.first().is_none_or(|first| first.fract() == 0.0)
        });
        Self { rows, in_text: values.clone(), scale: 1.0, values, consecutive, drawn_after: None }
    }

    /// The same positions as an interpolated encoding reads them: those in the text divided by `scale`.
    #[must_use]
    pub fn over(&self, scale: f64) -> Self {
        let in_text = self.in_text.clone();
        let values = if scale.total_cmp(&1.0).is_eq() {
            in_text.clone()
        } else {
            in_text.iter().map(|m| m / scale).collect()
        };
        Self { in_text, scale, values, ..*self }
    }

    /// 1, or the number of sequences in the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Positions in a row.
    pub fn length(&self) -> usize {
        self.values.len() / self.rows
    }

    /// All positions as they are read, row after row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// All positions before any division, row after row: for distances, and for frequencies that are slower already.
    pub fn in_text(&self) -> &[f64] {
        &self.in_text
    }

    /// What positions are divided by, 1 as trained.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Whether every row of the text counts up by one from a whole number, so that the distance of two rows is
    /// the difference of their indices, over the scale.
    pub fn consecutive(&self) -> bool {
        self.consecutive
    }

    /// How many keys a causal query sees at each of these places, row after row: its own and those of the tokens
    /// before it. That is its position + 1, also where the rows at hand are a piece of a text; where positions are
    /// drawn, it is the number of the column, counted from 1 with the columns of the text before these.
    pub fn keys_seen(&self) -> impl Iterator<Item = f64> {
        let length = self.length().max(1);
        self.in_text.iter().enumerate().map(move |(index, position)| match self.drawn_after {
            Some(before) => (before + index % length + 1) as f64,
            None => position + 1.0,
        })
    }

    /// The largest position of the text; `None` when there is none.
    pub fn largest(&self) -> Option<f64> {
        self.in_text.iter().copied().reduce(f64::max)
    }

    /// The positions of some columns of every row.
    #[must_use]
    pub fn columns(&self, columns: Range<usize>) -> Self {
        let length = self.length();
        let of_row = |row: &[f64]| row[columns.clone()].to_vec();
        let in_text = self.in_text.chunks(length.max(1)).flat_map(of_row).collect();
        let drawn_after = self.drawn_after.map(|before| before + columns.start);
        Self { in_text, drawn_after, ..self.clone() }.over(self.scale)
    }

    /// The positions of some rows; all where the rows share them.
    #[must_use]
    pub fn of_rows(&self, rows: Range<usize>) -> Self {
        if self.rows == 1 {
            return self.clone();
        }
        let length = self.length();
        let values = &self.in_text[rows.start * length..rows.end * length];
        Self { drawn_after: self.drawn_after, ..Self::explicit(rows.len(), values) }.over(self.scale)
    }

    /// The positions of some columns of a batch, cut into rows of `length`: those of every row one after
    /// the other, and shared where all pieces agree. Each piece is a text of its own.
    ///
    /// # Panics
    /// `length` does not divide the columns.
    #[must_use]
    pub fn cut(&self, columns: Range<usize>, length: usize, batch: usize) -> Self {
        assert!(columns.len().is_multiple_of(length), "{} columns in rows of {length}", columns.len());
        let chosen = self.columns(columns);
        let first = &chosen.in_text[..length];
        let cut = if chosen.in_text.chunks(length).all(|row| row == first) {
            Self::explicit(1, first)
        } else {
            let copies = if self.rows == 1 { batch } else { 1 };
            Self::explicit(chosen.in_text.len() / length * copies, chosen.in_text.repeat(copies))
        };
        Self { drawn_after: self.drawn_after.map(|_| 0), ..cut }.over(self.scale)
    }

    /// The same rows with `count` more positions before each, counting down from its first. They are all that is seen
    /// of the text before.
    #[must_use]
    pub fn preceded(&self, count: usize) -> Self {
        let row = |row: &[f64]| -> Vec<f64> {
            let first = row.first().copied().unwrap_or_default();
            (1..=count).rev().map(|back| first - back as f64).chain(row.iter().copied()).collect()
        };
        let values: Vec<f64> = self.in_text.chunks(self.length().max(1)).flat_map(row).collect();
        Self { drawn_after: self.drawn_after.map(|_| 0), ..Self::explicit(self.rows, values) }
            .over(self.scale)
    }

    /// Every position of the text through a function.
    #[must_use]
    pub fn map(&self, function: impl Fn(f64) -> f64) -> Self {
        let values: Vec<f64> = self.in_text.iter().map(|&position| function(position)).collect();
        Self { drawn_after: self.drawn_after, ..Self::explicit(self.rows, values) }.over(self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_is_consecutive() {
        assert!(Positions::range(5..9).consecutive());
        assert!(Positions::explicit(2, vec![3.0, 4.0, 8.0, 9.0]).consecutive());
        assert!(!Positions::explicit(1, vec![3.0, 5.0]).consecutive());
        assert!(!Positions::explicit(1, vec![0.5, 1.5]).consecutive());
        assert!(!Positions::range(0..4).map(|p| p / 2.0).consecutive());
    }

    #[test]
    fn an_interpolated_text_is_read_closer_together() {
        let read = Positions::drawn(2, vec![0.0, 1.0, 2.0, 6.0, 7.0, 9.0]).over(4.0);
        assert_eq!(read.values(), [0.0, 0.25, 0.5, 1.5, 1.75, 2.25]);
        assert_eq!(
            (read.largest(), read.keys_seen().last()),
            (Some(9.0), Some(3.0)),
            "the text is as it was"
        );
        assert_eq!(read.columns(1..3).values(), [0.25, 0.5, 1.75, 2.25]);
        assert_eq!(read.of_rows(1..2).values(), [1.5, 1.75, 2.25]);
        assert_eq!(read.map(|m| m + 4.0).values()[..2], [1.0, 1.25]);
        assert_eq!(read.preceded(1).values()[..2], [-0.25, 0.0]);
        assert!(Positions::range(3..6).over(4.0).consecutive(), "by index, over the scale");
    }

    #[test]
    fn takes_columns_of_every_row() {
        let positions = Positions::explicit(2, vec![0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
        assert_eq!(positions.columns(1..3).values(), [1.0, 2.0, 11.0, 12.0]);
        assert_eq!(positions.largest(), Some(12.0));
        assert_eq!(positions.length(), 3);
        assert_eq!(positions.of_rows(1..2).values(), [10.0, 11.0, 12.0]);
        assert_eq!(Positions::range(0..3).of_rows(1..2), Positions::range(0..3));
    }

    #[test]
    fn cuts_rows_and_counts_back() {
        let restarting = Positions::explicit(1, vec![0.0, 1.0, 0.0, 1.0, 0.0]);
        assert_eq!(restarting.cut(0..4, 2, 3), Positions::range(0..2));
        let counting = Positions::range(0..4).cut(0..4, 2, 2);
        assert_eq!((counting.rows(), counting.length()), (4, 2));
        assert_eq!(counting.values(), [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
        let before = Positions::explicit(2, vec![0.0, 1.0, 7.0, 8.0]).preceded(2);
        assert_eq!(before.values(), [-2.0, -1.0, 0.0, 1.0, 5.0, 6.0, 7.0, 8.0]);
        assert!(before.consecutive());
    }

    #[test]
    fn counts_the_keys_of_drawn_rows_and_of_pieces() {
        let seen = |positions: &Positions| positions.keys_seen().collect::<Vec<_>>();
        assert_eq!(seen(&Positions::range(5..8)), [6.0, 7.0, 8.0], "a piece of a text");
        assert_eq!(seen(&Positions::explicit(1, vec![3.0, 30.0])), [4.0, 31.0]);
        let drawn = Positions::drawn(2, vec![4.0, 9.0, 11.0, 0.0, 1.0, 70.0]);
        assert_eq!(seen(&drawn), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(seen(&drawn.columns(1..3)), [2.0, 3.0, 2.0, 3.0]);
        assert_eq!(seen(&drawn.columns(1..3).columns(1..2)), [3.0, 3.0]);
        assert_eq!(seen(&drawn.of_rows(1..2)), [1.0, 2.0, 3.0]);
        assert_eq!(seen(&drawn.map(|p| p / 2.0)), seen(&drawn));
        // A piece is a text of its own, and of the text before a segment only its memory is seen.
        assert_eq!(seen(&drawn.cut(1..3, 1, 2)), [1.0; 4]);
        assert_eq!(seen(&drawn.columns(2..3).preceded(1)), [1.0, 2.0, 1.0, 2.0]);
    }
}
