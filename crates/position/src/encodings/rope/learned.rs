//! Learned frequencies of `rope`: one table for each layer, or for each key head of each layer.
//!
//! `inv_freq_i = exp(l_i / 16)`, `l` learned and without decay, from `16 ln inv_freq_i` of the other keys (GRAPE-M, "non-contextual,
//! commuting", Zhang et al. 2025, arXiv:2512.07805, `llama-mha-grape-m-nonctx.py` of model-architectures/GRAPE; the 16 makes steps of the
//! optimizer smaller). Query heads that share a key head turn as it does.
//!
//! Angles are made on the host in f64 from the frequencies as they are, as everywhere. The gradient reaches these by the slope of cos and sin: with
//! `delta = m (inv_freq - [inv_freq])`, where the brackets keep gradients out, `delta` is 0 and `cos - delta sin` is the cosine with its slope.
//!
//! Layers have no frequencies in common, so extensions of frequencies do not apply; `linear` divides the positions.

use super::{Config, Rope};
use crate::frequency::turn_halves;
use crate::prelude::*;
use longwave_kernels::repeat_heads;

/// The logarithm's factor.
const FACTOR: f64 = 16.0;

/// What shares a table of learned frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shared {
    /// The heads of a layer.
    Layer,
    /// The query heads that share a key head.
    Head,
}

impl Shared {
    /// The parameter as it starts: `[layers, 1 or kv_heads, bands]`.
    pub(super) fn parameter(
        self,
        inv_freq: &[f64],
        dimensions: &Dimensions,
        init: &Init,
    ) -> Param<Tensor<3>> {
        let tables = if self == Self::Layer { 1 } else { dimensions.kv_heads };
        let table: Vec<f64> = inv_freq.iter().map(|f| FACTOR * f.ln()).collect();
        init.values([dimensions.layers, tables, inv_freq.len()], &table)
    }
}

impl Config {
    /// Learned frequencies turn every band, in halves.
    pub(super) fn check_learned(&self, section: &str) -> Result<()> {
        if self.learned.is_none() {
            return Ok(());
        }
        let other = [
            ("p", self.p < 1.0, self.p.to_string()),
            ("hope", self.hope, "true".to_owned()),
            ("resonance", self.resonance, "true".to_owned()),
            ("layout", self.layout == Layout::Interleaved, "\"interleaved\"".to_owned()),
        ];
        match other.into_iter().find(|(_, given, _)| *given) {
            None => Ok(()),
            Some((key, _, value)) => {
                let allowed =
                    format!("with `{section}.learned` every band turns, by halves and as it is learned");
                Err(Error::value(&format!("{section}.{key}"), value, allowed)
                    .hint("leave one of the two out"))
            }
        }
    }
}

impl Rope {
    /// `[batch, heads, rows, head_dim]`, turned by learned frequencies.
    pub(super) fn turned(&self, x: Tensor<4>, rows: Rows<'_>) -> Tensor<4> {
        let Some(log_frequencies) = &self.log_frequencies else { return x };
        let device = x.device();
        let heads = x.dims()[1];
        let learned = at_layer::<3, 2>(log_frequencies, rows.layer); // [tables, bands]
        let [tables, bands] = learned.dims();
        let numbers: Vec<f32> = learned.clone().into_data().try_to_vec().unwrap_or_default();
        let inv_freq: Vec<f64> = numbers.iter().map(|l| (f64::from(*l) / FACTOR).exp()).collect();
        let positions = rows.positions.values();
        let (count, length) = (rows.positions.rows(), rows.positions.length());
        let angles = || {
            (0..count).flat_map(|row| {
                let of_row = &positions[row * length..(row + 1) * length];
                inv_freq
                    .chunks(bands)
                    .flat_map(|table| of_row.iter().flat_map(|m| table.iter().map(move |f| m * f)))
            })
        };
        let shape = [count, tables, length, bands];
        let [cos, sin] = [f64::cos as fn(f64) -> f64, f64::sin]
            .map(|wave| upload_shaped(angles().map(wave), shape, &device));
        let frequencies = learned.div_scalar(FACTOR).exp().reshape([1, tables, 1, bands]);
        let still = frequencies.clone() - frequencies.detach();
        let places = upload_shaped(positions.iter().copied(), [count, 1, length, 1], &device);
        let delta = places * still; // [rows, tables, length, bands]
        let (cos, sin) = (cos.clone() - delta.clone() * sin.clone(), sin + delta * cos);
        let [cos, sin] =
            [cos, sin].map(|wave| if tables == 1 { wave } else { repeat_heads(wave, heads / tables) });
        turn_halves(x, cos, sin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::rope::{Config, Rope, Shared};
    use crate::testing::{build, dimensions, message_of, random};
    use longwave_kernels::rotate;

    fn built(config: &Config) -> Rope {
        config.build(&dimensions(), &Init::new(0, &Device::flex()))
    }

    /// The larger of how far q and k are from what is expected of both.
    fn distance(mapped: [Tensor<4>; 2], expected: Tensor<4>) -> f32 {
        let [q, k] = mapped.map(|x| (x - expected.clone()).abs().max().into_scalar::<f32>());
        q.max(k)
    }

    #[test]
    fn they_start_as_rope_and_turn_as_they_are() {
        let device = Device::flex();
        let x = random::<4>("x", [1, dimensions().heads, 5, dimensions().head_dim], &device);
        let tokens = Tensor::zeros([1, 5], &device);
        let positions = Positions::range(1000..1005);
        let rows = Rows::new(1, &tokens, &positions);
        for learned in [Shared::Layer, Shared::Head] {
            for fraction in [1.0, 0.5] {
                let plain = built(&Config { fraction, ..Config::default() });
                let expected = |rope: &Rope, positions: &Positions| {
                    rotate(x.clone(), &rope.rotation(1).unwrap().table(positions, Side::Query, &device))
                };
                let rope = built(&Config { fraction, learned: Some(learned), ..Config::default() });
                assert!(rope.rotation(1).is_none() && rope.frequencies().is_none());
                let mapped = |rope: &Rope, rows| rope.map_heads([x.clone(), x.clone()], [rows; 2]);
                let off = distance(mapped(&rope, rows), expected(&plain, &positions));
                assert!(off < 1e-3, "{learned:?}: {off}");
                // Half as fast, by the parameter and by the positions.
                let halved = positions.map(|m| m / 2.0);
                let slower = rope.log_frequencies.as_ref().unwrap().val() - (16.0 * 2f64.ln());
                let learnt = Rope { log_frequencies: Some(Param::from_tensor(slower)), ..rope.clone() };
                assert!(distance(mapped(&learnt, rows), expected(&plain, &halved)) < 1e-3);
                let interpolated = Rows { positions: &positions.over(2.0), ..rows };
                assert!(distance(mapped(&rope, interpolated), expected(&plain, &halved)) < 1e-3);
            }
        }
    }

    #[test]
    fn each_layer_and_head_has_its_table() {
        let shape = |keys: &str| {
            let rope = build(&format!("kind = 'rope'\n{keys}"), &Device::flex());
            crate::parameter::shapes(&rope)
        };
        let sizes = dimensions();
        let bands = sizes.head_dim / 2;
        let named = |tables| vec![("log_frequencies".to_owned(), vec![sizes.layers, tables, bands])];
        assert_eq!(shape("learned = 'layer'"), named(1));
        assert_eq!(shape("learned = 'head'"), named(sizes.kv_heads));
        assert!(shape("").is_empty());
        for (keys, key) in [
            ("p = 0.5", "position.p"),
            ("hope = true", "position.hope"),
            ("layout = 'interleaved'", "position.layout"),
        ] {
            let message = message_of(&format!("kind = 'rope'\nlearned = 'layer'\n{keys}"));
            assert!(message.contains(key), "{message}");
        }
    }
}
