//! `lambda_mask`: the first tokens and the last ones, at a bounded distance (LM-Infinite).
//!
//! A query sees the keys at distances below `window` and those at positions below `n_global`. Keys in the
//! window are read at their distance, those outside at the constant `distance_cap`: q rotated to it, k not at
//! all (Han et al. 2023, arXiv:2308.16137; there `window = distance_cap = L` and `n_global = 10`). With these
//! it reads texts of L tokens as trained. Distances past L are rejected unless `allow_untrained = true`.

use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// Keys of `lambda_mask`.
    pub struct LambdaMask {
        /// Keys at distances below it are seen.
        pub window: Tokens = Tokens::part(1.0),
        /// Keys at positions below it are always seen.
        pub n_global: usize = 10,
        /// The distance that keys outside the window are read at; the window where it is left out.
        pub distance_cap: Option<Tokens> = None,
        /// Allows distances that training never showed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub allow_untrained: bool = false,
    }
}

impl LambdaMask {
    fn check_reach(&self, window: usize, cap: usize, lengths: Lengths) -> Result<()> {
        let last = lengths.length.saturating_sub(1);
        let better = || "take L or less, as published".to_owned();
        let farthest =
            |distance: usize| Farthest { distance: distance as f64, allowed: self.allow_untrained };
        farthest(last.min(window - 1)).check(Self::KIND, ("window", window), lengths, better)?;
        if self.n_global == 0 || last < window {
            return Ok(());
        }
        // The published cap is L, one more than training shows.
        farthest(if cap == lengths.train { cap - 1 } else { cap }).check(
            Self::KIND,
            ("distance_cap", cap),
            lengths,
            better,
        )
    }
}

impl Extend for LambdaMask {
    const KIND: &'static str = "lambda_mask";
    const DESCRIPTION: &'static str =
        "only the first tokens and a window, at a bounded distance (LM-Infinite)";
    const SOURCE: &'static str = "arXiv:2308.16137";
    const FORMULA: &'static str = "a'_{mn} = −∞, for m − n ≥ L and n ≥ 10\n\
        (m − n)' = min(m − n, L)";

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").shifts(Shifts::None)]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let window = self.window.whole("window", lengths)?;
        let cap = self.distance_cap.unwrap_or(self.window).whole("distance_cap", lengths)?;
        self.check_reach(window, cap, lengths)?;
        let far = (PositionMap::Constant(cap as f64), PositionMap::Constant(0.0));
        let geometry = Geometry::from_distance(window as f64, far);
        set_geometry(Self::KIND, reading, &geometry)?;
        narrow(Self::KIND, reading, window, self.n_global)
    }

    fn window(&self) -> Option<Tokens> {
        Some(self.window)
    }
}
