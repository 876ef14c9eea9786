//! `rerope`: distances stop growing at the window.
//!
//! A pair at distance n is read at `min(n, w)`: at its own positions below the window w, else with q rotated
//! to w and k not at all (Su 2023, kexue.fm/archives/9708). No distance past w is ever read, so w must be
//! well below L: L/4 to L/2 are published as good, w = L fails and is rejected unless `allow_untrained = true`. It
//! changes readings of L tokens too, wherever a distance reaches w.

use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// Keys of `rerope`.
    pub struct ReRope {
        /// w: the largest distance that is read.
        pub window: Tokens = Tokens::part(2.0),
        /// Allows a window at or above L, which reads distances that training never showed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub allow_untrained: bool = false,
    }
}

impl Extend for ReRope {
    const KIND: &'static str = "rerope";
    const DESCRIPTION: &'static str = "distances stop growing at the window (ReRoPE)";
    const SOURCE: &'static str = "kexue.fm/archives/9708";
    const FORMULA: &'static str = "(m − n)' = min(m − n, w), w = ⌊L/2⌋";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").changes_short_texts()]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let window = self.window.whole("window", lengths)? as f64;
        let farthest = Farthest { distance: window, allowed: self.allow_untrained };
        farthest.check(Self::KIND, ("window", window), lengths, || {
            "take a window between \"L/4\" and \"L/2\"".to_owned()
        })?;
        let far = (PositionMap::Constant(window), PositionMap::Constant(0.0));
        set_geometry(Self::KIND, reading, &Geometry::from_distance(window, far))
    }
}
