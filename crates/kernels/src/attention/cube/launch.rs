//! The launches of the kernels, as operations of a backend: so they can take their place among those that
//! burn's fusion holds back.

use super::backward::backward_kernel;
use super::forward::forward_kernel;
use super::launches::{
    Backward, Launches, UNITS_OF_PIECE, UNITS_OF_TILE, launch_backward, launch_reading, swapped,
};
use super::plan::{Turned, side};
use super::split::{FEW, PIECE, merge_pieces_kernel, piece_kernel};
use super::target::ApartLaunch;
use super::{Kind, Plan, SizesLaunch, UNITS_A_SIDE, WIDEST};
use crate::attention::{Attention, Bias, Shape};
use crate::gpu::{client, empty, grid, launch, linear};
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::Tensor;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

/// Cubes along each axis that every device takes.
const CUBES: usize = 65_535;

/// Buffers of the kernel that has most beside the one for packed rows, with that of the sizes.
pub(super) const BUFFERS: u32 = 16;

/// The side of the tiles on the device that q lies on, if the kernels can compute this there.
pub(in crate::attention) fn supports<const D: usize>(q: &Tensor<D>, shape: &Shape) -> Option<usize> {
    let client = client(q)?;
    let hardware = &client.properties().hardware;
    let Shape { batch, heads, queries, keys, head_dim, value_dim, .. } = *shape;
    let widths = 1..=WIDEST;
    let sizes = widths.contains(&head_dim) && widths.contains(&value_dim) && batch > 0 && queries > 0;
    let side = side(hardware, head_dim.max(value_dim))?;
    let fits = batch.max(heads) <= CUBES && queries.div_ceil(side) + keys.div_ceil(side) <= CUBES;
    (sizes && fits && hardware.max_bindings >= BUFFERS).then_some(side)
}

/// The settings of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) shape: Shape,
    pub(super) kind: Kind,
    /// The side of the tiles.
    pub(super) side: usize,
    scale: f32,
    /// Whether there is a scale for each query; another tensor stands in its place if not.
    scaled: bool,
    /// Whether the bias' gradient is wanted.
    pub(super) learned: bool,
    window: Option<usize>,
    sinks: usize,
    pub(super) offset: usize,
    /// The distances that are read, as far as any occurs.
    distances: [usize; 2],
    /// Whether the log sums have a gradient; another tensor stands in its place if not.
    pub(super) log_sums_given: bool,
}

impl Call {
    pub(super) fn new(options: &Attention, shape: Shape, side: usize) -> Self {
        let reach = options.query_offset + shape.queries;
        Self {
            shape,
            kind: match &options.bias {
                Bias::None => Kind::None,
                Bias::ByDistance(_) => Kind::ByDistance,
                Bias::Slopes(_) => Kind::Slopes,
                Bias::Pair { .. } => Kind::Pair,
                Bias::Block(_) => Kind::Block,
            },
            side,
            scale: options.scale as f32,
            scaled: options.query_scale.is_some(),
            learned: false,
            window: options.window,
            sinks: options.sinks,
            offset: options.query_offset,
            // Kernels may count in 32 bits. What no distance reaches is enough, and stays small.
            distances: [options.distances.start, options.distances.end].map(|distance| distance.min(reach)),
            log_sums_given: false,
        }
    }

    #[cfg(feature = "fusion")]
    pub(super) fn output(&self) -> [usize; 4] {
        let Shape { batch, heads, queries, value_dim, .. } = self.shape;
        [batch, heads, queries, value_dim]
    }

    pub(super) fn log_sums(&self) -> [usize; 3] {
        [self.shape.batch, self.shape.heads, self.shape.queries]
    }

    /// The tiles of the queries of a head.
    pub(super) fn query_tiles(&self) -> usize {
        self.shape.queries.div_ceil(self.side)
    }

    /// What the width of a vector divides, so that each unit of a tile has a vector of a row: half of them would wait for the others
    /// where rows of 32 channels are eight vectors.
    pub(super) fn vectors(&self) -> usize {
        let Shape { head_dim, value_dim, .. } = self.shape;
        1 << (head_dim.min(value_dim) / UNITS_A_SIDE).max(1).ilog2()
    }

    /// The pieces into which the keys are cut, where there are few queries and more than one piece.
    fn pieces(&self) -> Option<usize> {
        let Shape { queries, keys, .. } = self.shape;
        let pieces = keys.div_ceil(PIECE);
        (queries <= FEW && pieces > 1 && queries * pieces <= CUBES).then_some(pieces)
    }

    /// What the kernels are compiled for, with vectors of `width`.
    pub(super) fn plan(&self, width: usize) -> Plan {
        let Shape { heads, key_heads, head_dim, value_dim, .. } = self.shape;
        Plan {
            kind: self.kind,
            windowed: self.window.is_some(),
            scaled: self.scaled,
            learned: self.learned,
            ranged: self.distances != [0, self.offset + self.shape.queries],
            log_sums_given: self.log_sums_given,
            side: self.side,
            dim: head_dim / width,
            value_dim: value_dim / width,
            group: heads / key_heads,
            q_turned: Turned::default(),
            k_turned: Turned::default(),
        }
    }

    pub(super) fn sizes(&self, bias: &CubeTensor, query_scale: &CubeTensor) -> SizesLaunch {
        let Shape { heads, queries, keys, .. } = self.shape;
        let shared = |tensor: &CubeTensor| tensor.meta.shape()[0] == 1;
        let bias_shape = bias.meta.shape();
        SizesLaunch::new(
            heads,
            queries,
            keys,
            self.offset,
            // Kernels may count in 32 bits. What no distance and no key reaches is enough, and stays small.
            self.window.unwrap_or(0).min(self.offset + queries),
            self.sinks.min(keys),
            self.distances[0],
            self.distances[1],
            if self.kind == Kind::ByDistance { bias_shape[1] } else { 0 },
            if shared(bias) { 0 } else { heads * queries * keys },
            if shared(query_scale) { 0 } else { queries },
            self.scale,
        )
    }
}

/// The inputs of attention: q `[batch, heads, queries, head_dim]`, k and v `[batch, key_heads, keys, ..]`, the
/// tensors of [`Bias`] and the scale of queries `[1 or batch, queries]`, all f32. Another
/// tensor stands in the place of a missing one.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(super) struct Inputs<B: Backend> {
    pub(super) q: FloatTensor<B>,
    pub(super) k: FloatTensor<B>,
    pub(super) v: FloatTensor<B>,
    pub(super) first_bias: FloatTensor<B>,
    pub(super) second_bias: FloatTensor<B>,
    pub(super) query_scale: FloatTensor<B>,
}

/// The gradients of q, k, v and of the bias: of slopes `[batch, heads, queries]`, yet to be summed; of a table
/// `[heads, distances]`; of a block `[batch, heads, queries, keys]`; of pairs the queries'
/// part and the keys'. What is not there is `[1]`.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(super) struct Gradients<B: Backend> {
    pub(super) q: FloatTensor<B>,
    pub(super) k: FloatTensor<B>,
    pub(super) v: FloatTensor<B>,
    pub(super) first_bias: FloatTensor<B>,
    pub(super) second_bias: FloatTensor<B>,
}

/// The output and the log sums of a call, and their gradients.
#[derive(Clone, Debug, ExtensionType)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(super) struct Results<B: Backend> {
    pub(super) output: FloatTensor<B>,
    pub(super) log_sums: FloatTensor<B>,
    pub(super) output_gradient: FloatTensor<B>,
    pub(super) log_sums_gradient: FloatTensor<B>,
}

/// The shapes of the two parts of a bias' gradient.
pub(super) fn bias_shapes(call: &Call, distances: usize) -> [Vec<usize>; 2] {
    let Shape { batch, heads, queries, keys, .. } = call.shape;
    match call.kind {
        _ if !call.learned => [vec![1], vec![1]],
        Kind::None => [vec![1], vec![1]],
        Kind::ByDistance => [vec![heads, distances], vec![1]],
        Kind::Slopes => [vec![batch, heads, queries], vec![1]],
        Kind::Pair => [vec![batch, heads, queries], vec![batch, heads, keys]],
        Kind::Block => [vec![batch, heads, queries, keys], vec![1]],
    }
}

/// Attention on the GPU.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(super) trait Attend: Backend {
    /// The output `[batch, heads, queries, value_dim]`, and `[batch, heads, queries]`: the logarithm of each row's sum.
    #[fusion(id = "longwave_attention", meta = forward_metadata)]
    fn forward(#[extension_type] inputs: Inputs<Self>, call: Call) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of what was read.
    #[fusion(id = "longwave_attention_backward", meta = backward_metadata)]
    fn backward(
        #[extension_type] inputs: Inputs<Self>,
        #[extension_type] results: Results<Self>,
        call: Call,
    ) -> Gradients<Self>;
}

#[cfg(feature = "fusion")]
fn forward_metadata(inputs: &InputsMetadata, call: &Call) -> (TensorSpec, TensorSpec) {
    let dtype = inputs.q.dtype;
    (TensorSpec::new(call.output().into(), dtype), TensorSpec::new(call.log_sums().into(), dtype))
}

#[cfg(feature = "fusion")]
fn backward_metadata(inputs: &InputsMetadata, _: &ResultsMetadata, call: &Call) -> GradientsMetadata {
    let spec = |shape: Vec<usize>| TensorSpec::new(shape.into(), inputs.q.dtype);
    let distances = if call.kind == Kind::ByDistance { inputs.first_bias.shape[1] } else { 0 };
    let [first_bias, second_bias] = bias_shapes(call, distances).map(spec);
    let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(TensorSpec::clone);
    GradientsMetadata { q, k, v, first_bias, second_bias }
}

impl Attend for CubeBackend {
    fn forward(inputs: Inputs<Self>, call: Call) -> (CubeTensor, CubeTensor) {
        let inputs = inputs.laid_out();
        let Shape { batch, heads, queries, value_dim, .. } = call.shape;
        // So the product that follows reads the heads as one row.
        let output = empty(&inputs.q, [batch, queries, heads, value_dim]);
        let log_sums = empty(&inputs.q, call.log_sums());
        if let Some(pieces) = call.pieces() {
            forward_in_pieces(inputs, call, pieces, &output, &log_sums);
        } else {
            let launches = Launches::new(inputs, call, &[], &[&output], &[call.vectors()]);
            let cubes = launches.cubes(call.query_tiles(), heads);
            launch_reading!(
                forward_kernel, launches, cubes, UNITS_OF_TILE, [launches.width, launches.plan.part()];
                linear(&output), linear(&log_sums),
            );
        }
        (swapped(output), log_sums)
    }

    fn backward(inputs: Inputs<Self>, results: Results<Self>, call: Call) -> Gradients<Self> {
        let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = call.shape;
        let q = empty(&inputs.q, [batch, heads, queries, head_dim]);
        let k = empty(&inputs.q, [batch, key_heads, keys, head_dim]);
        let v = empty(&inputs.q, [batch, key_heads, keys, value_dim]);
        let pass = Backward::new(inputs, results, call, &[]);
        launch_backward!(backward_kernel, pass, ApartLaunch::new(linear(&q), linear(&k), linear(&v)));
        let [first_bias, second_bias] = pass.into_biases();
        Gradients { q, k, v, first_bias, second_bias }
    }
}

/// The output and the log sums of few queries: attention to each piece of the keys, and the pieces put together.
fn forward_in_pieces(
    inputs: Inputs<CubeBackend>,
    call: Call,
    pieces: usize,
    output: &CubeTensor,
    log_sums: &CubeTensor,
) {
    let Shape { batch, heads, queries, value_dim, .. } = call.shape;
    let outputs = empty(&inputs.q, [batch, heads, queries, pieces, value_dim]);
    let piece_log_sums = empty(&inputs.q, [batch, heads, queries, pieces]);
    let launches = Launches::new(inputs, call, &[], &[&outputs], &[]);
    let cubes = launches.cubes(queries * pieces, heads);
    launch_reading!(
        piece_kernel, launches, cubes, UNITS_OF_PIECE, [launches.width];
        linear(&outputs), linear(&piece_log_sums), pieces,
    );
    let value_dim = value_dim / launches.width;
    let count = batch * queries * heads * value_dim;
    let (cubes, dim, address) = grid(count, &[&outputs]);
    // SAFETY: units past the count are idle, and the others stay within the shapes.
    unsafe {
        launch!(
            merge_pieces_kernel,
            &output.client,
            cubes,
            dim,
            address,
            launches.width,
            linear(&outputs),
            linear(&piece_log_sums),
            linear(output),
            linear(log_sums),
            count,
            heads,
            queries,
            pieces,
            value_dim,
        );
    }
}
