//! `complex_order`: each token is a wave, and its position the time.
//!
//! For token a at position m, `real_c = r[a, c] cos(w[a, c] m + th[a, c])`, `imag_c` the same with sin (Wang et
//! al. 2020, arXiv:1912.12333, equation 6): amplitude, frequency and phase of every token are learned, r, w,
//! th `[vocab_size, width / 2]`. The hidden state becomes `[real | imag]`, in place of the token embedding, whose table only a
//! tied head reads (`model.tied`): without one it is stored, and not counted among the model's parameters.
//! Enters once, before the first block.
//!
//! The layers that follow read the two halves as channels, or, with `complex = true`, as real and imaginary part:
//! every linear map of the model is then tied as a complex one, `[x_r | x_i] [[A, B], [-B, A]]` with half as many
//! numbers (section 3.2 of the paper; see `longwave_model::field`). Each head holds both parts of its channels, so
//! that q.k is the real part of the complex inner product; the published code takes the absolute value of
//! the product without conjugation, which loses sign and phase.
//!
//! `share_amplitude`, `share_frequency` and `share_phase` let the words share a table's rows (`"words"`: one number
//! for each channel) or the channels its columns (`"channels"`: one number for each word), which the paper calls word-
//! and dimension-sharing.
//!
//! r starts as N(0, 0.02), the phases uniform on the circle, the frequencies as the sinusoidal ones (their
//! geometric mean where channels share one). They are learned, so angles are f32: at an angle of 1000 rad
//! they are right to 6e-5 rad. Interpolated by s, positions are divided by s.

use crate::prelude::*;
use std::f64::consts::PI;

/// What shares the numbers of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Nothing: a number for each word and channel.
    #[default]
    None,
    /// All words: a number for each channel.
    Words,
    /// All channels: a number for each word.
    Channels,
}

impl Share {
    /// The shape of a table of `[words, channels]`.
    fn shape(self, [words, channels]: [usize; 2]) -> [usize; 2] {
        match self {
            Self::None => [words, channels],
            Self::Words => [1, channels],
            Self::Channels => [words, 1],
        }
    }
}

/// Where the phases of `complex_order` start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InitPhase {
    /// Uniform on the circle.
    #[default]
    Uniform,
    /// At 0, as in the published code.
    Zero,
}

keys! {
    /// Keys of `kind = "complex_order"`.
    pub struct Config {
        /// What shares the amplitudes.
        pub share_amplitude: Share = Share::default(),
        /// What shares the frequencies.
        pub share_frequency: Share = Share::default(),
        /// What shares the phases.
        pub share_phase: Share = Share::default(),
        /// Where the phases start.
        pub init_phase: InitPhase = InitPhase::default(),
        /// Ties every linear map of the model as a complex one.
        pub complex: bool = false,
    }
}

/// The waves of every token.
#[derive(Module, Debug)]
pub struct ComplexOrder {
    /// Amplitudes `[vocab_size, width / 2]`; 1 in place of what shares them, here and below.
    pub r: Param<Tensor<2>>,
    /// Frequencies `[vocab_size, width / 2]`, radians per position.
    pub w: Param<Tensor<2>>,
    /// Phases `[vocab_size, width / 2]`.
    pub th: Param<Tensor<2>>,
    #[module(skip)]
    complex: bool,
    /// 1 over the last position of training, which multiplies the frequencies.
    #[module(skip)]
    unit: f64,
}

impl Configure for Config {
    type Encoding = ComplexOrder;
    const KIND: &'static str = "complex_order";
    const DESCRIPTION: &'static str = "each token is a wave and its position the time (complex order)";
    const SOURCE: &'static str = "arXiv:1912.12333";
    const FORMULA: &'static str = "x'_{m,i} = c_i cos(m θ_i + φ_i), x'_{m,D/2+i} = c_i sin(m θ_i + φ_i), for i < D/2\n\
        c, θ and φ learned for each token, in place of its embedding";
    const PYTORCH: Option<&'static str> = Some(include_str!("complex_order.py"));
    const EXTRAPOLATION: Extrapolation = Extrapolation::Supported("defined: the waves go on");
    const VARIANTS: &'static [&'static str] = &[
        "complex = true\nshare_frequency = 'words'\nshare_phase = 'channels'",
        "share_amplitude = 'channels'\nshare_frequency = 'channels'",
    ];

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        check_even_width(Self::KIND, ", half of it real and half imaginary", dimensions)?;
        if self.complex && dimensions.head_dim % 2 == 1 {
            return Err(Error::value(
                &format!("{section}.complex"),
                true,
                format!("each head must hold both parts of its channels, and has {}", dimensions.head_dim),
            )
            .hint("choose `model.heads`, `model.width` or `model.head_dim` so that it is even"));
        }
        Ok(())
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> ComplexOrder {
        let shape = [dimensions.vocab_size, dimensions.width / 2];
        let [r, w, th] =
            [self.share_amplitude, self.share_frequency, self.share_phase].map(|share| share.shape(shape));
        let mut frequencies = Frequencies::geometric(1e4, dimensions.width).inv_freq;
        if w[1] == 1 {
            let logarithms: f64 = frequencies.iter().map(|f| f.ln()).sum();
            frequencies = vec![(logarithms / frequencies.len() as f64).exp()];
        }
        ComplexOrder {
            r: init.normal("position.complex_order.r", r, 0.02),
            w: init.values(w, &frequencies),
            th: match self.init_phase {
                InitPhase::Uniform => init.uniform("position.complex_order.th", th, [-PI, PI]),
                InitPhase::Zero => init.constant(th, 0.0),
            },
            complex: self.complex,
            unit: 1.0 / dimensions.train_length as f64,
        }
    }
}

/// What the axes of a table count, some of them shared.
fn axes([words, channels]: [usize; 2]) -> &'static [&'static str] {
    match (words, channels) {
        (1, 1) => &["1", "1"],
        (1, _) => &["1", "width/2"],
        (_, 1) => &["vocab_size", "1"],
        _ => &["vocab_size", "width/2"],
    }
}

impl Position for ComplexOrder {
    fn parameters(&self) -> Vec<ParameterSpec> {
        let tables = [&self.r, &self.w, &self.th].map(|table| axes(table.lazy_shape().dims()));
        let [r, w, th] = tables;
        // Amplitudes are the embeddings of the tokens; frequencies and phases are angles.
        vec![
            ParameterSpec::decayed("r", r),
            ParameterSpec::undecayed("w", w).in_units_of(self.unit),
            ParameterSpec::undecayed("th", th),
        ]
    }

    fn capabilities(&self) -> Capabilities {
        let hidden_use = if self.complex { HiddenUse::ReplacesByComplex } else { HiddenUse::Replaces };
        Capabilities { hidden_use, ..Capabilities::default() }
    }

    fn embed(&self, hidden: Tensor<3>, rows: Rows<'_>, _before: &mut Option<Tensor<3>>) -> Tensor<3> {
        if rows.layer > 0 {
            return hidden;
        }
        let [batch, length] = rows.tokens.dims();
        let positions = rows.positions;
        let tokens = rows.tokens.clone().reshape([batch * length]);
        let [r, w, th] = [&self.r, &self.w, &self.th].map(|table| {
            let [words, channels] = table.dims();
            match words {
                1 => table.val().reshape([1, 1, channels]),
                _ => table.val().select(0, tokens.clone()).reshape([batch, length, channels]),
            }
        });
        let times = upload(positions.values(), &hidden.device()).reshape([positions.rows(), length, 1]);
        let angle = w * times + th;
        let [real, imaginary] = [angle.clone().cos(), angle.sin()].map(|wave| r.clone() * wave);
        let half = [batch, length, hidden.dims()[2] / 2];
        Tensor::cat(vec![real.expand(half), imaginary.expand(half)], 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, dimensions, random};

    #[test]
    fn shared_tables_are_full_ones_with_equal_entries() {
        let device = Device::flex();
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(vec![3i64, 0, 3, 7], [1, 4]), &device);
        let positions = Positions::range(5..9);
        let rows = Rows::new(0, &tokens, &positions);
        let hidden = random::<3>("h", [1, 4, dimensions().width], &device);
        let shape = [dimensions().vocab_size, dimensions().width / 2];
        for shares in ["amplitude", "frequency", "phase"] {
            for by in ["words", "channels"] {
                let text = format!("kind = \"complex_order\"\nshare_{shares} = \"{by}\"");
                let shared = build(&text, &device);
                let shared = shared.get::<ComplexOrder>().unwrap();
                let [r, w, th] = [&shared.r, &shared.w, &shared.th]
                    .map(|table| Param::from_tensor(table.val().expand(shape)));
                assert!(shared.r.dims() != shape || shared.w.dims() != shape || shared.th.dims() != shape);
                let full = ComplexOrder { r, w, th, complex: false, unit: 1.0 };
                let off: f32 = (shared.embed(hidden.clone(), rows, &mut None)
                    - full.embed(hidden.clone(), rows, &mut None))
                .abs()
                .max()
                .into_scalar();
                assert!(off == 0.0, "{text}: {off}");
            }
        }
    }
}
