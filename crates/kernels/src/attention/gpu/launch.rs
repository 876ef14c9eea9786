//! The launches of the kernels.

use super::backward::backward_kernel;
use super::call::{CUBES, Call, Inputs, Launches, launch_reading, swapped};
use super::diagonals::distance_kernel;
use super::forward::forward_kernel;
use super::plan::{Tiles, tiles};
use super::split::{self, merge_pieces_kernel, piece_kernel};
use super::{BiasKind, TargetLaunch, UNITS, UpstreamLaunch, WIDEST};
use crate::Precision;
use crate::attention::options::Attention;
use crate::attention::spec::{Bias, Shape};
use crate::machine::autodiff::{OpTensor, Primitive};
use crate::machine::gpu::{
    client, empty, empty_of, grid, head_strides, launch, linear, rows, strided, zeros,
};
use crate::op::Any;
use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn_cubecl::cubecl::prelude::CubeDim;
use burn_cubecl::kernel::into_contiguous;

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

#[derive(Clone)]
pub(in crate::attention) struct Kept {
    inputs: Inputs,
    output: Primitive,
    log_sums: Primitive,
    call: Call,
}

/// The output `[batch, heads, queries, value_dim]`, and `[batch, heads, queries]`: the logarithm of each row's sum. Of tensors that
/// [`supports`] accepts.
pub(in crate::attention) fn forward(
    [q, k, v]: [Primitive; 3],
    [first_bias, second_bias]: [Primitive; 2],
    options: Attention,
    shape: Shape,
    tiles: Tiles,
) -> ([Primitive; 2], Kept) {
    let scale = options.query_scale.clone().map(|scale| OpTensor::<Cube>::new(scale).into_data());
    let query_scale = scale.unwrap_or_else(|| q.clone());
    let call = Call { options, shape, tiles, learned: false, log_sums_given: false };
    let kept = Inputs { q, k, v, first_bias, second_bias, query_scale };
    let inputs = kept.clone().laid_out();
    let Shape { batch, heads, queries, value_dim, .. } = shape;
    // So the product that follows reads the heads as one row.
    let output = empty(&inputs.q, [batch, queries, heads, value_dim]);
    let log_sums = empty(&inputs.q, [batch, heads, queries]);
    if let Some(pieces) = call.pieces() {
        forward_in_pieces(inputs, &call, pieces, &output, &log_sums);
    } else {
        let launches = Launches::new(inputs, &call, &[], &[&output], &[call.vectors()]);
        let cubes = launches.cubes(call.query_tiles(), heads);
        launch_reading!(
            forward_kernel, launches, cubes, UNITS, [launches.width, launches.plan.part()];
            linear(&output), linear(&log_sums), launches.plan.half(),
        );
    }
    let output = swapped(output);
    ([output.clone(), log_sums.clone()], Kept { inputs: kept, output, log_sums, call })
}

impl Kept {
    /// The gradients of q, k, v and the two tensors of a bias.
    pub(in crate::attention) fn gradients(
        self,
        [output_gradient, log_sums_gradient]: [Option<Primitive>; 2],
        bias_wanted: bool,
    ) -> [Primitive; 5] {
        let Self { inputs, output, log_sums, mut call } = self;
        call.learned = bias_wanted;
        call.log_sums_given = log_sums_gradient.is_some();
        let output_gradient =
            output_gradient.unwrap_or_else(|| Cube::float_mul_scalar(output.clone(), 0.0.into()));
        let log_sums_gradient = log_sums_gradient.unwrap_or_else(|| log_sums.clone());
        let (inputs, output_gradient) = (inputs.laid_out(), rows(output_gradient));
        let [output, log_sums, log_sums_gradient] =
            [swapped(output), log_sums, log_sums_gradient].map(into_contiguous);

        let Shape { batch, heads, key_heads, queries, keys, head_dim, value_dim } = call.shape;
        let q = empty(&inputs.q, [batch, heads, queries, head_dim]);
        let k = empty(&inputs.q, [batch, key_heads, keys, head_dim]);
        let v = empty(&inputs.q, [batch, key_heads, keys, value_dim]);
        let distances =
            if call.kind() == BiasKind::ByDistance { inputs.first_bias.meta.shape()[1] } else { 0 };
        // Hidden pairs of a block have the gradient 0, and no unit writes it.
        let has_hidden = call.learned && call.kind() == BiasKind::Block;
        let [first, second] = call.bias_shapes(distances).map(|shape| {
            if has_hidden { zeros(&inputs.q, shape) } else { empty_of(&inputs.q, shape.into()) }
        });
        let launches =
            Launches::new(inputs, &call, &[&output_gradient], &[&output, &first], &[call.vectors()]);
        let (width, query_tiles) = (launches.width, call.query_tiles());
        let cubes = launches.cubes(query_tiles + keys.div_ceil(call.tiles.side), heads);
        let strides = head_strides(&output_gradient, width);
        launch_reading!(
            backward_kernel, launches, cubes, UNITS, [width, launches.plan.part()];
            UpstreamLaunch::new(
                strided(&output_gradient),
                strides,
                linear(&output),
                linear(&log_sums),
                linear(&log_sums_gradient),
            ),
            TargetLaunch::new(linear(&q), linear(&k), linear(&v)),
            linear(&first),
            linear(&second),
            query_tiles,
            launches.plan.half(),
        );
        [q, k, v, summed(first, &call, distances), second]
    }
}

/// The gradient of the first tensor of a bias, summed over what shares it.
fn summed(first: Primitive, call: &Call, distances: usize) -> Primitive {
    let Shape { batch, heads, queries, keys, .. } = call.shape;
    match &call.options.bias {
        _ if !call.learned => first,
        Bias::Slopes(_) => {
            Cube::float_reshape(Cube::float_sum_dim(Cube::float_sum_dim(first, 2), 0), [heads].into())
        }
        Bias::Block(block) if block.dims()[0] == 1 => {
            Cube::float_reshape(Cube::float_sum_dim(first, 0), [1, heads, queries, keys].into())
        }
        Bias::ByDistance(_) => {
            let table = empty(&first, [heads, distances]);
            let (grid, tiles) = (grid(heads * distances, &[&first, &table]), call.query_tiles());
            let (offset, side) = (call.options.query_offset, call.tiles.side);
            // SAFETY: units past the table are idle, and the others read the sums of a tile and a distance that there are.
            unsafe {
                launch!(
                    distance_kernel,
                    grid,
                    [],
                    [first, table],
                    batch,
                    heads,
                    tiles,
                    distances,
                    offset,
                    side
                );
            }
            table
        }
        _ => first,
    }
}

/// The output and the log sums of few queries: attention to each piece of the keys, and the pieces put together.
fn forward_in_pieces(inputs: Inputs, call: &Call, pieces: usize, output: &Primitive, log_sums: &Primitive) {
    let Shape { batch, heads, queries, value_dim, .. } = call.shape;
    let outputs = empty(&inputs.q, [batch, heads, queries, pieces, value_dim]);
    let piece_log_sums = empty(&inputs.q, [batch, heads, queries, pieces]);
    let launches = Launches::new(inputs, call, &[], &[&outputs], &[]);
    let (width, cubes) = (launches.width, launches.cubes(queries * pieces, heads));
    launch_reading!(
        piece_kernel, launches, cubes, split::UNITS, [width];
        linear(&outputs), linear(&piece_log_sums), pieces,
    );
    let value_dim = value_dim / width;
    let count = batch * queries * heads * value_dim;
    let grid = grid(count, &[&outputs]);
    // SAFETY: units past the count are idle, and the others stay within the shapes.
    unsafe {
        launch!(
            merge_pieces_kernel,
            grid,
            [width],
            [outputs, piece_log_sums, output, log_sums],
            count,
            heads,
            queries,
            pieces,
            value_dim,
        );
    }
}
