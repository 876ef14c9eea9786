//! `bands`: which bands carry what a model does, by taking some of them out.
//!
//! `keep = r` lets the fastest `floor(r bands)` turn, and the others stand still: `inv_freq'_i = inv_freq_i` below that and 0 from there
//! on, as `p` of `rope` in training (p-RoPE, Barbero et al. 2024, arXiv:2410.06205); read after training it shows from which band on
//! frequencies are of no use ("Frequency Bands in `RoPE`", Oka et al., ICLR 2026, sections 3 and 4). `without = i` takes one band out, counted
//! from 0, the fastest. A band that stands still carries content alone.
//!
//! `random = SEED` gives those bands a frequency drawn uniformly from [0, 2 pi) in place of 0, so that the angle between two tokens is
//! uniformly random at every distance above 0: a reading that takes the content of these bands away too. That form is ours.

use crate::extension::FrequencyRule;
use crate::frequency::share_of_bands;
use crate::prelude::*;
use longwave_core::random::Stream;
use std::f64::consts::TAU;

keys! {
    /// Keys of `bands`.
    pub struct Bands {
        /// Share of the bands that turn, fastest first, from 0 (none) to 1 (all).
        pub keep: Option<f64> = None,
        /// A band that does not turn, counted from 0, the fastest.
        pub without: Option<usize> = None,
        /// Seed of random frequencies for the bands that are taken out; without it they stand still.
        pub random: Option<u64> = None,
    }
}

impl FrequencyRule for Bands {
    const KIND: &'static str = "bands";
    const DESCRIPTION: &'static str = "takes bands out: the fastest share turns, or all but one";
    const SOURCE: &'static str = "Oka et al., Frequency Bands in RoPE, ICLR 2026; arXiv:2410.06205";
    const FORMULA: &'static str = "θ'_i = θ_i, for i < ⌊r d/2⌋, r given in the config\n\
        θ'_i = 0, for i ≥ ⌊r d/2⌋";

    fn validate(&self, section: &str) -> Result<()> {
        if let Some(keep) = self.keep.filter(|keep| !(0.0..=1.0).contains(keep)) {
            return Err(Error::value(&format!("{section}.keep"), keep, "it must be between 0 and 1")
                .hint("0.75 lets the fastest three quarters of the bands turn"));
        }
        if self.keep.is_none() && self.without.is_none() {
            return Err(Error::usage(format!(
                "`{section}`: `bands` needs `keep`, the share of the bands that turn, or `without`, one that does not"
            ))
            .hint("write `{ kind = \"bands\", keep = 0.75 }`, or `{ kind = \"bands\", without = 0 }`"));
        }
        Ok(())
    }

    fn examples(_bands: usize, _lengths: Lengths) -> Vec<Example> {
        vec![Example::new("keep = 0.75").changes_short_texts().bands(Band::Same, Band::More)]
    }

    fn frequencies(&self, old: &Frequencies, _scale: f64, _lengths: Lengths) -> Result<Frequencies> {
        let bands = old.inv_freq.len();
        if let Some(without) = self.without.filter(|without| *without >= bands) {
            return Err(Error::usage(format!(
                "`without = {without}` is no band: the encoding has {bands}, and the slowest is {}",
                bands - 1
            ))
            .hint("count bands from 0, the fastest; `longwave inspect` lists them"));
        }
        let kept = self.keep.map_or(bands, |keep| share_of_bands(keep, bands));
        // A draw for every band, so that a band has the same one whatever else is taken out.
        let drawn: Option<Vec<f64>> = self.random.map(|seed| {
            let mut stream = Stream::new(seed, "bands", 0);
            (0..bands).map(|_| TAU * stream.uniform()).collect()
        });
        Ok(old.map(|band, f| {
            let turns = band < kept && self.without != Some(band);
            if turns { f } else { drawn.as_ref().map_or(0.0, |drawn| drawn[band]) }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::LogN;
    use crate::testing::{dimensions, extension, reading};

    /// The frequencies of ten bands, of a model that was trained so, as read.
    fn read(position: &str, extend: &str) -> Result<Frequencies> {
        let sizes = Dimensions { head_dim: 20, ..dimensions() };
        let trained = reading(position, &sizes, LogN::Off).unwrap();
        let read = extension(extend)?.apply(&trained, Lengths { train: 16, length: 64 })?;
        Ok(read.encodings()[0].frequencies().unwrap().clone())
    }

    #[test]
    fn a_share_turns_as_a_model_trained_so() {
        assert_eq!(
            read("'rope'", "{ kind = 'bands', keep = 1 }").unwrap(),
            read("'rope'", "'direct'").unwrap()
        );
        for share in ["0", "0.34", "0.5", "0.7", "0.99"] {
            let trained = read(&format!("{{ kind = 'rope', p = {share} }}"), "'direct'").unwrap();
            assert_eq!(read("'rope'", &format!("{{ kind = 'bands', keep = {share} }}")).unwrap(), trained);
        }
    }

    #[test]
    fn one_band_stands_still() {
        let trained = read("'rope'", "'direct'").unwrap();
        for band in 0..10 {
            let without = read("'rope'", &format!("{{ kind = 'bands', without = {band} }}")).unwrap();
            assert_eq!(without, trained.map(|i, f| if i == band { 0.0 } else { f }));
        }
        let both = read("'rope'", "{ kind = 'bands', keep = 0.5, without = 2 }").unwrap();
        assert_eq!(both, trained.map(|i, f| if i == 2 || i >= 5 { 0.0 } else { f }));
    }

    #[test]
    fn random_frequencies_are_of_the_bands_that_are_taken_out() {
        let trained = read("'rope'", "'direct'").unwrap();
        let drawn = |keys: &str| read("'rope'", &format!("{{ kind = 'bands', {keys} }}")).unwrap().inv_freq;
        let [half, again, other] =
            ["random = 0", "random = 0", "random = 1"].map(|seed| drawn(&format!("keep = 0.5, {seed}")));
        assert_eq!(half, again);
        assert_eq!((&half[..5], &other[..5]), (&trained.inv_freq[..5], &trained.inv_freq[..5]));
        assert!((5..10).all(|band| half[band] != other[band] && (0.0..TAU).contains(&half[band])));
        assert_eq!(drawn("without = 7, random = 0")[7], half[7], "a band has its own draw");
    }

    #[test]
    fn what_is_no_band_or_no_share_is_named() {
        for (extend, start) in [
            ("'bands'", "`extend`: `bands` needs `keep`"),
            ("{ kind = 'bands', keep = 1.5 }", "`extend.keep = 1.5`"),
            ("{ kind = 'bands', keep = nan }", "`extend.keep = NaN`"),
            ("{ kind = 'bands', without = -1 }", "`extend.without = -1`"),
            ("{ kind = 'bands', without = 10 }", "`without = 10` is no band"),
        ] {
            let error = read("'rope'", extend).unwrap_err();
            assert!(error.message().starts_with(start) && error.hint_text().is_some(), "{extend}: {error}");
        }
        assert!(read("'rope'", "{ kind = 'bands', keep = 0.5, resonance = true }").is_ok());
    }
}
