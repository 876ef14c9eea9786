//! `hard_alibi`: windows that differ from head to head.
//!
//! Of H heads the first M see few keys: head h, counted from 0, sees those at distances n = i - j of at most h, so head 0
//! sees its own key alone. The other heads see every key, as without positions (Jelassi et al. 2024, arXiv:2402.01032,
//! section 2.2; the authors' `hard_alibi_model.py`). As a bias by distance: 0 where a head sees the key, minus infinity
//! elsewhere. No parameters, the same in every layer. Interpolated by s, every distance is divided by s.

use crate::prelude::*;

keys! {
    /// Keys of `kind = "hard_alibi"`.
    pub struct Config {
        /// Heads that see few keys: the first sees its own key alone, each further one a key more. Half of the heads unless
        /// given.
        pub masked_heads: Option<usize> = None,
    }
}

/// How many heads see few keys.
#[derive(Module, Debug)]
pub struct HardAlibi {
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    masked_heads: usize,
}

impl Configure for Config {
    type Encoding = HardAlibi;
    const KIND: &'static str = "hard_alibi";
    const DESCRIPTION: &'static str = "some heads see the last few tokens alone, the others all (hard-ALiBi)";
    const SOURCE: &'static str = "arXiv:2402.01032";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d, for m − n ≤ h or h ≥ ⌊H/2⌋\n\
        a_{mn} = −∞, for m − n > h and h < ⌊H/2⌋";
    const PYTORCH: Option<&'static str> = Some(include_str!("hard_alibi.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: masked heads see the same everywhere, the others more keys");

    fn validate(&self, section: &str, dimensions: &Dimensions) -> Result<()> {
        match self.masked_heads {
            Some(masked) if masked > dimensions.heads => Err(Error::value(
                &format!("{section}.masked_heads"),
                masked,
                format!("it must be at most `model.heads`, which is {}", dimensions.heads),
            )
            .hint("leave it out: half of the heads are masked then")),
            _ => Ok(()),
        }
    }

    fn build(&self, dimensions: &Dimensions, _init: &Init) -> HardAlibi {
        let heads = dimensions.heads;
        HardAlibi { heads, masked_heads: self.masked_heads.unwrap_or(heads / 2) }
    }
}

impl DistanceBias for HardAlibi {
    fn capabilities(&self) -> Capabilities {
        // The first masked head reads its own key at any distance of the others.
        let position_use = if self.masked_heads > 1 { PositionUse::Distances } else { PositionUse::Order };
        Capabilities { position_use, ..Capabilities::BY_DISTANCE }
    }

    fn at(&self, _layer: usize, distances: &[f64], device: &Device) -> Tensor<2> {
        let hides = |head: usize, n: f64| head < self.masked_heads && n > head as f64;
        let of_head =
            |head| distances.iter().map(move |&n| if hides(head, n) { f64::NEG_INFINITY } else { 0.0 });
        let values: Vec<f64> = (0..self.heads).flat_map(of_head).collect();
        upload(&values, device).reshape([self.heads, distances.len()])
    }

    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        let farthest = |head: usize| (head as f64 * positions.scale()).floor();
        let rows = (0..self.masked_heads).map(|head| vec![head as f64, farthest(head)]);
        vec![Summary::new("masked heads", &["head", "farthest distance"], rows.collect())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bias, build, message_of};

    /// How many keys the last of six rows sees in each of two heads.
    fn seen(text: &str, positions: &Positions) -> Vec<usize> {
        let bias = bias(&*build(text, &Device::flex()), positions);
        assert!(bias.iter().all(|&b| b == 0.0 || b == f32::NEG_INFINITY), "{bias:?}");
        bias.chunks(36).map(|head| head[30..].iter().filter(|&&b| b == 0.0).count()).collect()
    }

    #[test]
    fn each_masked_head_sees_a_key_more() {
        let here = Positions::range(70..76);
        assert_eq!(seen("kind = \"hard_alibi\"", &here), [1, 6]);
        assert_eq!(seen("kind = \"hard_alibi\"\nmasked_heads = 0", &here), [6, 6]);
        assert_eq!(seen("kind = \"hard_alibi\"\nmasked_heads = 2", &here), [1, 2]);
        // Distances of positions, not of rows.
        assert_eq!(seen("kind = \"hard_alibi\"\nmasked_heads = 2", &here.map(|m| m / 2.0)), [1, 3]);
        assert_eq!(seen("kind = \"hard_alibi\"\nmasked_heads = 2", &here.map(|m| m * 1.5)), [1, 1]);
    }

    #[test]
    fn one_masked_head_reads_the_order_alone() {
        let position_use = |text: &str| build(text, &Device::flex()).capabilities().position_use;
        assert_eq!(position_use("kind = \"hard_alibi\"\nmasked_heads = 1"), PositionUse::Order);
        assert_eq!(position_use("kind = \"hard_alibi\"\nmasked_heads = 2"), PositionUse::Distances);
    }

    #[test]
    fn more_masked_heads_than_heads_are_rejected() {
        let message = message_of("kind = \"hard_alibi\"\nmasked_heads = 3");
        assert!(message.starts_with("`position.masked_heads = 3`"), "{message}");
        assert!(message.contains("which is 2") && message.contains("hint:"), "{message}");
    }
}
