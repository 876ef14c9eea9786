//! `sinks`: attention sinks and a window (`StreamingLLM`).
//!
//! A query sees the keys at distances below `window`, itself included, and those at positions below `n_sink`
//! (Xiao et al. 2023, arXiv:2309.17453). `reindex` reads positions as they would lie in a cache of `n_sink + window`
//! tokens: keys in the window at their distance n, sinks outside it at `min(i, n_sink + window - 1) - j`. Without
//! it, sinks are read at their true distance, which may be past training. The cache holds L tokens unless
//! `window` says otherwise, and texts of L tokens are then read as trained; a larger cache is rejected unless
//! `allow_untrained = true`.

use crate::extension::Extend;
use crate::prelude::*;
use crate::reading::AttentionKind;

keys! {
    /// Keys of `sinks`.
    pub struct Sinks {
        /// Keys at positions below it are always seen.
        pub n_sink: usize = 4,
        /// Keys at distances below it are seen; L - `n_sink` where it is left out.
        pub window: Option<Tokens> = None,
        /// Reads positions as they lie in the cache.
        pub reindex: bool = true,
        /// `reindex`: allows distances that training never showed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub allow_untrained: bool = false,
    }
}

impl Sinks {
    fn window(&self, lengths: Lengths) -> Result<usize> {
        match self.window {
            Some(window) => window.whole("window", lengths),
            None if self.n_sink < lengths.train => Ok(lengths.train - self.n_sink),
            None => {
                Err(Error::value("n_sink", self.n_sink, format!("it must be below L = {}", lengths.train))
                    .hint("the published number is 4; or give a `window`"))
            }
        }
    }
}

impl Extend for Sinks {
    const KIND: &'static str = "sinks";
    const DESCRIPTION: &'static str =
        "only the first tokens and a window, as in a cache of fixed size (StreamingLLM)";
    const SOURCE: &'static str = "arXiv:2309.17453";
    const FORMULA: &'static str = "a'_{mn} = −∞, for m − n ≥ w = L − 4 and n ≥ 4\n\
        (m − n)' = m − n, for m − n < w\n\
        (m − n)' = min(m, L − 1) − n, for m − n ≥ w";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").shifts(Shifts::None), Example::new("reindex = false").shifts(Shifts::None)]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let window = self.window(lengths)?;
        if self.reindex {
            let cache = (self.n_sink + window) as f64;
            let distance = (cache - 1.0).min(lengths.length.saturating_sub(1) as f64);
            Farthest { distance, allowed: self.allow_untrained }.check(
                Self::KIND,
                ("window", window),
                lengths,
                || format!("leave `window` out: the cache of {} sinks then holds L tokens", self.n_sink),
            )?;
            let far = (PositionMap::AtMost(cache - 1.0), PositionMap::Identity);
            let geometry = Geometry::from_distance(window as f64, far);
            // A mask with sinks is for what has a softmax.
            let can_mask =
                !matches!(reading.attention(), AttentionKind::Linear | AttentionKind::StickBreaking(_));
            set_geometry(Self::KIND, reading, &geometry).map_err(|error| {
                let hint = "`reindex = false` only masks, which any encoding can be read with";
                if can_mask { error.hint(hint) } else { error }
            })?;
        }
        narrow(Self::KIND, reading, window, self.n_sink)
    }

    fn window(&self) -> Option<Tokens> {
        self.window
    }
}
