//! `float`: real positions, spread evenly over a range.
//!
//! A text of L' tokens is read at `span (2t + 1) / (2 max(L, L'))`, t = 0..L'-1: the middles of equal cells of `[0, span)`,
//! of which a text no longer than L takes its own part (Random Float Sampling, arXiv:2602.14050; `span` is this project's,
//! the paper's range is `[0, 1)`). For models trained with `train.positions = { kind = "float" }` and the same span. The
//! number of cells is fixed by the length that is read, also for a text that is read or generated piece by piece.

use crate::extension::Extend;
use crate::extent::Extent;
use crate::layout::TextLayout;
use crate::prelude::*;

keys! {
    /// Keys of `float`.
    pub struct FloatPositions {
        /// Positions lie below it; as in the training.
        pub span: Extent = Extent::Multiple(Tokens::times(8.0)),
    }
}

impl Extend for FloatPositions {
    const KIND: &'static str = "float";
    const DESCRIPTION: &'static str = "real positions spread evenly over a range (Random Float Sampling)";
    const SOURCE: &'static str = "arXiv:2602.14050";
    const FORMULA: &'static str = "m' = 8L (2m + 1) / (2 max(L, T))";

    fn validate(&self, section: &str) -> Result<()> {
        self.span.validate(&format!("{section}.span"), false)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").changes_short_texts()]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        if reading.position_use() == PositionUse::Order {
            return Err(not_applicable(Self::KIND, "an encoding that reads positions", reading));
        }
        let layout =
            TextLayout::Cells { count: lengths.train.max(lengths.length), span: self.span.at(lengths) };
        reading.check_between("`float` reads real positions", &layout.positions(lengths.length))?;
        reading.set_layout(layout);
        Ok(())
    }
}
