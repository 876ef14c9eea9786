//! `xpos`: rotary position embedding with a decay.
//!
//! As `rope`, and channel pair i of q at position m is multiplied by `zeta_i^((m - c) / scale_base)`, of k
//! by `zeta_i^(-(m - c) / scale_base)`, `zeta_i = (2i + gamma d) / ((1 + gamma) d)`: scores carry
//! `zeta_i^((m - n) / scale_base)`, so fast bands fade with the distance (Sun et al. 2023,
//! arXiv:2212.10554, section 3.1; torchscale's `xpos_relative_position.py`). Causal models only; no
//! parameters, the same in every layer.
//!
//! The centre c cancels in q.k and keeps the factors small: it is the middle of the keys at hand unless given. It does
//! not cancel in what another encoding of the layer makes of q or k (`shaw`, `cope`), so `centre` must be given beside
//! one. Past `80 / ln(1 + 1 / gamma)` times `scale_base` positions on one side, 64 times at gamma = 0.4, a factor exceeds e^80, and its
//! products may leave f32: rejected.
//! Interpolated by s, positions are divided by s in angles and decay.

use crate::frequency::Decay;
use crate::prelude::*;

/// The largest exponent of e that q and k are scaled by: their product with ordinary numbers stays in f32.
const LARGEST_EXPONENT: f64 = 80.0;

keys! {
    /// Keys of `kind = "xpos"`.
    pub struct Config {
        /// The base of the geometric progression of frequencies.
        pub base: f64 = 10_000.0,
        /// Which channels make a pair; the original pairs interleaved.
        pub layout: Layout = Layout::Interleaved,
        /// Above 0; the larger, the weaker the decay.
        pub gamma: f64 = 0.4,
        /// Positions over which a band decays by its zeta.
        pub scale_base: f64 = 512.0,
        /// The position where q and k keep their size; the middle of the keys that are read unless given. Required beside an
        /// encoding that reads q or k, such as `shaw`.
        pub centre: Option<f64> = None,
    }
}

/// The rotation of every layer.
#[derive(Module, Debug)]
pub struct Xpos {
    #[module(skip)]
    rotation: Rotation,
    #[module(skip)]
    decay: Decay,
}

impl Configure for Config {
    type Encoding = Xpos;
    const KIND: &'static str = "xpos";
    const DESCRIPTION: &'static str = "rotates q and k, and lets fast bands fade with the distance (xPos)";
    const SOURCE: &'static str = "arXiv:2212.10554";
    const FORMULA: &'static str = "a_{mn} = Σ_i ζ_i^{(m−n)/512} (R(m θ_i) q_{m,i}) · (R(n θ_i) k_{n,i}) / √d, q_{m,i} channels 2i, 2i+1\n\
        R(φ)(u, w) = (u cos φ − w sin φ, u sin φ + w cos φ)\n\
        θ_i = b^{−2i/d}, b = 10000, ζ_i = (2i + 0.4 d) / (1.4 d)";
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined, decaying on; refused where the scales leave f32");

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)?;
        check_positive(section, "gamma", self.gamma)?;
        check_positive(section, "scale_base", self.scale_base)?;
        if let Some(centre) = self.centre.filter(|centre| !centre.is_finite()) {
            return Err(Error::value(&format!("{section}.centre"), centre, "it must be a finite position"));
        }
        if dimensions.head_dim % 2 == 1 {
            return Err(Error::usage(format!(
                "`xpos` turns pairs of channels, so the head dimension {} must be even",
                dimensions.head_dim
            ))
            .hint(
                "the head dimension is `model.width / model.heads`: change those, or give `model.head_dim`",
            ));
        }
        Ok(())
    }

    fn build(&self, dimensions: &Dimensions, _init: &Init) -> Xpos {
        let d = dimensions.head_dim as f64;
        let zeta = (0..dimensions.head_dim / 2)
            .map(|i| self.gamma.mul_add(d, 2.0 * i as f64) / ((1.0 + self.gamma) * d))
            .collect();
        let decay = Decay { zeta, scale_base: self.scale_base, centre: self.centre };
        let frequencies = Frequencies::geometric(self.base, dimensions.head_dim);
        Xpos { rotation: Rotation::new(frequencies, self.layout), decay }
    }
}

impl Xpos {
    /// The decay of the bands.
    pub fn decay(&self) -> &Decay {
        &self.decay
    }
}

impl Position for Xpos {
    fn capabilities(&self) -> Capabilities {
        Capabilities { position_use: PositionUse::Distances, is_relative_qk: true, ..Capabilities::default() }
    }

    fn rotation(&self, _layer: usize) -> Option<Rotation> {
        Some(Rotation { decay: Some(self.decay.clone()), ..self.rotation.clone() })
    }

    fn frequencies(&self) -> Option<&Frequencies> {
        Some(&self.rotation.frequencies)
    }

    fn set_frequencies(&mut self, frequencies: Frequencies) {
        self.rotation.frequencies = frequencies;
    }

    fn check(&self, positions: &Positions) -> Result<()> {
        let fold =
            |of: fn(f64, f64) -> f64| positions.in_text().iter().copied().reduce(of).unwrap_or_default();
        let (first, last) = (fold(f64::min), fold(f64::max));
        let scale_base = self.decay.scale_base * positions.scale();
        let centre =
            self.decay.centre.map_or_else(|| first.midpoint(last), |centre| centre * positions.scale());
        let reach = (last - centre).abs().max((first - centre).abs());
        let slowest = self.decay.zeta.iter().map(|zeta| zeta.ln().abs()).fold(0.0, f64::max);
        let largest = LARGEST_EXPONENT * scale_base / slowest;
        if reach <= largest {
            return Ok(());
        }
        let hint = match self.decay.centre {
            Some(_) => "leave `position.centre` out: the middle of the text is taken",
            None => "evaluate a shorter length, or train with a larger `position.scale_base`",
        };
        Err(Error::usage(format!(
            "`xpos` scales q and k by up to e^{:.0} at {reach} positions from the centre {centre}, which f32 does \
             not hold: at most {largest:.0} positions",
            reach / scale_base * slowest
        ))
        .hint(hint))
    }

    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        let rows = self.decay.zeta.iter().enumerate().map(|(band, &zeta)| {
            // zeta^(n / scale_base) = 1/2.
            let half = self.decay.scale_base * positions.scale() * 0.5f64.ln() / zeta.ln();
            vec![band as f64, zeta, half]
        });
        vec![Summary::new("decay of the bands", &["band", "zeta", "half at distance"], rows.collect())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Inputs, attend, build};

    #[test]
    fn the_centre_does_not_matter() {
        let device = Device::flex();
        let positions = Positions::range(40..49);
        let inputs = Inputs::random("", 9, &device);
        let at = |text: &str| attend(&*build(text, &device), 0, &positions, &inputs).1;
        let near = at("kind = \"xpos\"\nscale_base = 16.0");
        let far = at("kind = \"xpos\"\nscale_base = 16.0\ncentre = 0.0");
        assert!((near - far).abs().max().into_scalar::<f32>() < 1e-5);
    }

    #[test]
    fn what_f32_cannot_hold_is_refused() {
        let xpos = build("kind = \"xpos\"", &Device::flex());
        // 80 x 512 / ln 3.5 = 32695.7 positions on both sides of the middle.
        assert!(xpos.check(&Positions::range(0..65_392)).is_ok());
        assert!(xpos.check(&Positions::range(0..65_394)).is_err());
    }
}
