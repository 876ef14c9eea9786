//! The tensors and settings of one call of fused attention.

use super::counted::CountedTensor;
use super::op::INPUTS;
use super::pieces::Cut;
use super::relative::RelativeTensors;
use super::{Attention, Bias, Normaliser, QkRange, Shape};
use crate::Precision;
use crate::machine::autodiff::{CpuTensor, values};
use crate::machine::bf16;
use burn_flex::FlexTensor;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// One call of attention: its tensors and settings.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) shape: Shape,
    pub(super) ranges: Vec<QkRange<FlexTensor>>,
    pub(super) v: FlexTensor,
    pub(super) bias: BiasTensors,
    pub(super) relative: RelativeTensors,
    pub(super) counted: Option<CountedTensor>,
    pub(super) query_scale: Option<FlexTensor>,
    pub(super) normaliser: Arc<dyn Normaliser>,
    pub(super) scale: f32,
    pub(super) window: Option<usize>,
    pub(super) sinks: usize,
    pub(super) offset: usize,
    /// Whether the factors of products are rounded to bf16: in that precision, where the processor has dot products of it.
    pub(super) rounded: bool,
    /// How its work is cut.
    pub(super) cut: Cut,
}

/// The tensors of a [`Bias`].
#[derive(Clone, Debug)]
pub(super) enum BiasTensors {
    None,
    ByDistance(FlexTensor),
    Slopes(FlexTensor),
    Pair(FlexTensor, FlexTensor),
    Block(FlexTensor),
}

impl Call {
    /// A call with so many ranges of distances of the inputs, some of which only stand in for missing ones.
    pub(super) fn new(
        inputs: [FlexTensor; INPUTS],
        ranges: Vec<Range<usize>>,
        options: &Attention,
        shape: Shape,
    ) -> Self {
        let [q, k, other_q, other_k, v, first, second, relative @ .., counted] = inputs;
        let of_range = |(distances, (q, k))| QkRange { q, k, distances };
        Self {
            shape,
            ranges: ranges.into_iter().zip([(q, k), (other_q, other_k)]).map(of_range).collect(),
            v,
            bias: match &options.bias {
                Bias::None => BiasTensors::None,
                Bias::ByDistance(_) => BiasTensors::ByDistance(first),
                Bias::Slopes(_) => BiasTensors::Slopes(first),
                Bias::Pair { .. } => BiasTensors::Pair(first, second),
                Bias::Block(_) => BiasTensors::Block(first),
            },
            relative: RelativeTensors::new(&options.relative, relative),
            counted: options.counted.as_ref().map(|given| CountedTensor::new(given, options, counted)),
            query_scale: options.query_scale.clone().map(|scale| CpuTensor::new(scale).into_data()),
            normaliser: Arc::clone(&options.normaliser),
            scale: options.scale as f32,
            window: options.window,
            sinks: options.sinks,
            offset: options.query_offset,
            rounded: options.precision == Precision::Bf16 && bf16::arithmetic() == bf16::Arithmetic::Dot,
            cut: Cut::current(),
        }
    }
}

/// The values of a bias, row-major.
pub(super) enum BiasValues<'a> {
    None,
    /// Each head's table turned around, so that it runs with the keys of a row: `[heads, distances]`.
    ByDistance {
        reversed: Vec<f32>,
        distances: usize,
    },
    Slopes(Cow<'a, [f32]>),
    Pair {
        query: Cow<'a, [f32]>,
        key: Cow<'a, [f32]>,
    },
    Block {
        values: Cow<'a, [f32]>,
        shared: bool,
    },
}

impl<'a> BiasValues<'a> {
    pub(super) fn new(bias: &'a BiasTensors) -> Self {
        match bias {
            BiasTensors::None => Self::None,
            BiasTensors::ByDistance(table) => {
                let distances = table.layout().shape()[1];
                Self::ByDistance { reversed: reversed_rows(&values(table), distances), distances }
            }
            BiasTensors::Slopes(slopes) => Self::Slopes(values(slopes)),
            BiasTensors::Pair(query, key) => Self::Pair { query: values(query), key: values(key) },
            BiasTensors::Block(block) => {
                Self::Block { values: values(block), shared: block.layout().shape()[0] == 1 }
            }
        }
    }
}

/// Each row of `width` values turned around.
pub(super) fn reversed_rows(values: &[f32], width: usize) -> Vec<f32> {
    values.chunks(width.max(1)).flat_map(|row| row.iter().rev().copied()).collect()
}
