//! The factor of the loss in f16.
//!
//! Many gradients lie below 6e-8, the least f16 above 0. A loss that is multiplied by a factor gives gradients that are
//! as many times larger, and the optimizer divides by it in f32 (Micikevicius et al. 2018, arXiv:1710.03740, section
//! 3.2). The factor is a power of two, so that it changes no digit, and finds its size by itself: it is halved where a
//! gradient overflows, and that step is left out; it is doubled after [`INTERVAL`] steps in a row without one. It
//! depends on nothing but the gradients, and checkpoints hold it, so a resumed run goes on bit for bit.

use longwave_kernels::Precision;
use serde::{Deserialize, Serialize};

const FIRST: f64 = 65_536.0;

/// Steps in a row without an overflow after which the factor is doubled.
pub const INTERVAL: u64 = 2000;

/// The factor of the loss, and how long it has held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    /// What the loss is multiplied by: a power of two, at least 1.
    pub factor: f64,
    /// Steps since the factor changed.
    pub steady: u64,
}

impl LossScale {
    /// The first one of a training in a precision; `None` where it needs none.
    pub fn first(precision: Precision) -> Option<Self> {
        (precision == Precision::F16).then_some(Self { factor: FIRST, steady: 0 })
    }

    /// The scale after a step whose gradients were finite, or not; `None` where they overflow without any factor.
    pub fn after(self, finite: bool) -> Option<Self> {
        let Self { factor, steady } = self;
        match finite {
            true if steady + 1 >= INTERVAL => Some(Self { factor: factor * 2.0, steady: 0 }),
            true => Some(Self { factor, steady: steady + 1 }),
            false if factor >= 2.0 => Some(Self { factor: factor / 2.0, steady: 0 }),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_f16_needs_one() {
        let scaled = Precision::ALL.map(|precision| LossScale::first(precision).is_some());
        assert_eq!(scaled, [false, true, false]);
    }

    #[test]
    fn it_halves_where_gradients_overflow_and_doubles_after_long_calm() {
        let mut scale = LossScale::first(Precision::F16).unwrap();
        for _ in 1..INTERVAL {
            scale = scale.after(true).unwrap();
            assert_eq!(scale.factor, FIRST);
        }
        let doubled = scale.after(true).unwrap();
        assert_eq!(doubled, LossScale { factor: 2.0 * FIRST, steady: 0 });
        // An overflow just before would have begun the count at 0.
        let halved = scale.after(false).unwrap();
        assert_eq!(halved, LossScale { factor: FIRST / 2.0, steady: 0 });
        assert_eq!(halved.after(true).unwrap().factor, FIRST / 2.0);
        let mut halvings = 0;
        let mut scale = Some(doubled);
        while let Some(now) = scale {
            assert!(now.factor >= 1.0 && now.factor.log2().fract() == 0.0);
            scale = now.after(false);
            halvings += 1;
        }
        // 2^17, .., 2^0.
        assert_eq!(halvings, 18);
    }
}
