//! The gradients of attention on the GPU, by queries and by keys, in one launch.

use super::rows::{add, dot, dot_of, read_row, stage, zeros};
use super::target::{Apart, Packed, Row, Target, TargetExpand};
use super::walk::{KeyVisitor, KeyVisitorExpand, Query, Tiles, each_key};
use super::{Kind, Plan, QUERIES, Read, Sizes, bias_of, scale_of, visible};
use crate::gpu::{Strides, start};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// What the backward pass reads besides: the gradient of the output, the log sums, and their gradient or another tensor
/// in its place.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Upstream<'a, N: Size> {
    pub(super) gradient: &'a [Vector<f32, N>],
    pub(super) strides: Strides,
    pub(super) log_sums: &'a [f32],
    log_sums_gradient: &'a [f32],
}

/// The gradient of a query from the keys so far, and what belongs to the query of the bias' gradient.
#[derive(CubeType)]
struct QueryGradient<'a, N: Size> {
    /// The gradient of the query's output, and its product with that output less the gradient of the log sum.
    upstream: Array<Vector<f32, N>>,
    product: f32,
    log_sum: f32,
    /// The query's position, and the first number of its row in a block of bias.
    position: usize,
    block_row: usize,
    sum: Array<Vector<f32, N>>,
    row_sum: f32,
    /// For slopes: the sum of the scores' gradients less that of the log sum. It is 0 but for rounding errors, which
    /// distances would enlarge.
    excess: f32,
    mean: f32,
    bias_gradient: &'a mut [f32],
}

#[cube]
impl<'a, N: Size> QueryGradient<'a, N> {
    fn new(
        query: Query,
        upstream: Array<Vector<f32, N>>,
        output: &Array<Vector<f32, N>>,
        log_sum: f32,
        log_sum_gradient: f32,
        bias_gradient: &'a mut [f32],
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) -> QueryGradient<'a, N> {
        let mut product = upstream[0] * output[0];
        #[unroll]
        for d in 1..plan.value_dim {
            product += upstream[d] * output[d];
        }
        QueryGradient::<'a, N> {
            upstream,
            product: product.vector_sum() - log_sum_gradient,
            log_sum,
            position: sizes.offset + query.row,
            block_row: query.place(sizes) * sizes.keys,
            sum: zeros::<N>(plan.dim),
            row_sum: f32::new(0.0),
            excess: -log_sum_gradient,
            mean: f32::new(0.0),
            bias_gradient,
        }
    }
}

#[cube]
impl<'a, N: Size> KeyVisitor<N> for QueryGradient<'a, N> {
    fn visit(&mut self, key: usize, score: f32, tiles: &Tiles<N>, index: usize, #[comptime] plan: Plan) {
        let share = (score - self.log_sum).exp();
        let wanted = dot::<N>(&self.upstream, &tiles.v, index * plan.value_dim, plan.value_dim);
        let slope = share * (wanted - self.product);
        add::<N>(&mut self.sum, &tiles.k, index * plan.dim, slope, plan.dim);
        if comptime!(!plan.learned) {
        } else if comptime!(plan.kind == Kind::Slopes) {
            let distance = f32::cast_from(self.position - key);
            self.row_sum -= slope * distance;
            self.excess += slope;
            self.mean += share * distance;
        } else if comptime!(plan.kind == Kind::Pair) {
            self.row_sum += slope;
        } else if comptime!(plan.kind == Kind::Block) {
            self.bias_gradient[self.block_row + key] = slope;
        }
    }
}

/// All gradients but that of a table of distances; those of q, k and v as three tensors.
///
/// Written besides: for each query row the product of output and its gradient, less the gradient of the log sum; what
/// belongs to a query of the bias' gradient, `[batch, heads, queries]` for slopes and pairs, all of it for a block; and the
/// keys' part of a bias by pairs, `[batch, heads, keys]`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn backward_kernel<N: Size>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    output: &[Vector<f32, N>],
    target: &mut Apart<'_, N>,
    products: &mut [f32],
    query_bias: &mut [f32],
    key_bias: &mut [f32],
    query_cubes: usize,
    #[comptime] plan: Plan,
) {
    backward::<N, Apart<N>>(
        read,
        upstream,
        output,
        target,
        products,
        query_bias,
        key_bias,
        query_cubes,
        plan,
    );
}

/// The same; the gradients of q, k and v as packed rows, with q and k turned back.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn packed_backward_kernel<N: Size>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    output: &[Vector<f32, N>],
    target: &mut Packed<'_, N>,
    products: &mut [f32],
    query_bias: &mut [f32],
    key_bias: &mut [f32],
    query_cubes: usize,
    #[comptime] plan: Plan,
) {
    backward::<N, Packed<N>>(
        read,
        upstream,
        output,
        target,
        products,
        query_bias,
        key_bias,
        query_cubes,
        plan,
    );
}

/// Cubes along x: first those of the queries, then those of the keys.
#[cube]
fn backward<N: Size, T: Target<N>>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    output: &[Vector<f32, N>],
    target: &mut T,
    products: &mut [f32],
    query_bias: &mut [f32],
    key_bias: &mut [f32],
    query_cubes: usize,
    #[comptime] plan: Plan,
) {
    let mut tiles = Tiles::<N>::new(plan);
    let cube = CUBE_POS_X as usize;
    if cube < query_cubes {
        by_queries::<N, T>(read, upstream, output, target, products, query_bias, &mut tiles, plan);
    } else if (CUBE_POS_Y as usize) < read.sizes.heads / comptime!(plan.group) {
        by_keys::<N, T>(read, upstream, output, target, key_bias, &mut tiles, cube - query_cubes, plan);
    }
}

#[cube]
fn by_queries<N: Size, T: Target<N>>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    output: &[Vector<f32, N>],
    target: &mut T,
    products: &mut [f32],
    query_bias: &mut [f32],
    tiles: &mut Tiles<N>,
    #[comptime] plan: Plan,
) {
    let sizes = read.sizes;
    let query = Query::of_unit(sizes);
    let place = query.place(sizes);
    let from = start(upstream.strides, query.batch, query.head, query.row);
    let gradient = read_row::<N>(upstream.gradient, from, query.real, plan.value_dim);
    let output =
        read_row::<N>(output, query.joined_place(sizes) * plan.value_dim, query.real, plan.value_dim);
    let log_sum = upstream.log_sums[place];
    let mut log_sum_gradient = f32::new(0.0);
    if comptime!(plan.log_sums_given) {
        log_sum_gradient = upstream.log_sums_gradient[place];
    }
    let mut sums =
        QueryGradient::<N>::new(query, gradient, &output, log_sum, log_sum_gradient, query_bias, sizes, plan);
    let scale = query.scale::<N>(read, plan);
    each_key::<N, QueryGradient<N>>(query, read, tiles, &mut sums, plan);
    if query.real {
        let own = Row { batch: query.batch, head: query.head, row: query.row };
        target.write_query(&sums.sum, own, scale, sizes, plan);
        products[place] = sums.product;
        if comptime!(plan.learned && (plan.kind == Kind::Slopes || plan.kind == Kind::Pair)) {
            sums.bias_gradient[place] = sums.row_sum + sums.mean * sums.excess;
        }
    }
}

/// The tiles hold queries and the gradients of their outputs.
#[cube]
fn by_keys<N: Size, T: Target<N>>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    output: &[Vector<f32, N>],
    target: &mut T,
    key_bias: &mut [f32],
    tiles: &mut Tiles<N>,
    cube: usize,
    #[comptime] plan: Plan,
) {
    let (strides, sizes) = (read.strides, read.sizes);
    let first_key = cube * QUERIES;
    let key = first_key + UNIT_POS as usize;
    let key_head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let real = key < sizes.keys;
    let own = read_row::<N>(read.k, start(strides.k, batch, key_head, key), real, plan.dim);
    let value = read_row::<N>(read.v, start(strides.v, batch, key_head, key), real, plan.value_dim);
    let mut k_sum = zeros::<N>(plan.dim);
    let mut v_sum = zeros::<N>(plan.value_dim);
    let mut products = Shared::<[f32]>::new_slice(plan.tile);
    // The first query that sees the cube's first key, and the end of those that see its last one.
    let mut nearest = first_key;
    let mut end = sizes.queries;
    if comptime!(plan.windowed) {
        if first_key >= sizes.sinks {
            let last = first_key + comptime!(QUERIES - 1) + sizes.window;
            end = min(end, last - min(last, sizes.offset));
        }
    }
    if comptime!(plan.ranged) {
        nearest += sizes.nearest;
        let last = first_key + comptime!(QUERIES - 1) + sizes.farthest;
        end = min(end, last - min(last, sizes.offset));
    }
    let begin = nearest - min(nearest, sizes.offset);
    for member in 0..plan.group {
        let head = key_head * plan.group + member;
        let q_from = start(strides.q, batch, head, 0);
        let g_from = start(upstream.strides, batch, head, 0);
        let mut column = f32::new(0.0);
        let mut first = begin;
        while first < end {
            sync_cube();
            stage::<N>(read.q, q_from, strides.q.row, first, end, &mut tiles.k, plan.dim, plan.tile);
            let g_row = upstream.strides.row;
            stage::<N>(upstream.gradient, g_from, g_row, first, end, &mut tiles.v, plan.value_dim, plan.tile);
            // Each unit takes the product of one of the rows.
            let row = first + UNIT_POS as usize;
            if (UNIT_POS as usize) < plan.tile && row < end {
                let from = (batch * sizes.queries + row) * sizes.heads + head;
                let g = g_from + row * g_row;
                let mut product =
                    dot_of::<N>(upstream.gradient, g, output, from * plan.value_dim, plan.value_dim);
                if comptime!(plan.log_sums_given) {
                    product -= upstream.log_sums_gradient[(batch * sizes.heads + head) * sizes.queries + row];
                }
                products[UNIT_POS as usize] = product;
            }
            sync_cube();
            for index in 0..plan.tile {
                let query = first + index;
                if real && query < end && visible(sizes.offset + query, key, sizes, plan) {
                    let place = (batch * sizes.heads + head) * sizes.queries + query;
                    let scale = scale_of::<N>(read, batch, query, plan);
                    let score = dot::<N>(&own, &tiles.k, index * plan.dim, plan.dim) * scale
                        + bias_of::<N>(read, batch, head, query, key, plan);
                    let share = (score - upstream.log_sums[place]).exp();
                    let wanted = dot::<N>(&value, &tiles.v, index * plan.value_dim, plan.value_dim);
                    let slope = share * (wanted - products[index]);
                    add::<N>(&mut k_sum, &tiles.k, index * plan.dim, slope * scale, plan.dim);
                    add::<N>(&mut v_sum, &tiles.v, index * plan.value_dim, share, plan.value_dim);
                    column -= slope;
                }
            }
            first += plan.tile;
        }
        if comptime!(plan.learned && plan.kind == Kind::Pair) {
            if real {
                key_bias[(batch * sizes.heads + head) * sizes.keys + key] = column;
            }
        }
    }
    if real {
        let own = Row { batch, head: key_head, row: key };
        target.write_key(&k_sum, own, sizes, plan);
        target.write_value(&v_sum, own, sizes, plan);
    }
}
