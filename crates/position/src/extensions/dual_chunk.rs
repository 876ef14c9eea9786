//! `dual_chunk`: positions start again in every chunk (dual chunk attention, DCA).
//!
//! With `m = chunk - local`, key j is read at `j mod m`, and query i at `i mod m` for keys of its own block of m
//! positions, at `min(i mod m + m, chunk)` for those of the block before, and at `min(2m - 1, chunk)` for those
//! further back (An et al. 2024, arXiv:2402.17463, with the limits of the published program). `mscale`
//! multiplies cos and sin of q and k by `0.05 ln(max(L'/L, 1)) + 1`, as that program does. It changes
//! readings of L tokens too, wherever they span two blocks. No distance past `chunk` is read; where that is one
//! which training never showed, it is rejected unless `allow_untrained = true`.

use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// Keys of `dual_chunk`.
    pub struct DualChunk {
        /// The largest position of a query.
        pub chunk: Tokens = Tokens::Share { factor: 3.0, divisor: 4.0 },
        /// Distances below it are whole across the edge of two blocks.
        pub local: Tokens = Tokens::part(8.0),
        /// Sharpens attention by the logarithm of L'/L.
        pub mscale: bool = true,
        /// Allows distances that training never showed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub allow_untrained: bool = false,
    }
}

impl Extend for DualChunk {
    const KIND: &'static str = "dual_chunk";
    const DESCRIPTION: &'static str = "positions start again in every chunk (dual chunk attention)";
    const SOURCE: &'static str = "arXiv:2402.17463 and its repository";
    const FORMULA: &'static str = "n' = n mod c, m' = m mod c, for ⌊m/c⌋ = ⌊n/c⌋, c = ⌊3L/4⌋ − ⌊L/8⌋\n\
        m' = min(m mod c + c, ⌊3L/4⌋), for ⌊m/c⌋ = ⌊n/c⌋ + 1\n\
        m' = min(2c − 1, ⌊3L/4⌋), for ⌊m/c⌋ > ⌊n/c⌋ + 1\n\
        a'_{mn} = (0.05 ln max(1, T/L) + 1)^2 q'_m · k'_n / √d";

    fn examples(_bands: usize, lengths: Lengths) -> Vec<Example> {
        let Self { chunk, local, .. } = Self::default();
        let block = (chunk.at(lengths) - local.at(lengths)) as usize;
        vec![Example::new("").changes_short_texts().shifts(Shifts::Multiples(block))]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let (chunk, local) = (self.chunk.whole("chunk", lengths)?, self.local.whole("local", lengths)?);
        if local >= chunk {
            return Err(Error::usage(format!(
                "`{}` needs a `chunk` above `local`, not {chunk} and {local}",
                Self::KIND
            ))
            .hint("the published ones are `chunk = \"3L/4\"` and `local = \"L/8\"`"));
        }
        let (block, limit) = ((chunk - local) as f64, chunk as f64);
        let last = lengths.length.saturating_sub(1) as f64;
        let farthest =
            Farthest { distance: last.min(2.0 * block - 1.0).min(limit), allowed: self.allow_untrained };
        farthest.check(Self::KIND, ("chunk", chunk), lengths, || {
            "take a chunk below L, such as \"3L/4\"".to_owned()
        })?;
        let within = PositionMap::Chunked { chunk: block, offset: 0.0, limit: f64::INFINITY };
        let after = PositionMap::Chunked { chunk: block, offset: block, limit };
        let far = PositionMap::Constant((2.0 * block - 1.0).min(limit));
        let geometry = Geometry {
            maps: vec![(within, within), (after, within), (far, within)],
            selector: Selector::Chunk { chunk: block },
        };
        set_geometry(Self::KIND, reading, &geometry)?;
        if !self.mscale {
            return Ok(());
        }
        let factor = 0.05f64.mul_add(lengths.scale().ln(), 1.0);
        change_frequencies(Self::KIND, reading, |old| Ok(old.clone().amplified(factor)))
    }
}
