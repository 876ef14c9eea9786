//! `bam`: a penalty that is a power of the distance of either sign.
//!
//! `logit_ij += -exp(alpha_h) (|n + mu'_h| + eps)^(beta_h)`, n = i - j, `mu' = exp(mu) - exp(-mu)` (Bianchessi et al. 2025,
//! arXiv:2505.22842; ArthurSBianchessi/BAM, `models/bam.py`). alpha, beta `[layers, heads]`, or `[1, heads]` for all layers
//! together (`shared = true`). `exp(alpha)` starts at `ALiBi`'s slopes and beta at 1, so the first step is that of `alibi`. Neither is
//! bounded: with beta below 0 near keys are pushed away and far ones are free, and the own key (n = 0) is all but hidden. mu
//! is 0 as in the paper; with `learned_mu = true`, the authors' script has it, it is trained and starts at 0.
//!
//! The power runs in f32 on a device, from `ln(n + eps)` made in f64: `exp(alpha + beta ln(n + eps))`. The exponent stops at 80, so
//! that no number of the softmax overflows. Interpolated by s, distances are divided by s.

use super::alibi::slopes;
use crate::prelude::*;

/// The largest exponent of the penalty: e^80 is far below the largest f32.
const MOST: f64 = 80.0;

keys! {
    /// Keys of `kind = "bam"`.
    pub struct Config {
        /// One penalty for all layers, in place of one for each.
        pub shared: bool = false,
        /// Train where the penalty is least; 0 and fixed without it.
        pub learned_mu: bool = false,
        /// Added to distances.
        pub eps: f64 = 1e-5,
    }
}

/// The penalties' numbers.
#[derive(Module, Debug)]
pub struct Bam {
    /// `[layers, heads]`, or `[1, heads]` where layers share them.
    pub alpha: Param<Tensor<2>>,
    /// As alpha.
    pub beta: Param<Tensor<2>>,
    /// As alpha, where it is learned.
    pub mu: Option<Param<Tensor<2>>>,
    #[module(skip)]
    config: Config,
}

impl Configure for Config {
    type Encoding = Bam;
    const KIND: &'static str = "bam";
    const DESCRIPTION: &'static str = "a learned penalty, a power of the distance of either sign (BAM)";
    const SOURCE: &'static str = "arXiv:2505.22842";
    const FORMULA: &'static str =
        "a_{mn} = q_m · k_n / √d − exp(c_h) (m − n + 10^{−5})^{g_h}, c_h and g_h learned";
    const PYTORCH: Option<&'static str> = Some(include_str!("bam.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported(
        "defined: a positive power goes on penalising, a negative one leaves far keys free",
    );
    const VARIANTS: &'static [&'static str] = &["shared = true\nlearned_mu = true"];

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        check_positive(section, "eps", self.eps)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Bam {
        let shape = [if self.shared { 1 } else { dimensions.layers }, dimensions.heads];
        let alpha: Vec<f64> = slopes(dimensions.heads).into_iter().map(f64::ln).collect();
        Bam {
            alpha: init.values(shape, &alpha),
            beta: init.constant(shape, 1.0),
            mu: self.learned_mu.then(|| init.constant(shape, 0.0)),
            config: self.clone(),
        }
    }
}

impl DistanceBias for Bam {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let axes: &[&str] = if self.config.shared { &["1", "heads"] } else { &["layers", "heads"] };
        let mu = self.mu.as_ref().map(|_| "mu");
        ["alpha", "beta"].into_iter().chain(mu).map(|name| ParameterSpec::undecayed(name, axes)).collect()
    }

    fn at(&self, layer: usize, distances: &[f64], device: &Device) -> Tensor<2> {
        let of = |parameter: &Param<Tensor<2>>| {
            at_layer::<2, 1>(parameter, if self.config.shared { 0 } else { layer }).unsqueeze_dim::<2>(1) // [heads, 1]
        };
        let logs = if let Some(mu) = &self.mu {
            let mu = of(mu);
            let least = mu.clone().exp() - mu.neg().exp();
            let n = upload(distances, device).unsqueeze::<2>();
            (n + least).abs().add_scalar(self.config.eps).log() // [heads, distances]
        } else {
            let logs: Vec<f64> = distances.iter().map(|n| (n + self.config.eps).ln()).collect();
            upload(&logs, device).unsqueeze::<2>()
        };
        (logs * of(&self.beta) + of(&self.alpha)).clamp_max(MOST).exp().neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bias, build, dimensions, message_of};

    #[test]
    fn it_starts_as_alibi() {
        let device = Device::flex();
        let at = |text: &str| bias(&*build(text, &device), &Positions::range(0..70));
        for (found, expected) in at("kind = 'bam'").iter().zip(at("kind = 'alibi'")) {
            assert!((found - expected).abs() < 2e-5 * (1.0 + expected.abs()), "{found} {expected}");
        }
    }

    #[test]
    fn no_power_leaves_f32() {
        let device = Device::flex();
        let start = Config::default().build(&dimensions(), &Init::new(0, &device));
        for beta in [-40.0, 40.0] {
            let bam = Bam { beta: Param::from_tensor(start.beta.val().mul_scalar(beta)), ..start.clone() };
            let largest = bam.at(0, &[0.0, 1.0, 65_535.0], &device).abs().max().into_scalar::<f32>();
            assert!(largest > 1e30 && largest.is_finite(), "{largest}");
        }
        assert!(message_of("kind = 'bam'\neps = 0.0").contains("position.eps"));
    }
}
