//! Vectors by distance: against the reference, under every mask and beside every bias.

use super::*;
use crate::attention::block::pieces::tests::cut_small;
use crate::attention::terms::{RelativeVectors, VectorTable};

/// Which vectors there are: for keys (with or without their bias), queries and values.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is there or not, whatever the others")]
struct Vectors {
    keys: bool,
    bias: bool,
    queries: bool,
    values: bool,
    /// Whether the heads share them.
    shared: bool,
    buckets: fn(usize) -> usize,
}

const ALL: Vectors =
    Vectors { keys: true, bias: true, queries: true, values: true, shared: false, buckets: clipped };

/// As Shaw et al. and He et al. have them.
fn clipped(distance: usize) -> usize {
    distance.min(9)
}

fn own(distance: usize) -> usize {
    distance
}

/// As interpolated distances choose.
fn grouped(distance: usize) -> usize {
    (distance / 3).min(7)
}

fn mixed(distance: usize) -> usize {
    (distance * 5) % 11
}

impl Vectors {
    fn buckets(&self, case: &Case) -> Arc<[u32]> {
        (0..case.offset + case.shape.queries).map(|n| (self.buckets)(n) as u32).collect()
    }

    fn shapes(&self, case: &Case) -> Vec<Vec<usize>> {
        let Shape { heads, head_dim, value_dim, .. } = case.shape;
        let count = self.buckets(case).iter().max().map_or(0, |bucket| *bucket as usize + 1);
        let rows = if self.shared { 1 } else { heads };
        let shapes = [
            (self.keys, vec![rows, count, head_dim]),
            (self.bias, vec![heads, count]),
            (self.queries, vec![rows, count, head_dim]),
            (self.values, vec![rows, count, value_dim]),
        ];
        shapes.into_iter().filter_map(|(is_there, shape)| is_there.then_some(shape)).collect()
    }

    /// The vectors of which these are the numbers.
    fn of(&self, case: &Case, own: &[Tensor<1>]) -> RelativeVectors {
        let mut tensors = own.iter().cloned().zip(self.shapes(case));
        let mut next = || tensors.next().unwrap();
        let table = |(vectors, shape): (Tensor<1>, Vec<usize>)| VectorTable {
            vectors: vectors.reshape([shape[0], shape[1], shape[2]]),
            buckets: self.buckets(case),
        };
        let keys = self.keys.then(|| table(next()));
        let key_bias = self.bias.then(|| {
            let (bias, shape) = next();
            bias.reshape([shape[0], shape[1]])
        });
        let queries = self.queries.then(|| table(next()));
        RelativeVectors { keys, key_bias, queries, values: self.values.then(|| table(next())) }
    }

    fn beside(&self, case: &Case, kind: BiasKind) -> Beside {
        let own = self.shapes(case).into_iter().zip(20..);
        let own = own.map(|(shape, seed)| numbers(seed, shape.iter().product())).collect();
        let (vectors, of) = (*self, *case);
        case.beside(kind, own, move |own| vectors.of(&of, own).into())
    }

    #[track_caller]
    fn check(&self, case: &Case, kind: BiasKind) {
        self.beside(case, kind).check(&format!("{self:?}"));
    }
}

#[test]
fn vectors_of_each_kind_alone() {
    let none = Vectors { keys: false, bias: false, queries: false, values: false, ..ALL };
    let maps: [fn(usize) -> usize; 6] = [clipped, own, grouped, mixed, |_| 0, |distance| 5 - distance.min(5)];
    for shared in [false, true] {
        for buckets in maps {
            let none = Vectors { shared, buckets, ..none };
            Vectors { keys: true, ..none }.check(&PLAIN, BiasKind::None);
            Vectors { keys: true, bias: true, ..none }.check(&PLAIN, BiasKind::None);
            Vectors { queries: true, ..none }.check(&PLAIN, BiasKind::None);
            Vectors { values: true, ..none }.check(&PLAIN, BiasKind::None);
        }
    }
}

#[test]
fn vectors_of_every_kind_together_beside_every_bias() {
    for kind in BIAS_KINDS {
        ALL.check(&PLAIN, kind);
    }
}

#[test]
fn vectors_in_every_case() {
    for (case, kinds) in cases() {
        ALL.check(&case, kinds[0]);
    }
    for (case, kind) in short_cases() {
        Vectors { buckets: own, ..ALL }.check(&case, kind);
        Vectors { buckets: grouped, shared: true, ..ALL }.check(&case, kind);
    }
}

#[test]
fn vectors_in_a_range_of_distances() {
    let shape = Shape { batch: 1, queries: 70, keys: 70, ..PLAIN.shape };
    let case = Case { shape, ..PLAIN };
    for distances in [0..1, 3..9, 12..usize::MAX, 40..50] {
        ALL.beside(&case, BiasKind::None).check_range(&Device::flex(), distances);
    }
}

#[test]
fn threads_change_no_bit_of_vectors() {
    let case = Case { shape: Shape { queries: 90, keys: 90, ..PLAIN.shape }, ..PLAIN };
    ALL.beside(&case, BiasKind::None).check_threads();
}

#[test]
#[should_panic(expected = "36 distances choose among 10 vectors, for 37 distances")]
fn too_few_distances_are_rejected() {
    let all = ALL.beside(&PLAIN, BiasKind::None);
    let inputs: Vec<_> = all.inputs().into_iter().map(|x| flat(x, &Device::flex())).collect();
    let ([q, k, v], mut options) = all.call(&inputs);
    let mut vectors = ALL.of(&PLAIN, &inputs[inputs.len() - all.own.len()..]);
    if let Some(table) = &mut vectors.keys {
        table.buckets = table.buckets[..36].into();
    }
    options.terms = vectors.into();
    attention(q, k, v, &options);
}

#[test]
fn vectors_in_pieces() {
    let shape =
        Shape { batch: 1, heads: 4, key_heads: 2, queries: 101, keys: 108, head_dim: 4, value_dim: 6 };
    for (buckets, window, sinks) in
        [(clipped as fn(usize) -> usize, None, 0), (own, None, 0), (grouped, Some(30), 3)]
    {
        let case = Case { shape, offset: 7, window, sinks, ..PLAIN };
        cut_small(|| Vectors { buckets, ..ALL }.check(&case, BiasKind::ByDistance));
    }
}
