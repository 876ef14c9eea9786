//! `leaky_rerope`: distances grow slowly past the window.
//!
//! A pair at distance n is read at n below the window w, else at `w + (n - w) / k`: q at `(i - w) / k + w`, k
//! at `j / k` (Su 2023, kexue.fm/archives/9708). Give `k`, or `far_end`: the distance that the last key
//! reaches, `k = (L' - 1 - w) / (far_end - w)`, at least 1. The far end should stay below about 3L/4; from L
//! on it would be a distance that training never showed, and is rejected unless `allow_untrained = true`: with
//! `w = 128`, `k = 8` reaches 624 at L' = 4,096 and fails for L = 512, `k = 16` reaches 376. It changes readings
//! of L tokens too.
//!
//! `k = 1` is plain `RoPE`, and `k` below 1 makes far distances larger than they are: to train a stage with it and
//! read with plain `RoPE`, `k = 1`, is Inverse Leaky `ReRoPE` (kexue.fm/archives/9728; `k = 1 / (2 s)`, w = L/4, base
//! times s if you like). Neither keeps distances below L, so neither is held to it.

use crate::extension::Extend;
use crate::prelude::*;

keys! {
    /// Keys of `leaky_rerope`.
    pub struct LeakyReRope {
        /// w: distances below it are read as they are.
        pub window: Tokens = Tokens::part(4.0),
        /// How much slower distances grow from there on.
        pub k: Option<f64> = None,
        /// The distance that the last key is read at, instead of `k`; `"0.6L"` where neither is given.
        pub far_end: Option<Tokens> = None,
        /// Allows distances that training never showed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub allow_untrained: bool = false,
    }
}

impl LeakyReRope {
    /// The factor k for a length.
    fn slowdown(&self, window: f64, lengths: Lengths) -> Result<f64> {
        if let Some(k) = self.k {
            return Ok(k);
        }
        let far_end = self.far_end.unwrap_or(Tokens::times(0.6)).at(lengths);
        if far_end <= window {
            return Err(Error::usage(format!(
                "`{}` cannot end at a distance of {far_end}: it reads distances below the window of {window} as they are",
                Self::KIND
            ))
            .hint("take a `far_end` between the window and L, such as \"0.6L\" with `window = \"L/4\"`"));
        }
        let last = lengths.length.saturating_sub(1) as f64;
        Ok(((last - window) / (far_end - window)).max(1.0))
    }

    /// Refuses distances that training never showed where `k` is to keep them away: at 1 it is plain `RoPE`, and below
    /// 1 it stretches them on purpose.
    fn check_reach(&self, window: f64, k: f64, lengths: Lengths) -> Result<()> {
        let (train, last) = (lengths.train as f64, lengths.length.saturating_sub(1) as f64);
        let distance = if last < window { last } else { window + (last - window) / k };
        let stretches = self.k.is_some_and(|k| k <= 1.0);
        let farthest = Farthest { distance, allowed: self.allow_untrained || stretches };
        if window >= train {
            let better = || "take a window below L, such as \"L/4\"".to_owned();
            return farthest.check(Self::KIND, ("window", window), lengths, better);
        }
        match self.far_end {
            Some(far_end) if self.k.is_none() => {
                let better = || "take a `far_end` between the window and L, such as \"0.6L\"".to_owned();
                farthest.check(Self::KIND, ("far_end", far_end.text()), lengths, better)
            }
            _ => farthest.check(Self::KIND, ("k", k), lengths, || {
                let least = ((last - window) / (train - window)).floor() + 1.0;
                format!("take a `k` of {least} or more, or a `far_end`, which makes a `k` for each length")
            }),
        }
    }
}

impl Extend for LeakyReRope {
    const KIND: &'static str = "leaky_rerope";
    const DESCRIPTION: &'static str = "distances grow k times more slowly past the window (Leaky ReRoPE)";
    const SOURCE: &'static str = "kexue.fm/archives/9708";
    const FORMULA: &'static str = "(m − n)' = m − n, for m − n < w = ⌊L/4⌋\n\
        (m − n)' = w + (m − n − w) / c, for m − n ≥ w\n\
        c = max(1, (T − 1 − w) / (0.6 L − w))";

    fn validate(&self, section: &str) -> Result<()> {
        let Some(k) = self.k else { return Ok(()) };
        check_positive(section, "k", k)
            .map_err(|error| error.hint("16 makes distances grow 16 times slower past the window"))?;
        if self.far_end.is_some() {
            return Err(Error::usage(format!(
                "`{section}.k` and `{section}.far_end` both say how far distances grow"
            ))
            .hint("keep one of them"));
        }
        Ok(())
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("").changes_short_texts()]
    }

    fn apply(&self, reading: &mut Reading, lengths: Lengths) -> Result<()> {
        let window = self.window.whole("window", lengths)? as f64;
        let k = self.slowdown(window, lengths)?;
        self.check_reach(window, k, lengths)?;
        let far = [window - window / k, 0.0].map(|offset| PositionMap::Affine { scale: 1.0 / k, offset });
        set_geometry(Self::KIND, reading, &Geometry::from_distance(window, far.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_reaches_the_far_end() {
        let leaky = LeakyReRope::default();
        let lengths = Lengths { train: 128, length: 1024 };
        let k = leaky.slowdown(32.0, lengths).unwrap();
        assert!((32.0 + (1023.0 - 32.0) / k - 0.6 * 128.0).abs() < 1e-9, "{k}");
        let short = Lengths { train: 128, length: 64 };
        assert!((leaky.slowdown(32.0, short).unwrap() - 1.0).abs() < 1e-12, "never stretched");
        assert!(leaky.slowdown(80.0, lengths).unwrap_err().hint_text().is_some());
    }

    #[test]
    fn one_way_to_say_how_slowly() {
        let both = LeakyReRope { k: Some(4.0), far_end: Some(Tokens::times(0.5)), ..LeakyReRope::default() };
        assert!(both.validate("extend").is_err());
        assert!(LeakyReRope { k: Some(0.0), ..LeakyReRope::default() }.validate("extend").is_err());
        assert!(LeakyReRope { k: Some(0.0625), ..LeakyReRope::default() }.validate("extend").is_ok());
    }
}
