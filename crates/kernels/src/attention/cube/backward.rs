//! The gradients of attention on the GPU: by queries, by keys, and by distances.

use super::rows::{add, clear, dot, read_row, read_side, stage, stage_side, write_row, write_side, zeros};
use super::walk::{Query, Take, TakeExpand, Tiles, each_key};
use super::{Kind, Plan, QUERIES, Read, Sizes, bias_of, of_side, scale_of, visible};
use crate::gpu::{Strides, start};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// What the backward pass is given besides: the gradient of the output, and the logarithms of the rows' sums.
#[derive(CubeLaunch, CubeType)]
pub(super) struct Above<'a, N: Size> {
    gradient: &'a [Vector<f32, N>],
    strides: Strides,
    log_sums: &'a [f32],
}

/// The gradient of a query from the keys so far, and what belongs to the query of the bias' gradient.
#[derive(CubeType)]
struct QueryGradient<'a, N: Size> {
    /// The gradient of the query's output, and its product with that output.
    above: Array<Vector<f32, N>>,
    product: f32,
    log_sum: f32,
    /// The query's position, and the first number of its row in a block of bias.
    position: usize,
    block_row: usize,
    sum: Array<Vector<f32, N>>,
    row_sum: f32,
    /// For slopes: those of the scores sum to 0 but for rounding, which distances would enlarge.
    excess: f32,
    mean: f32,
    bias_gradient: &'a mut [f32],
}

#[cube]
impl<'a, N: Size> QueryGradient<'a, N> {
    fn new(
        query: Query,
        above: Array<Vector<f32, N>>,
        output: &Array<Vector<f32, N>>,
        log_sum: f32,
        bias_gradient: &'a mut [f32],
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) -> QueryGradient<'a, N> {
        let mut product = above[0] * output[0];
        #[unroll]
        for d in 1..plan.value_dim {
            product += above[d] * output[d];
        }
        QueryGradient::<'a, N> {
            above,
            product: product.vector_sum(),
            log_sum,
            position: sizes.offset + query.row,
            block_row: query.place(sizes) * sizes.keys,
            sum: zeros::<N>(plan.dim),
            row_sum: f32::new(0.0),
            excess: f32::new(0.0),
            mean: f32::new(0.0),
            bias_gradient,
        }
    }
}

#[cube]
impl<'a, N: Size> Take<N> for QueryGradient<'a, N> {
    fn take(&mut self, key: usize, score: f32, tiles: &Tiles<N>, index: usize, #[comptime] plan: Plan) {
        let share = (score - self.log_sum).exp();
        let wanted = dot::<N>(&self.above, &tiles.v, index * plan.value_dim, plan.value_dim);
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

/// The gradient of q; for each row the product of output and its gradient; and what belongs to a query of the
/// bias' gradient: `[batch, heads, queries]` for slopes and pairs, all of it for a block.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn query_kernel<N: Size>(
    read: &Read<'_, N>,
    above: &Above<'_, N>,
    output: &[Vector<f32, N>],
    q_gradient: &mut [Vector<f32, N>],
    far_q_gradient: &mut [Vector<f32, N>],
    products: &mut [f32],
    bias_gradient: &mut [f32],
    #[comptime] plan: Plan,
) {
    let sizes = read.sizes;
    let query = Query::of_unit(sizes);
    let place = query.place(sizes);
    let from = start(above.strides, query.batch, query.head, query.row);
    let gradient = read_row::<N>(above.gradient, from, query.real, plan.value_dim);
    let output = read_row::<N>(output, place * plan.value_dim, query.real, plan.value_dim);
    let log_sum = above.log_sums[place];
    let mut sums = QueryGradient::<N>::new(query, gradient, &output, log_sum, bias_gradient, sizes, plan);
    let mut tiles = Tiles::<N>::new(plan);
    let scale = query.scale::<N>(read, plan);
    for side in 0..plan.sides {
        clear::<N>(&mut sums.sum, plan.dim);
        each_key::<N, QueryGradient<N>>(side, query, read, &mut tiles, &mut sums, plan);
        if query.real {
            write_side::<N>(side, &sums.sum, q_gradient, far_q_gradient, place * plan.dim, scale, plan);
        }
    }
    if query.real {
        products[place] = sums.product;
        if comptime!(plan.learned && (plan.kind == Kind::Slopes || plan.kind == Kind::Pair)) {
            sums.bias_gradient[place] = sums.row_sum + sums.mean * sums.excess;
        }
    }
}

/// The gradients of k and v, and the keys' part of a bias by pairs, `[batch, heads, keys]`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn key_kernel<N: Size>(
    read: &Read<'_, N>,
    above: &Above<'_, N>,
    products: &[f32],
    k_gradient: &mut [Vector<f32, N>],
    far_k_gradient: &mut [Vector<f32, N>],
    v_gradient: &mut [Vector<f32, N>],
    bias_gradient: &mut [f32],
    #[comptime] plan: Plan,
) {
    let (lies, sizes) = (read.lies, read.sizes);
    let first_key = CUBE_POS_X as usize * QUERIES;
    let key = first_key + UNIT_POS as usize;
    let key_head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let real = key < sizes.keys;
    let value = read_row::<N>(read.v, start(lies.v, batch, key_head, key), real, plan.value_dim);
    let mut row = zeros::<N>(plan.dim);
    let mut v_sum = zeros::<N>(plan.value_dim);
    let mut q_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.dim));
    let mut g_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.value_dim));
    let place = (batch * (sizes.heads / plan.group) + key_head) * sizes.keys + key;
    let k_from = start(lies.k, batch, key_head, key);
    let far_k_from = start(lies.far_k, batch, key_head, key);
    for side in 0..plan.sides {
        read_side::<N>(side, read.k, k_from, read.far_k, far_k_from, real, &mut row, plan);
        let mut k_sum = zeros::<N>(plan.dim);
        // The first query that sees the cube's first key, and the end of those that see its last one.
        let mut begin = first_key - min(first_key, sizes.offset);
        let mut end = sizes.queries;
        if comptime!(plan.windowed) {
            if first_key >= sizes.sinks {
                let last = first_key + comptime!(QUERIES - 1) + sizes.window;
                end = min(end, last - min(last, sizes.offset));
            }
        }
        if comptime!(plan.sides == 2) {
            let border = first_key + sizes.near;
            if side == 0 {
                let last = border + comptime!(QUERIES - 1);
                end = min(end, last - min(last, sizes.offset));
            } else {
                begin = border - min(border, sizes.offset);
            }
        }
        for member in 0..plan.group {
            let head = key_head * plan.group + member;
            let q_from = start(lies.q, batch, head, 0);
            let far_q_from = start(lies.far_q, batch, head, 0);
            let g_from = start(above.strides, batch, head, 0);
            let mut column = f32::new(0.0);
            let mut first = begin;
            while first < end {
                sync_cube();
                stage_side::<N>(
                    side,
                    read.q,
                    q_from,
                    lies.q.row,
                    read.far_q,
                    far_q_from,
                    lies.far_q.row,
                    first,
                    end,
                    &mut q_tile,
                    plan,
                );
                let g_row = above.strides.row;
                stage::<N>(above.gradient, g_from, g_row, first, end, &mut g_tile, plan.value_dim, plan.tile);
                sync_cube();
                for index in 0..plan.tile {
                    let query = first + index;
                    let position = sizes.offset + query;
                    if real
                        && query < end
                        && visible(position, key, sizes, plan)
                        && of_side(side, position, key, sizes, plan)
                    {
                        let place = (batch * sizes.heads + head) * sizes.queries + query;
                        let scale = scale_of::<N>(read, batch, query, plan);
                        let score = dot::<N>(&row, &q_tile, index * plan.dim, plan.dim) * scale
                            + bias_of::<N>(read, batch, head, query, key, plan);
                        let share = (score - above.log_sums[place]).exp();
                        let wanted = dot::<N>(&value, &g_tile, index * plan.value_dim, plan.value_dim);
                        let slope = share * (wanted - products[place]);
                        add::<N>(&mut k_sum, &q_tile, index * plan.dim, slope * scale, plan.dim);
                        add::<N>(&mut v_sum, &g_tile, index * plan.value_dim, share, plan.value_dim);
                        column -= slope;
                    }
                }
                first += plan.tile;
            }
            if comptime!(plan.learned && plan.kind == Kind::Pair) {
                if real {
                    // Zero before the first side.
                    bias_gradient[(batch * sizes.heads + head) * sizes.keys + key] += column;
                }
            }
        }
        if real {
            write_side::<N>(side, &k_sum, k_gradient, far_k_gradient, place * plan.dim, 1.0, plan);
        }
    }
    if real {
        write_row::<N>(&v_sum, v_gradient, place * plan.value_dim, 1.0, plan.value_dim);
    }
}

/// The dot product of two rows where they lie.
#[cube]
fn dot_of<N: Size>(
    a: &[Vector<f32, N>],
    a_from: usize,
    b: &[Vector<f32, N>],
    b_from: usize,
    #[comptime] dim: usize,
) -> f32 {
    let mut sum = a[a_from] * b[b_from];
    #[unroll]
    for d in 1..dim {
        sum += a[a_from + d] * b[b_from + d];
    }
    sum.vector_sum()
}

/// The gradient of a table of distances, for each batch row: `[batch, heads, distances]`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn distance_kernel<N: Size>(
    read: &Read<'_, N>,
    above: &Above<'_, N>,
    products: &[f32],
    target: &mut [f32],
    #[comptime] plan: Plan,
) {
    let (lies, sizes) = (read.lies, read.sizes);
    let distance = CUBE_POS_X as usize * QUERIES + UNIT_POS as usize;
    let head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let key_head = head / comptime!(plan.group);
    if distance < sizes.distances {
        let bias = read.first_bias[head * sizes.distances + distance];
        let mut sum = f32::new(0.0);
        let mut row = select(distance > sizes.offset, distance - min(distance, sizes.offset), 0);
        while row < sizes.queries {
            let key = sizes.offset + row - distance;
            if key < sizes.keys && visible(sizes.offset + row, key, sizes, plan) {
                let place = (batch * sizes.heads + head) * sizes.queries + row;
                let k_from = start(lies.k, batch, key_head, key);
                let v_from = start(lies.v, batch, key_head, key);
                let q_from = start(lies.q, batch, head, row);
                let g_from = start(above.strides, batch, head, row);
                let scale = scale_of::<N>(read, batch, row, plan);
                let mut score = bias;
                if comptime!(plan.sides == 1) {
                    score += dot_of::<N>(read.q, q_from, read.k, k_from, plan.dim) * scale;
                } else {
                    if distance < sizes.near {
                        score += dot_of::<N>(read.q, q_from, read.k, k_from, plan.dim) * scale;
                    } else {
                        let k_from = start(lies.far_k, batch, key_head, key);
                        let q_from = start(lies.far_q, batch, head, row);
                        score += dot_of::<N>(read.far_q, q_from, read.far_k, k_from, plan.dim) * scale;
                    }
                }
                let share = (score - above.log_sums[place]).exp();
                let wanted = dot_of::<N>(above.gradient, g_from, read.v, v_from, plan.value_dim);
                sum += share * (wanted - products[place]);
            }
            row += 1;
        }
        target[(batch * sizes.heads + head) * sizes.distances + distance] = sum;
    }
}
