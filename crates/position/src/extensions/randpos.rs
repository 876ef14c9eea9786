//! `randpos`: positions drawn as randomised training draws them.
//!
//! A text of L' tokens is read at L' positions drawn without replacement from 0..`max_position`, sorted: the
//! test-time rule of Ruoss et al. 2023 (arXiv:2305.16843, section 3). For models trained with `train.positions =
//! { kind = "randpos" }` and as many positions; read `direct`, such a model sees positions 0, 1, 2, .. without gaps.
//! One draw serves all windows of a length; another `seed` gives another one. Where nothing reads positions
//! but their order, there is nothing to draw.

use crate::extension::Extend;
use crate::layout::TextLayout;
use crate::prelude::*;

keys! {
    /// Keys of `randpos`.
    pub struct RandPos {
        /// Positions are drawn below it; as in the training.
        pub max_position: Tokens = Tokens::Count(2048),
        /// Decides what is drawn.
        pub seed: u64 = 0,
    }
}

impl Extend for RandPos {
    const KIND: &'static str = "randpos";
    const DESCRIPTION: &'static str =
        "positions drawn from a longer range, as randomised training draws them";
    const SOURCE: &'static str = "arXiv:2305.16843";
    const FORMULA: &'static str = "m' = c_m, c_0 < c_1 < .. < c_{T−1} drawn from 0..2047";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("max_position = '10L'").changes_short_texts()]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        if reading.position_use() == PositionUse::Order {
            return Err(not_applicable(Self::KIND, "an encoding that reads positions", reading));
        }
        let max_position = self.max_position.whole("max_position", lengths)?;
        if max_position < lengths.length {
            let allowed = format!("{} tokens need as many positions", lengths.length);
            return Err(Error::value("max_position", max_position, allowed)
                .hint("train and read with more positions, or read shorter lengths"));
        }
        reading.check(&Positions::range(max_position - lengths.length..max_position))?;
        reading.set_layout(TextLayout::Drawn { max_position, seed: self.seed });
        Ok(())
    }
}
