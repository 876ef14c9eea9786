//! `sinusoidal`: fixed waves added to the token embeddings.
//!
//! `p[m, 2i] = sin(m base^(-2i/width))`, `p[m, 2i+1] = cos(same)`, i = 0..width/2-1;
//! `h = x + scale p` (Vaswani et al. 2017, arXiv:1706.03762, section 3.5). Enters once, before the first
//! block; no parameters.
//!
//! The waves have a root mean square of 0.7, the token embeddings of a fresh model 0.02: with `scale = 1` the
//! positions drown the tokens at the start. Vaswani et al. multiply the embeddings by `sqrt(width)`, which leaves waves
//! 0.7 times as large as tokens; here the waves are scaled, by default to the size of the tokens. With `learned_scale`
//! the factor is trained, from `scale`.

use crate::prelude::*;

/// The scale that makes waves, whose root mean square is 1 / sqrt(2), as large as token embeddings, with 0.02.
const TOKENS: f64 = 0.0283;

keys! {
    /// Keys of `kind = "sinusoidal"`.
    pub struct Config {
        /// The base of the geometric progression of frequencies.
        pub base: f64 = 10_000.0,
        /// Factor on the waves.
        pub scale: f64 = TOKENS,
        /// Train the factor, which starts at `scale`.
        pub learned_scale: bool = false,
    }
}

/// The waves.
#[derive(Module, Debug)]
pub struct Sinusoidal {
    /// The factor on the waves `[1]`, where it is learned.
    pub scale: Option<Param<Tensor<1>>>,
    #[module(skip)]
    frequencies: Frequencies,
    /// The factor where it is fixed; 1 where it is learned.
    #[module(skip)]
    fixed: f64,
}

impl Configure for Config {
    type Encoding = Sinusoidal;
    const KIND: &'static str = "sinusoidal";
    const DESCRIPTION: &'static str = "fixed sine and cosine waves, added to the token embeddings";
    const SOURCE: &'static str = "arXiv:1706.03762, section 3.5";
    const FORMULA: &'static str = "x'_m = x_m + 0.0283 e_m\n\
        e_{m,2i} = sin(m θ_i), e_{m,2i+1} = cos(m θ_i)\n\
        θ_i = b^{−2i/D}, b = 10000";
    const PYTORCH: Option<&'static str> = Some(include_str!("sinusoidal.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the waves go on");
    const VARIANTS: &'static [&'static str] = &["learned_scale = true"];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_base(section, self.base)?;
        if !self.scale.is_finite() {
            return Err(Error::value(&format!("{section}.scale"), self.scale, "it must be a finite number"));
        }
        check_even_width(Self::KIND, ", a sine and a cosine for each frequency", dimensions)
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> Sinusoidal {
        Sinusoidal {
            scale: self.learned_scale.then(|| init.constant([1], self.scale)),
            frequencies: Frequencies::geometric(self.base, dimensions.width),
            fixed: if self.learned_scale { 1.0 } else { self.scale },
        }
    }
}

impl Sinusoidal {
    /// The waves at all positions, `[rows, length, width]`, computed in f64.
    fn waves(&self, positions: &Positions, device: &Device) -> Tensor<3> {
        let angles = self.frequencies.angles(positions.in_text());
        let waves = angles.flat_map(|angle| [angle.sin(), angle.cos()].map(|wave| self.fixed * wave));
        upload_shaped(waves, [positions.rows(), positions.length(), self.frequencies.dim()], device)
    }
}

impl Position for Sinusoidal {
    fn parameters(&self) -> Vec<ParameterSpec> {
        self.scale.iter().map(|_| ParameterSpec::undecayed("scale", &["1"])).collect()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { hidden_use: HiddenUse::Enters, ..Capabilities::default() }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        let waves = self.waves(rows.positions, &hidden.device());
        match &self.scale {
            Some(scale) => hidden + waves * scale.val().unsqueeze::<3>(),
            None => hidden + waves,
        }
    }

    fn frequencies(&self) -> Option<&Frequencies> {
        Some(&self.frequencies)
    }

    fn set_frequencies(&mut self, frequencies: Frequencies) {
        self.frequencies = frequencies;
    }
}
