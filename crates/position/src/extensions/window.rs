//! `window`: every layer sees only the last tokens.
//!
//! A query sees the keys at distances below `window`, itself included; positions stay as they are. Layers add up:
//! after N of them a token still depends on tokens `N (window - 1)` back, which the row `window_baseline`
//! has not: that one truncates the text. With `window = "L"` it reads texts of L tokens as trained.

use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// Keys of `window`.
    pub struct Window {
        /// Keys at distances below it are seen.
        pub window: Tokens = Tokens::part(1.0),
    }
}

impl Extend for Window {
    const KIND: &'static str = "window";
    const DESCRIPTION: &'static str = "every layer sees only the last tokens";
    const SOURCE: &'static str = "sliding window attention, arXiv:2004.05150";
    const FORMULA: &'static str = "a'_{mn} = −∞, for m − n ≥ L";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new(""), Example::new("window = 5").changes_short_texts()]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        narrow(Self::KIND, reading, self.window.whole("window", lengths)?, 0)
    }

    fn window(&self) -> Option<Tokens> {
        Some(self.window)
    }
}
