//! `segments`: a long text as independent segments.
//!
//! The text is cut into segments of `length` tokens, the last one shorter; each is read for itself, from position 0,
//! and the losses of all are combined. Nothing past the training length is met
//! (longer segments are rejected unless `allow_untrained = true`), and nothing is known of
//! what came before the segment: the plainest answer to a table of positions that ends, and one that any encoding
//! takes. Under `fixed_target` with segments of L it is the reading at L itself.

use crate::extension::Extend;
use crate::layout::TextLayout;
use crate::prelude::*;

keys! {
    /// Keys of `segments`.
    pub struct Segments {
        /// Tokens of a segment.
        pub length: Tokens = Tokens::times(1.0),
        /// Allows distances that training never showed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub allow_untrained: bool = false,
    }
}

impl Extend for Segments {
    const KIND: &'static str = "segments";
    const DESCRIPTION: &'static str =
        "independent segments: in each, positions begin again, and attention stops at the border";
    const SOURCE: &'static str = "segment-wise reading, for tables of positions that end at L";
    const FORMULA: &'static str = "m' = m mod L\n\
        a'_{mn} = −∞, for ⌊m/L⌋ ≠ ⌊n/L⌋";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new(""), Example::new("length = 7").changes_short_texts()]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let length = self.length.whole("length", lengths)?;
        let distance = length.min(lengths.length).saturating_sub(1) as f64;
        Farthest { distance, allowed: self.allow_untrained }.check(
            Self::KIND,
            ("length", length),
            lengths,
            || "take segments of L tokens or fewer".to_owned(),
        )?;
        reading.set_layout(TextLayout::Segments { length });
        Ok(())
    }
}
