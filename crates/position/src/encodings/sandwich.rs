//! `sandwich`: the inner product of sinusoidal embeddings as a penalty.
//!
//! `logit_ij += (sum_k cos(n / base^(2k/D)) - D/2) / (8h/H)`, k = 1..D/2, h = 1..H, n = i - j, D = `dim`
//! (Chi et al. 2022, arXiv:2212.10356, equation 7): 0 at distance 0 and never above it. No parameters, the
//! same in every layer, computed in f64. Interpolated by s, every distance is divided by s.

use crate::prelude::*;

keys! {
    /// Keys of `kind = "sandwich"`.
    pub struct Config {
        /// Width of the sinusoid, even; it has nothing to do with the head dimension.
        pub dim: usize = 128,
        /// The base of the geometric progression of frequencies.
        pub base: f64 = 10_000.0,
    }
}

/// The frequencies of the penalty.
#[derive(Module, Debug)]
pub struct Sandwich {
    #[module(skip)]
    inv_freq: Vec<f64>,
    #[module(skip)]
    heads: usize,
}

impl Configure for Config {
    type Encoding = Sandwich;
    const KIND: &'static str = "sandwich";
    const DESCRIPTION: &'static str = "the inner product of sinusoidal embeddings as a penalty (Sandwich)";
    const SOURCE: &'static str = "arXiv:2212.10356";
    const FORMULA: &'static str =
        "a_{mn} = q_m · k_n / √d + H / (8(h + 1)) · Σ_{j=1}^{64} (cos((m − n) b^{−j/64}) − 1), b = 10000";
    const PYTORCH: Option<&'static str> = Some(include_str!("sandwich.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: the penalty goes on growing, about as a logarithm");

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)?;
        check_at_least(section, "dim", self.dim, 2)?;
        if self.dim % 2 == 1 {
            return Err(Error::value(&format!("{section}.dim"), self.dim, "it must be even")
                .hint("the paper uses 128, whatever the model's width"));
        }
        Ok(())
    }

    fn build(&self, dimensions: &Dimensions, _init: &Init) -> Sandwich {
        let half = self.dim / 2;
        // From k = 1, not 0, as published.
        let inv_freq = (1..=half).map(|k| self.base.powf(-(k as f64) / half as f64)).collect();
        Sandwich { inv_freq, heads: dimensions.heads }
    }
}

impl Sandwich {
    /// `sum_k cos(n inv_freq_k) - D/2`.
    fn sum(&self, distance: f64) -> f64 {
        self.inv_freq.iter().map(|f| (distance * f).cos() - 1.0).sum()
    }
}

impl DistanceBias for Sandwich {
    fn at(&self, _layer: usize, distances: &[f64], device: &Device) -> Tensor<2> {
        let sums: Vec<f64> = distances.iter().map(|&n| self.sum(n)).collect();
        let factors: Vec<f64> = (1..=self.heads).map(|h| self.heads as f64 / (8.0 * h as f64)).collect();
        upload(&factors, device).unsqueeze_dim::<2>(1) * upload(&sums, device).unsqueeze::<2>()
    }
}
