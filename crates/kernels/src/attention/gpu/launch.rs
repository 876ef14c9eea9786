//! The launches of the kernels.

use super::WIDEST;
use super::backward::backward_kernel;
use super::call::{CUBES, Call, Gradients, Inputs, Results};
use super::forward::forward_kernel;
use super::launches::{Backward, Launches, UNITS_OF_PIECE, UNITS_OF_TILE, launch_reading, swapped};
use super::plan::{Tiles, tiles};
use super::split::{merge_pieces_kernel, piece_kernel};
use super::target::TargetLaunch;
use crate::Precision;
use crate::attention::spec::Shape;
use crate::machine::gpu::{client, empty, grid, launch, linear};
use crate::op::Any;
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

/// The output `[batch, heads, queries, value_dim]`, and `[batch, heads, queries]`: the logarithm of each row's sum.
pub(super) fn forward(inputs: Inputs, call: Call) -> (CubeTensor, CubeTensor) {
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

/// The gradients of what was read.
pub(super) fn backward(inputs: Inputs, results: Results, call: Call) -> Gradients {
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

/// The output and the log sums of few queries: attention to each piece of the keys, and the pieces put together.
fn forward_in_pieces(inputs: Inputs, call: Call, pieces: usize, output: &CubeTensor, log_sums: &CubeTensor) {
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
