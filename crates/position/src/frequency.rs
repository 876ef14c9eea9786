//! Frequency tables in f64, and the rotation tables made from them.
//!
//! A position times a frequency is computed on the host in f64 and only cos and sin go to the
//! device, as f32: f32 angles are wrong by 6e-4 rad at position 65,535, and sin on a GPU is only
//! specified near zero.

use crate::positions::Positions;
use crate::upload::upload_shaped;
use burn::tensor::{Device, Tensor, TensorData};
pub use longwave_kernels::Layout;
use longwave_kernels::RotationTable;
use longwave_kernels::device::constant;
use std::borrow::Cow;
use std::f64::consts::TAU;

/// Angular frequencies of the rotated (or sinusoidal) bands, fastest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    /// Radians per position of band i = 0..dim/2-1, before any rounding ([`Frequencies::as_read`]); `base^(-2i/dim)` unless
    /// an extension changed them.
    pub inv_freq: Vec<f64>,
    /// The base they were made with.
    pub base: f64,
    /// Multiplier on cos and sin of both q and k (so logits are multiplied by its square).
    pub attention_factor: f64,
    /// Other frequencies for the first positions, where an extension leaves those as trained.
    pub start: Option<Start>,
    /// Whether positions are read with wavelengths that are rounded to whole tokens, so that angles at whole distances
    /// repeat exactly. Extensions change the frequencies before that.
    pub resonance: bool,
}

/// The frequencies of the first positions of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Positions below this are read with them.
    pub below: f64,
    /// As [`Frequencies::inv_freq`].
    pub inv_freq: Vec<f64>,
}

impl Frequencies {
    /// `inv_freq_i = base^(-2i/dim)`, i = 0..dim/2-1 (Su et al. 2021, arXiv:2104.09864, section 3.2.2;
    /// Vaswani et al. 2017, arXiv:1706.03762, section 3.5).
    pub fn geometric(base: f64, dim: usize) -> Self {
        let inv_freq = (0..dim / 2).map(|i| base.powf(-2.0 * i as f64 / dim as f64)).collect();
        Self { inv_freq, base, attention_factor: 1.0, start: None, resonance: false }
    }

    /// Frequencies in a geometric progression whose first `turning` bands run from `fastest` to `slowest`, both included; the bands behind them
    /// go on with it. Its base is that of a progression with these quotients.
    ///
    /// With `fastest = 1`, `slowest = 2 pi t / L` and every band turning it is [`geometric`](Self::geometric) with the base
    /// `(L / (2 pi t))^(dim / (dim - 2))`. `RoPE-ID` (Wertheimer et al. 2026, arXiv:2603.18017) has both ends of half the bands.
    ///
    /// # Panics
    /// Fewer than two bands turn.
    pub fn between(fastest: f64, slowest: f64, turning: usize, dim: usize) -> Self {
        assert!(turning >= 2, "two ends are two bands");
        let quotient = slowest / fastest;
        let steps = (turning - 1) as f64;
        let inv_freq = (0..dim / 2).map(|band| fastest * quotient.powf(band as f64 / steps)).collect();
        let base = quotient.powf(-(dim as f64) / (2.0 * steps));
        Self { inv_freq, base, attention_factor: 1.0, start: None, resonance: false }
    }

    /// `inv_freq_k = base^(-phi_k)`, `phi_k = 1 - asinh((1 - u_k) sinh tau) / tau`, `u_k = (k + 1/2) / (dim/2)`: more bands at the fast end
    /// as tau grows (EVQ-Cosh, 2026, `evq_cosh_inv_freq` of its repository, the midpoint form). At tau = 0 it is `phi_k = u_k`, a geometric
    /// progression half a band behind [`geometric`](Self::geometric).
    pub fn cosh(base: f64, dim: usize, tau: f64) -> Self {
        let bands = dim / 2;
        let exponent = |band: usize| {
            let middle = (band as f64 + 0.5) / bands as f64;
            if tau < 1e-8 { middle } else { 1.0 - ((1.0 - middle) * tau.sinh()).asinh() / tau }
        };
        let inv_freq = (0..bands).map(|band| base.powf(-exponent(band))).collect();
        Self { inv_freq, base, attention_factor: 1.0, start: None, resonance: false }
    }

    /// The base of a progression with the quotients of these, where they fall by one quotient from band to band, but for those that are 0.
    pub fn base_of_quotients(&self) -> Option<f64> {
        let mut turning = self.inv_freq.iter().enumerate().filter(|(_, frequency)| **frequency > 0.0);
        let ((first, fastest), (next, other)) = (turning.next()?, turning.next()?);
        let quotient = (other / fastest).powf(1.0 / (next - first) as f64);
        let is_in = |(band, frequency): (usize, &f64)| {
            (frequency / (fastest * quotient.powf((band - first) as f64)) - 1.0).abs() < 1e-9
        };
        (quotient < 1.0 && turning.all(is_in)).then(|| quotient.powf(-(self.inv_freq.len() as f64)))
    }

    /// Whether the bands that turn have the frequencies of [`geometric`](Self::geometric), with a factor of 1 on cos and sin.
    pub fn is_geometric(&self) -> bool {
        let plain = Self::geometric(self.base, self.dim());
        let same = |(f, plain): (&f64, &f64)| *f == 0.0 || (f / plain - 1.0).abs() < 1e-9;
        self.inv_freq.iter().zip(&plain.inv_freq).all(same) && (self.attention_factor - 1.0).abs() < 1e-9
    }

    /// Rotated dimension: two channels a band.
    pub fn dim(&self) -> usize {
        2 * self.inv_freq.len()
    }

    /// The angle of every band at every position: `[positions, dim / 2]`, row-major.
    pub fn angles<'a>(&'a self, positions: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let read = self.as_read();
        let start = self.start.as_ref().map(|start| (start.below, self.rounded(&start.inv_freq)));
        positions.iter().flat_map(move |&position| {
            let inv_freq = match &start {
                Some((below, first)) if position < *below => first,
                _ => &read,
            };
            inv_freq.iter().map(|f| position * f).collect::<Vec<_>>()
        })
    }

    /// cos and sin of the angles, without the factor on them: `[rows, 1, length, dim / 2]` each.
    pub(crate) fn waves(&self, positions: &Positions, device: &Device) -> [Tensor<4>; 2] {
        let shape = [positions.rows(), 1, positions.length(), self.inv_freq.len()];
        [f64::cos as fn(f64) -> f64, f64::sin]
            .map(|wave| upload_shaped(self.angles(positions.in_text()).map(wave), shape, device))
    }

    /// The frequencies that positions are multiplied with: [`inv_freq`](Self::inv_freq), or with `resonance`
    /// `2 pi / round(2 pi / inv_freq_i)`, a whole number of tokens for each turn (Wang et al. 2024,
    /// arXiv:2403.00071, for every band). A band at 0 stays at 0.
    pub fn as_read(&self) -> Cow<'_, [f64]> {
        self.rounded(&self.inv_freq)
    }

    fn rounded<'a>(&self, inv_freq: &'a [f64]) -> Cow<'a, [f64]> {
        if !self.resonance {
            return Cow::Borrowed(inv_freq);
        }
        let round = |&f: &f64| if f == 0.0 { 0.0 } else { TAU / whole_wavelength(f) };
        inv_freq.iter().map(round).collect()
    }

    /// The same with cos and sin multiplied by a factor more.
    #[must_use]
    pub fn amplified(self, factor: f64) -> Self {
        Self { attention_factor: self.attention_factor * factor, ..self }
    }

    /// Every frequency through a function of the band and the frequency.
    #[must_use]
    pub fn map(&self, function: impl Fn(usize, f64) -> f64) -> Self {
        let map =
            |inv_freq: &[f64]| inv_freq.iter().enumerate().map(|(band, &f)| function(band, f)).collect();
        Self {
            inv_freq: map(&self.inv_freq),
            start: self.start.as_ref().map(|start| Start { inv_freq: map(&start.inv_freq), ..*start }),
            ..*self
        }
    }
}

/// Pairs of channels, one of each half, turned: `(a, b) -> (a cos - b sin, a sin + b cos)`, x `[batch, heads, rows, channels]`, cos and
/// sin `[.., bands]`. Channels behind the pairs stay.
pub(crate) fn turn_halves(x: Tensor<4>, cos: Tensor<4>, sin: Tensor<4>) -> Tensor<4> {
    let (bands, channels) = (cos.dims()[3], x.dims()[3]);
    let [a, b] = [0..bands, bands..2 * bands].map(|half| x.clone().slice_dim(3, half));
    let turned = [a.clone() * cos.clone() - b.clone() * sin.clone(), a * sin + b * cos];
    let rest = (2 * bands < channels).then(|| x.slice_dim(3, 2 * bands..channels));
    Tensor::cat(turned.into_iter().chain(rest).collect(), 3)
}

/// The tokens of a turn at a frequency, rounded. Below 2 there is no rotation left: at 1 every token has the same angle, and 0 is no
/// wavelength.
fn whole_wavelength(frequency: f64) -> f64 {
    (TAU / frequency).round_ties_even()
}

/// Why the wavelengths of bands up to `fastest` cannot be rounded, if so.
pub(crate) fn resonance_obstacle(fastest: f64) -> Option<String> {
    let tokens = whole_wavelength(fastest);
    (tokens < 2.0).then(|| {
        format!(
            "wavelength of {:.3} tokens to {tokens}, and it must be 2 at least: at 1 every token has the same angle",
            TAU / fastest
        )
    })
}

/// How many bands a share of them is, fastest first: 0.7 of 10 bands are 7, whatever its binary form.
pub(crate) fn share_of_bands(share: f64, bands: usize) -> usize {
    (share * bands as f64 + 1e-9).floor() as usize
}

/// Which of q and k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Queries.
    Query,
    Key,
}

/// Growth of q and decay of k over positions, band by band (xPos): q is multiplied by
/// `zeta_i^((m - centre) / scale_base)`, k by its inverse. q.k does not depend on the centre.
#[derive(Clone, Debug, PartialEq)]
pub struct Decay {
    /// The factor of each band over `scale_base` positions, in (0, 1].
    pub zeta: Vec<f64>,
    /// Positions over which a band decays by its zeta.
    pub scale_base: f64,
    /// The position where q and k keep their size; the middle of the keys that are read unless given.
    pub centre: Option<f64>,
}

impl Decay {
    fn factor(&self, band: usize, position: f64, side: Side) -> f64 {
        let exponent = (position - self.centre.unwrap_or_default()) / self.scale_base;
        self.zeta[band].powf(if side == Side::Query { exponent } else { -exponent })
    }
}

/// How q and k are rotated: described, so that the model can choose the fused kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    /// Frequencies of the rotated channels.
    pub frequencies: Frequencies,
    /// Which channels make a pair.
    pub layout: Layout,
    /// Scales over positions, the inverse of each other for q and k.
    pub decay: Option<Decay>,
}

impl Rotation {
    /// A rotation without scales.
    pub fn new(frequencies: Frequencies, layout: Layout) -> Self {
        Self { frequencies, layout, decay: None }
    }

    /// The same rotation for positions that are divided by `scale`: its frequencies are divided already.
    #[must_use]
    pub fn over(mut self, scale: f64) -> Self {
        if let Some(decay) = &mut self.decay {
            decay.scale_base *= scale;
            decay.centre = decay.centre.map(|centre| centre * scale);
        }
        self
    }

    /// The same rotation, its scales centred on the middle of these positions unless they have a centre.
    #[must_use]
    pub fn centred(mut self, positions: &Positions) -> Self {
        if let Some(decay) = &mut self.decay {
            let fold =
                |of: fn(f64, f64) -> f64| positions.in_text().iter().copied().reduce(of).unwrap_or_default();
            decay.centre = decay.centre.or_else(|| Some(fold(f64::min).midpoint(fold(f64::max))));
        }
        self
    }

    /// cos and sin for q or k at the given positions, each `[rows, length, dim / 2]`.
    pub fn table(&self, positions: &Positions, side: Side, device: &Device) -> RotationTable {
        let bands = self.frequencies.inv_freq.len();
        let shape = [positions.rows(), positions.length(), bands];
        let upload = |values: Vec<f32>| constant(TensorData::new(values, shape), device);
        let factor = |index: usize| match &self.decay {
            Some(decay) => decay.factor(index % bands, positions.in_text()[index / bands], side),
            None => 1.0,
        };
        let (cos, sin) = self
            .frequencies
            .angles(positions.in_text())
            .enumerate()
            .map(|(index, angle)| {
                let factor = self.frequencies.attention_factor * factor(index);
                ((factor * angle.cos()) as f32, (factor * angle.sin()) as f32)
            })
            .unzip();
        RotationTable { cos: upload(cos), sin: upload(sin), layout: self.layout }
    }

    /// The tables of q and k at the same positions.
    pub fn tables(&self, positions: &Positions, device: &Device) -> [RotationTable; 2] {
        let centred = self.clone().centred(positions);
        [Side::Query, Side::Key].map(|side| centred.table(positions, side, device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_progression_make_its_base() {
        // The slowest of 16 bands turns twice in 128 tokens.
        let slowest = 2.0 * TAU / 128.0;
        let ends = Frequencies::between(1.0, slowest, 16, 32);
        assert!((ends.base - (1.0 / slowest).powf(32.0 / 30.0)).abs() < 1e-9 && ends.is_geometric());
        assert!((ends.inv_freq[15] / slowest - 1.0).abs() < 1e-12);
        let half = Frequencies::between(0.2, 0.05, 3, 12);
        assert!(
            half.inv_freq
                .iter()
                .zip([0.2, 0.1, 0.05])
                .all(|(f, expected)| (f / expected - 1.0).abs() < 1e-12)
        );
        assert!((half.base - 2.0f64.powi(6)).abs() < 1e-9, "neighbours differ by base^(2/12)");
        assert!(Frequencies::between(0.2, 0.2, 4, 8).inv_freq.iter().all(|f| (f - 0.2).abs() < 1e-15));
    }

    #[test]
    fn a_spacing_has_more_bands_at_the_fast_end() {
        let midpoints = Frequencies::cosh(1e4, 8, 0.0);
        let expected = [1, 3, 5, 7].map(|odd| 1e4f64.powf(-f64::from(odd) / 8.0));
        assert!(midpoints.inv_freq.iter().zip(expected).all(|(f, e)| (f / e - 1.0).abs() < 1e-12));
        let near = Frequencies::cosh(1e4, 8, 1e-4);
        assert!(near.inv_freq.iter().zip(&midpoints.inv_freq).all(|(f, e)| (f / e - 1.0).abs() < 1e-7));
        let spaced = Frequencies::cosh(1e4, 8, 2.0);
        assert!(spaced.inv_freq.iter().zip(&midpoints.inv_freq).all(|(f, e)| f > e));
        assert!(spaced.inv_freq.is_sorted_by(|fast, slow| fast > slow) && !spaced.is_geometric());
    }

    #[test]
    fn the_first_positions_may_be_read_otherwise() {
        let trained = Frequencies::geometric(1e4, 4);
        let start = Some(Start { below: 2.0, inv_freq: trained.inv_freq.clone() });
        let slower = Frequencies { start, ..trained.map(|_, f| f / 4.0) };
        let angles: Vec<f64> = slower.angles(&[1.0, 2.0]).collect();
        assert_eq!(angles, [1.0, 0.01, 0.5, 0.005]);
    }

    #[test]
    fn rounded_wavelengths_repeat_and_scale_before_rounding() {
        let rounded = Frequencies { resonance: true, ..Frequencies::geometric(1e4, 8) };
        let wavelengths = |read: &Frequencies| read.as_read().iter().map(|f| TAU / f).collect::<Vec<_>>();
        let close = |found: Vec<f64>, expected: [f64; 4]| {
            assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-9), "{found:?}");
        };
        close(wavelengths(&rounded), [6.0, 63.0, 628.0, 6283.0]);
        // 6.28 / 0.4 = 15.7, where 6 / 0.4 would be 15.
        close(wavelengths(&rounded.map(|_, f| 0.4 * f)), [16.0, 157.0, 1571.0, 15_708.0]);
        let turns = |position: f64| rounded.angles(&[position]).map(|angle| angle / TAU).collect::<Vec<_>>();
        let (turned, again) = (turns(5.0), turns(5.0 + 63.0));
        assert!((again[1] - turned[1] - 1.0).abs() < 1e-12, "one turn in 63 tokens");
        // Bands that are not rotated stay so, and the first positions are rounded too.
        let start = Some(Start { below: 1.5, inv_freq: vec![1.0, 0.0, 0.0, 0.0] });
        let still = Frequencies { start, ..rounded.map(|_, _| 0.0) };
        assert_eq!(
            still.angles(&[1.0, 2.0]).collect::<Vec<_>>(),
            [TAU / 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        );
    }

    #[test]
    fn tables_are_exact_far_out() {
        let rotation = Rotation::new(Frequencies::geometric(1e4, 64), Layout::Half);
        let table = rotation.table(&Positions::range(65_535..65_536), Side::Query, &Device::flex());
        let cos = table.cos.into_data().try_to_vec::<f32>().unwrap();
        for (band, cos) in cos.iter().enumerate() {
            let angle = 65_535.0 * rotation.frequencies.inv_freq[band];
            assert!((f64::from(*cos) - angle.cos()).abs() < 1e-7);
        }
    }
}
