//! Attention to packed rows against the references of the split and of attention.

use crate::attention::{Attention, Bias, Shape, packed_attention, reference};
use crate::ops::rotary::{self, Heads, Layout, RotationTable};
use crate::testing::{assert_matches_on, flat, numbers, padded, tensor};
use burn::tensor::{Device, Tensor};

/// The sizes and settings of one test.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    length: usize,
    heads: Heads,
    /// The channels of q and of k that are turned, and whether each batch row has its own angles.
    rotated: [usize; 2],
    own_angles: bool,
    layout: Layout,
    window: Option<usize>,
    /// Whether everything comes in rows that lie apart.
    apart: bool,
}

const PLAIN: Case = Case {
    batch: 2,
    length: 37,
    heads: Heads { query: 4, key_value: 2, head_dim: 8 },
    rotated: [8, 8],
    own_angles: false,
    layout: Layout::Half,
    window: None,
    apart: false,
};

const KINDS: [&str; 6] = ["none", "distance", "slopes", "pair", "block", "shared block"];

impl Case {
    fn lay<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if self.apart { padded(x) } else { x }
    }

    /// The table of q (0) or of k (1), which turn by other angles.
    fn table(&self, part: usize, device: &Device) -> Option<RotationTable> {
        let shape = [if self.own_angles { self.batch } else { 1 }, self.length, self.rotated[part] / 2];
        let angle = |index: usize| 0.37 * index as f64 + 0.1 + part as f64;
        let of = |map: fn(f64) -> f64| {
            let values = (0..shape.iter().product()).map(|index| (1.3 * map(angle(index))) as f32).collect();
            self.lay(flat(values, device).reshape(shape))
        };
        (shape[2] > 0).then(|| RotationTable { cos: of(f64::cos), sin: of(f64::sin), layout: self.layout })
    }

    /// The packed rows, and the tensors of the bias.
    fn inputs(&self, kind: &str) -> Vec<Vec<f32>> {
        let Self { batch, length, heads, .. } = *self;
        let rows = heads.query * length;
        let bias = match kind {
            "none" => vec![],
            "distance" => vec![rows],
            "slopes" => vec![heads.query],
            "pair" => vec![batch * rows; 2],
            "block" => vec![batch * rows * length],
            _ => vec![rows * length],
        };
        let sizes = [vec![batch * length * heads.packed()], bias].concat();
        (1..).zip(sizes).map(|(seed, size)| numbers(seed, size)).collect()
    }

    fn options(&self, kind: &str, inputs: &[Tensor<1>]) -> Attention {
        let Self { batch, length, heads: Heads { query, head_dim, .. }, .. } = *self;
        let input = |index: usize| inputs[index].clone();
        let bias = match kind {
            "none" => Bias::None,
            "distance" => Bias::ByDistance(self.lay(input(1).reshape([query, length]))),
            "slopes" => Bias::Slopes(input(1)),
            "pair" => Bias::Pair {
                query: self.lay(input(1).reshape([batch, query, length])),
                key: self.lay(input(2).reshape([batch, query, length])),
            },
            "block" => Bias::Block(self.lay(input(1).reshape([batch, query, length, length]))),
            _ => Bias::Block(self.lay(input(1).reshape([1, query, length, length]))),
        };
        let scale = tensor::<2>(50, [batch, length], &inputs[0].device()).add_scalar(1.5);
        Attention { bias, window: self.window, query_scale: Some(scale), ..Attention::causal(head_dim) }
    }

    fn check(&self, device: &Device, kind: &str) {
        let Self { batch, length, heads, .. } = *self;
        let tables = [0, 1].map(|part| self.table(part, device));
        let [q_table, k_table] = tables.each_ref().map(Option::as_ref);
        let packed =
            |inputs: &[Tensor<1>]| self.lay(inputs[0].clone().reshape([batch, length, heads.packed()]).neg());
        assert_matches_on(
            device,
            &format!("{kind} {self:?}"),
            &self.inputs(kind),
            |inputs| packed_attention(packed(inputs), heads, [q_table, k_table], &self.options(kind, inputs)),
            |inputs| {
                let (q, k, v) = rotary::reference::split_rotate(&packed(inputs), heads, q_table, k_table);
                let shape = Shape::of(&q, &k, &v);
                reference::attention([q, k, v], &self.options(kind, inputs), &shape)
            },
        );
    }
}

/// Every bias, layout and choice of what is turned.
pub(in crate::attention) fn all_agree(device: &Device) {
    for kind in KINDS {
        PLAIN.check(device, kind);
    }
    for layout in [Layout::Half, Layout::Interleaved] {
        // All, some and none of the channels; more than one cube's queries; one head.
        Case { layout, length: 70, batch: 1, window: Some(30), ..PLAIN }.check(device, "pair");
        Case { layout, rotated: [4, 8], own_angles: true, ..PLAIN }.check(device, "none");
        Case { layout, rotated: [0, 4], ..PLAIN }.check(device, "none");
        let heads = Heads { query: 1, key_value: 1, head_dim: 64 };
        Case { layout, heads, rotated: [64, 32], batch: 1, ..PLAIN }.check(device, "none");
    }
    Case { rotated: [0, 0], ..PLAIN }.check(device, "distance");
}

/// Channels and lengths that no vector and no tile divides; everything comes in rows that lie apart.
pub(in crate::attention) fn odd_shapes_agree(device: &Device) {
    let apart = Case { apart: true, ..PLAIN };
    let heads = |head_dim: usize| Heads { query: 3, key_value: 1, head_dim };
    for (layout, kind) in [(Layout::Half, "pair"), (Layout::Interleaved, "distance")] {
        Case { layout, length: 1, heads: heads(3), rotated: [2, 2], ..apart }.check(device, kind);
        Case { layout, length: 65, batch: 1, heads: heads(37), rotated: [36, 26], ..apart }
            .check(device, kind);
        Case { layout, length: 9, heads: heads(5), rotated: [4, 0], own_angles: true, ..apart }
            .check(device, kind);
    }
}

#[test]
fn packed_rows_agree_with_the_references() {
    all_agree(&Device::flex());
}

#[test]
fn odd_packed_rows_agree_with_the_references() {
    odd_shapes_agree(&Device::flex());
}
