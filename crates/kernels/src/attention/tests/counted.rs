//! Vectors by count against their reference.

use super::*;
use crate::attention::block::pieces::tests::cut_small;
use crate::attention::terms::CountedVectors;

/// Vectors by count beside a case.
#[derive(Clone, Copy, Debug)]
struct Counted {
    positions: usize,
    gate_scale: Option<f64>,
    /// Whether the vectors lie on a line. Other outputs have a kink where a count passes a whole number, and all have
    /// one where counts stop: there a central difference is no slope.
    on_a_line: bool,
}

const COUNTED: Counted = Counted { positions: 6, gate_scale: None, on_a_line: false };

/// Never stops.
const SMOOTH: Counted = Counted { positions: 600, gate_scale: None, on_a_line: true };

impl Counted {
    fn beside(self, case: &Case, kind: BiasKind) -> Beside {
        // Small beside q, since a count of 30 is rounded to 2e-6, which shows where neighbours differ.
        let mut vectors = numbers(30, self.positions * case.shape.head_dim);
        for x in &mut vectors {
            *x *= 0.25;
        }
        if self.on_a_line {
            let direction = numbers(31, case.shape.head_dim);
            for (n, vector) in vectors.chunks_mut(case.shape.head_dim).enumerate() {
                for (x, along) in vector.iter_mut().zip(&direction) {
                    *x = 0.1 * n as f32 * along;
                }
            }
        }
        let shape = [self.positions, case.shape.head_dim];
        case.beside(kind, vec![vectors], move |own| {
            CountedVectors { vectors: own[0].clone().reshape(shape), gate_scale: self.gate_scale }.into()
        })
    }

    #[track_caller]
    fn check(self, case: &Case, kind: BiasKind) {
        let beside = self.beside(case, kind);
        let check = if self.on_a_line { Beside::check } else { Beside::check_with_kinks };
        check(&beside, &format!("{self:?}"));
    }
}

/// With slopes that a central difference shows, and with kinks.
#[track_caller]
fn check(case: &Case, kind: BiasKind) {
    SMOOTH.check(case, kind);
    COUNTED.check(case, kind);
    Counted { positions: 30, ..COUNTED }.check(case, kind);
}

#[test]
fn counts_that_stop_early_late_and_never() {
    for positions in [1, 2, 3, 15, 16, 17, 64] {
        for gate_scale in [None, Some(0.3), Some(-2.0)] {
            Counted { positions, gate_scale, ..COUNTED }.check(&PLAIN, BiasKind::None);
        }
    }
}

#[test]
fn counts_beside_every_bias() {
    for kind in BIAS_KINDS {
        check(&PLAIN, kind);
    }
}

/// Sinks are read past the keys between, which are hidden and counted.
#[test]
fn counts_in_every_case() {
    for (case, kind) in short_cases() {
        check(&case, kind);
    }
    for (case, kinds) in cases().into_iter().filter(|(case, _)| case.shape.keys > 70) {
        COUNTED.check(&case, kinds[0]);
    }
}

/// Gates that are 1 in f32 count whole numbers, where both neighbours are one vector.
#[test]
fn whole_counts_have_no_slope() {
    let counted = Counted { gate_scale: Some(1e9), ..COUNTED }.beside(&PLAIN, BiasKind::None);
    let read = |inputs: &[Tensor<1>]| {
        let ([q, k, v], options) = counted.call(inputs);
        let ones = |x: Tensor<4>| x.abs().add_scalar(0.5);
        attention(ones(q), ones(k), v, &options)
    };
    let (device, inputs) = (Device::flex(), counted.inputs());
    let expected = differentiate(&device, &inputs, |x| by_reference(|| read(x)));
    assert_alike("whole counts", &differentiate(&device, &inputs, read), &expected, ROUNDING);
}

#[test]
fn the_log_sums_have_a_gradient() {
    let case = Case { window: Some(12), sinks: 2, ..PLAIN };
    SMOOTH.beside(&case, BiasKind::None).check_range(&Device::flex(), 0..usize::MAX);
}

#[test]
fn threads_change_no_bit_of_counts() {
    let case = Case { shape: Shape { queries: 90, keys: 90, ..PLAIN.shape }, ..PLAIN };
    COUNTED.beside(&case, BiasKind::None).check_threads();
}

#[test]
#[should_panic(expected = "counted vectors in a range of distances")]
fn a_range_of_distances_is_rejected() {
    let counted = COUNTED.beside(&PLAIN, BiasKind::None);
    let inputs: Vec<_> = counted.inputs().into_iter().map(|x| flat(x, &Device::flex())).collect();
    let ([q, k, v], options) = counted.call(&inputs);
    attention(q, k, v, &Attention { distances: 1..5, ..options });
}

#[test]
fn counts_in_pieces() {
    let shape =
        Shape { batch: 1, heads: 4, key_heads: 2, queries: 101, keys: 108, head_dim: 4, value_dim: 6 };
    for (window, sinks) in [(None, 0), (Some(30), 3)] {
        cut_small(|| COUNTED.check(&Case { shape, offset: 7, window, sinks, ..PLAIN }, BiasKind::ByDistance));
    }
}
