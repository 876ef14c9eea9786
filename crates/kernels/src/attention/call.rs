//! The tensors and settings of one call of fused attention.

use super::{Attention, Bias, Shape};
use crate::tape::{Input, values};
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use std::borrow::Cow;

/// One call of attention: its tensors and settings.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) shape: Shape,
    pub(super) q: FlexTensor,
    pub(super) k: FlexTensor,
    pub(super) v: FlexTensor,
    pub(super) bias: BiasTensors,
    pub(super) query_scale: Option<FlexTensor>,
    pub(super) scale: f32,
    pub(super) window: Option<usize>,
    pub(super) sinks: usize,
    pub(super) offset: usize,
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
    /// Takes apart q, k, v and the options; the inputs are q, k, v and the tensors of the bias.
    pub(super) fn new(qkv: [Tensor<4>; 3], options: &Attention, shape: Shape) -> (Self, Vec<Input>) {
        let mut inputs: Vec<Input> = qkv.into_iter().map(Input::new).collect();
        match &options.bias {
            Bias::None => {}
            Bias::ByDistance(table) => inputs.push(Input::new(table.clone())),
            Bias::Slopes(slopes) => inputs.push(Input::new(slopes.clone())),
            Bias::Pair { query, key } => {
                inputs.extend([Input::new(query.clone()), Input::new(key.clone())]);
            }
            Bias::Block(block) => inputs.push(Input::new(block.clone())),
        }
        let data = |index: usize| inputs[index].data().clone();
        let call = Self {
            shape,
            q: data(0),
            k: data(1),
            v: data(2),
            bias: match &options.bias {
                Bias::None => BiasTensors::None,
                Bias::ByDistance(_) => BiasTensors::ByDistance(data(3)),
                Bias::Slopes(_) => BiasTensors::Slopes(data(3)),
                Bias::Pair { .. } => BiasTensors::Pair(data(3), data(4)),
                Bias::Block(_) => BiasTensors::Block(data(3)),
            },
            query_scale: options.query_scale.clone().map(|scale| Input::new(scale).data().clone()),
            scale: options.scale as f32,
            window: options.window,
            sinks: options.sinks,
            offset: options.query_offset,
        };
        (call, inputs)
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
