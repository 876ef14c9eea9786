//! `string`: rarely trained distances are replaced by frequent ones.
//!
//! Few tokens of the training have a key nearly L tokens before them, so large distances are trained little. A pair at
//! distance n is read at n below the shift S, else at `n - S + W`: q at `i - S + W`, k at j, with a small local value
//! `0 <= W < S` (STRING, An et al. 2024, arXiv:2410.18745, section 4). cos and sin of q and k are multiplied by
//! `attention_factor` at every length, `0.1 ln 2 + 1` in the repository (HKUNLP/STRING). At n = S a pair is read once,
//! shifted.
//!
//! It was made for texts of L tokens. Longer ones reach `L' - 1 - S + W`, which from L on is a distance that training
//! never showed: it is rejected unless `allow_untrained = true`. `W = S` would be plain `RoPE`.

use crate::extension::Extend;
use crate::extent::Extent;
use crate::prelude::*;

keys! {
    /// Keys of `string`.
    pub struct ShiftedRope {
        /// S: pairs at this distance and further are moved closer.
        pub shift: Tokens = Tokens::part(3.0),
        /// W: the distance that a pair at distance S is read at; 0 is allowed.
        pub local: Extent = Extent::Multiple(Tokens::part(16.0)),
        /// Multiplies cos and sin.
        pub attention_factor: f64 = 0.1f64.mul_add(std::f64::consts::LN_2, 1.0),
        /// Allows distances that training never showed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub allow_untrained: bool = false,
    }
}

impl Extend for ShiftedRope {
    const KIND: &'static str = "string";
    const DESCRIPTION: &'static str = "distances past a shift are read that much closer (STRING)";
    const SOURCE: &'static str = "arXiv:2410.18745 and its repository";
    const FORMULA: &'static str = "(m − n)' = m − n, for m − n < w = ⌊L/3⌋\n\
        (m − n)' = m − n − w + ⌊L/16⌋, for m − n ≥ w\n\
        a'_{mn} = (0.1 ln 2 + 1)^2 q'_m · k'_n / √d";

    fn validate(&self, section: &str) -> Result<()> {
        self.local.validate(&format!("{section}.local"), true)?;
        check_attention_factor(section, self.attention_factor)
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![
            Example::new("allow_untrained = true").changes_short_texts(),
            Example::new("shift = 'L', local = 0, attention_factor = 1.0, allow_untrained = true"),
        ]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let shift = self.shift.whole("shift", lengths)?;
        // A multiple is rounded down, as one of tokens.
        let (shift, local) = (shift as f64, (self.local.at(lengths) + 1e-9).floor());
        if local >= shift {
            let allowed = format!("it must be below `shift`, {shift} tokens");
            return Err(Error::value("local", local, allowed)
                .hint("the published ones are a shift of about L/3 and a local value of 128 at L = 131072"));
        }
        let last = lengths.length.saturating_sub(1) as f64;
        let distance = if last < shift { last } else { (shift - 1.0).max(last - shift + local) };
        let farthest = Farthest { distance, allowed: self.allow_untrained };
        farthest.check(Self::KIND, ("shift", shift), lengths, || {
            format!(
                "read texts of at most L + shift - local = {} tokens",
                lengths.train as f64 + shift - local
            )
        })?;
        let far = (PositionMap::Affine { scale: 1.0, offset: local - shift }, PositionMap::Identity);
        set_geometry(Self::KIND, reading, &Geometry::from_distance(shift, far))?;
        change_frequencies(Self::KIND, reading, |old| Ok(old.clone().amplified(self.attention_factor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_factor_is_the_default() {
        let published = 1.069_314_718_055_994_5;
        assert!((ShiftedRope::default().attention_factor - published).abs() < 1e-15);
        assert!(ShiftedRope { attention_factor: 0.0, ..ShiftedRope::default() }.validate("extend").is_err());
    }
}
