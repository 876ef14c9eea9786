//! The launches of the kernels, as operations of a backend: so they can take their place among those that
//! burn's fusion holds back.

#[cfg(feature = "fusion")]
use super::Kind;
use super::WIDEST;
use super::backward::backward_kernel;
use super::call::{CUBES, Call, Gradients, Inputs, Results};
#[cfg(feature = "fusion")]
use super::call::{GradientsMetadata, InputsMetadata, ResultsMetadata, bias_shapes};
use super::forward::forward_kernel;
use super::launches::{Backward, Launches, UNITS_OF_PIECE, UNITS_OF_TILE, launch_reading, swapped};
use super::plan::{Tiles, tiles};
use super::split::{merge_pieces_kernel, piece_kernel};
use super::target::TargetLaunch;
use crate::Precision;
use crate::attention::Shape;
use crate::machine::gpu::{client, empty, grid, launch, linear};
use crate::op::Any;
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

/// Buffers of the kernel that has most, with that of the sizes.
const BUFFERS: u32 = 16;

/// The tiles of the device that q lies on, if the kernels can compute this there.
pub(in crate::attention) fn supports(q: &Any, shape: &Shape, precision: Precision) -> Option<Tiles> {
    let client = client(q)?;
    let hardware = &client.properties().hardware;
    let Shape { batch, heads, queries, keys, head_dim, value_dim, .. } = *shape;
    let widths = 1..=WIDEST;
    let sizes = widths.contains(&head_dim) && widths.contains(&value_dim) && batch > 0 && queries > 0;
    let tiles = tiles(client.properties(), head_dim.max(value_dim), precision)?;
    let cubes = queries.div_ceil(tiles.side) + keys.div_ceil(tiles.side);
    let fits = batch.max(heads) <= CUBES && cubes <= CUBES;
    (sizes && fits && hardware.max_bindings >= BUFFERS).then_some(tiles)
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
                linear(&output), linear(&log_sums), launches.plan.half(),
            );
        }
        (swapped(output), log_sums)
    }

    fn backward(inputs: Inputs<Self>, results: Results<Self>, call: Call) -> Gradients<Self> {
        let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = call.shape;
        let q = empty(&inputs.q, [batch, heads, queries, head_dim]);
        let k = empty(&inputs.q, [batch, key_heads, keys, head_dim]);
        let v = empty(&inputs.q, [batch, key_heads, keys, value_dim]);
        let pass = Backward::new(inputs, results, call);
        let Backward { launches, results, biases: [first_bias, second_bias] } = &pass;
        launch_reading!(
            backward_kernel, launches, pass.cubes(), UNITS_OF_TILE, [launches.width, launches.plan.part()];
            results.upstream(launches.width),
            linear(&results.output),
            TargetLaunch::new(linear(&q), linear(&k), linear(&v)),
            linear(first_bias),
            linear(second_bias),
            call.query_tiles(),
            launches.plan.half(),
        );
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
