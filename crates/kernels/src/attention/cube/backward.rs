//! The gradients of attention on the GPU: by queries, by keys, and by distances.

use super::rows::{add, dot, read_row, read_side, stage, stage_side, write_row, write_side, zeros};
use super::{Kind, Lies, Plan, QUERIES, Sizes, bias_of, far_end, of_side, reached, scale_of, visible};
use crate::gpu::{Strides, start};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The gradient of q; for each row the product of output and its gradient; and what belongs to a query of the
/// bias' gradient: `[batch, heads, queries]` for slopes and pairs, all of it for a block.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn query_kernel<N: Size>(
    q: &[Vector<f32, N>],
    k: &[Vector<f32, N>],
    v: &[Vector<f32, N>],
    far_q: &[Vector<f32, N>],
    far_k: &[Vector<f32, N>],
    first_bias: &[f32],
    second_bias: &[f32],
    query_scale: &[f32],
    output: &[Vector<f32, N>],
    gradient: &[Vector<f32, N>],
    log_sums: &[f32],
    q_gradient: &mut [Vector<f32, N>],
    far_q_gradient: &mut [Vector<f32, N>],
    products: &mut [f32],
    bias_gradient: &mut [f32],
    gradient_strides: Strides,
    lies: Lies,
    sizes: Sizes,
    #[comptime] plan: Plan,
) {
    let first_row = CUBE_POS_X as usize * QUERIES;
    let row = first_row + UNIT_POS as usize;
    let head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let key_head = head / comptime!(plan.group);
    let real = row < sizes.queries;
    let position = sizes.offset + row;
    let lowest = sizes.offset + first_row;
    let place = (batch * sizes.heads + head) * sizes.queries + select(real, row, 0);

    let above = start(gradient_strides, batch, head, row);
    let above = read_row::<N>(gradient, above, real, plan.value_dim);
    let ours = read_row::<N>(output, place * plan.value_dim, real, plan.value_dim);
    let mut product = above[0] * ours[0];
    #[unroll]
    for d in 1..plan.value_dim {
        product += above[d] * ours[d];
    }
    let product = product.vector_sum();
    let log_sum = log_sums[place];
    let scale = scale_of(query_scale, batch, select(real, row, 0), sizes, plan);
    let mut row_sum = f32::new(0.0);
    // For slopes: the slopes of the scores sum to 0 but for rounding, which distances would enlarge.
    let mut excess = f32::new(0.0);
    let mut mean = f32::new(0.0);

    let mut query = zeros::<N>(plan.dim);
    let mut k_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.dim));
    let mut v_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.value_dim));
    let q_from = start(lies.q, batch, head, row);
    let far_q_from = start(lies.far_q, batch, head, row);
    let k_from = start(lies.k, batch, key_head, 0);
    let far_k_from = start(lies.far_k, batch, key_head, 0);
    let v_from = start(lies.v, batch, key_head, 0);
    for side in 0..plan.sides {
        read_side::<N>(side, q, q_from, far_q, far_q_from, real, &mut query, plan);
        let mut sum = zeros::<N>(plan.dim);
        let mut first = 0usize;
        let mut end = min(sizes.keys, lowest + QUERIES);
        if comptime!(plan.sides == 2) {
            if side == 0 {
                first = far_end(lowest, sizes);
            } else {
                end = min(end, far_end(lowest + comptime!(QUERIES - 1), sizes));
            }
        }
        while first < end {
            if reached(lowest, first, sizes, plan) {
                sync_cube();
                stage_side::<N>(
                    side,
                    k,
                    k_from,
                    lies.k.row,
                    far_k,
                    far_k_from,
                    lies.far_k.row,
                    first,
                    end,
                    &mut k_tile,
                    plan,
                );
                stage::<N>(v, v_from, lies.v.row, first, end, &mut v_tile, plan.value_dim, plan.tile);
                sync_cube();
                for index in 0..plan.tile {
                    let key = first + index;
                    if real
                        && key < end
                        && visible(position, key, sizes, plan)
                        && of_side(side, position, key, sizes, plan)
                    {
                        let score = dot::<N>(&query, &k_tile, index * plan.dim, plan.dim) * scale
                            + bias_of(first_bias, second_bias, batch, head, row, key, sizes, plan);
                        let share = (score - log_sum).exp();
                        let wanted = dot::<N>(&above, &v_tile, index * plan.value_dim, plan.value_dim);
                        let slope = share * (wanted - product);
                        add::<N>(&mut sum, &k_tile, index * plan.dim, slope, plan.dim);
                        if comptime!(!plan.learned) {
                        } else if comptime!(plan.kind == Kind::Slopes) {
                            let distance = f32::cast_from(position - key);
                            row_sum -= slope * distance;
                            excess += slope;
                            mean += share * distance;
                        } else if comptime!(plan.kind == Kind::Pair) {
                            row_sum += slope;
                        } else if comptime!(plan.kind == Kind::Block) {
                            bias_gradient[place * sizes.keys + key] = slope;
                        }
                    }
                }
            }
            first += plan.tile;
        }
        if real {
            write_side::<N>(side, &sum, q_gradient, far_q_gradient, place * plan.dim, scale, plan);
        }
    }
    if real {
        products[place] = product;
        if comptime!(plan.learned && (plan.kind == Kind::Slopes || plan.kind == Kind::Pair)) {
            bias_gradient[place] = row_sum + mean * excess;
        }
    }
}

/// The gradients of k and v, and the keys' part of a bias by pairs, `[batch, heads, keys]`.
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn key_kernel<N: Size>(
    q: &[Vector<f32, N>],
    k: &[Vector<f32, N>],
    v: &[Vector<f32, N>],
    far_q: &[Vector<f32, N>],
    far_k: &[Vector<f32, N>],
    first_bias: &[f32],
    second_bias: &[f32],
    query_scale: &[f32],
    gradient: &[Vector<f32, N>],
    log_sums: &[f32],
    products: &[f32],
    k_gradient: &mut [Vector<f32, N>],
    far_k_gradient: &mut [Vector<f32, N>],
    v_gradient: &mut [Vector<f32, N>],
    bias_gradient: &mut [f32],
    gradient_strides: Strides,
    lies: Lies,
    sizes: Sizes,
    #[comptime] plan: Plan,
) {
    let first_key = CUBE_POS_X as usize * QUERIES;
    let key = first_key + UNIT_POS as usize;
    let key_head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let real = key < sizes.keys;
    let value = read_row::<N>(v, start(lies.v, batch, key_head, key), real, plan.value_dim);
    let mut row = zeros::<N>(plan.dim);
    let mut v_sum = zeros::<N>(plan.value_dim);
    let mut q_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.dim));
    let mut g_tile = Shared::<[Vector<f32, N>]>::new_slice(comptime!(plan.tile * plan.value_dim));
    let place = (batch * (sizes.heads / plan.group) + key_head) * sizes.keys + key;
    let k_from = start(lies.k, batch, key_head, key);
    let far_k_from = start(lies.far_k, batch, key_head, key);
    for side in 0..plan.sides {
        read_side::<N>(side, k, k_from, far_k, far_k_from, real, &mut row, plan);
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
            let g_from = start(gradient_strides, batch, head, 0);
            let mut column = f32::new(0.0);
            let mut first = begin;
            while first < end {
                sync_cube();
                stage_side::<N>(
                    side,
                    q,
                    q_from,
                    lies.q.row,
                    far_q,
                    far_q_from,
                    lies.far_q.row,
                    first,
                    end,
                    &mut q_tile,
                    plan,
                );
                let g_row = gradient_strides.row;
                stage::<N>(gradient, g_from, g_row, first, end, &mut g_tile, plan.value_dim, plan.tile);
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
                        let scale = scale_of(query_scale, batch, query, sizes, plan);
                        let score = dot::<N>(&row, &q_tile, index * plan.dim, plan.dim) * scale
                            + bias_of(first_bias, second_bias, batch, head, query, key, sizes, plan);
                        let share = (score - log_sums[place]).exp();
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
#[cube(launch_unchecked, address_type = "dynamic")]
pub(super) fn distance_kernel<N: Size>(
    q: &[Vector<f32, N>],
    k: &[Vector<f32, N>],
    v: &[Vector<f32, N>],
    far_q: &[Vector<f32, N>],
    far_k: &[Vector<f32, N>],
    table: &[f32],
    _second_bias: &[f32],
    query_scale: &[f32],
    gradient: &[Vector<f32, N>],
    log_sums: &[f32],
    products: &[f32],
    target: &mut [f32],
    gradient_strides: Strides,
    lies: Lies,
    sizes: Sizes,
    #[comptime] plan: Plan,
) {
    let distance = CUBE_POS_X as usize * QUERIES + UNIT_POS as usize;
    let head = CUBE_POS_Y as usize;
    let batch = CUBE_POS_Z as usize;
    let key_head = head / comptime!(plan.group);
    if distance < sizes.distances {
        let bias = table[head * sizes.distances + distance];
        let mut sum = f32::new(0.0);
        let mut row = select(distance > sizes.offset, distance - min(distance, sizes.offset), 0);
        while row < sizes.queries {
            let key = sizes.offset + row - distance;
            if key < sizes.keys && visible(sizes.offset + row, key, sizes, plan) {
                let place = (batch * sizes.heads + head) * sizes.queries + row;
                let k_from = start(lies.k, batch, key_head, key);
                let v_from = start(lies.v, batch, key_head, key);
                let q_from = start(lies.q, batch, head, row);
                let g_from = start(gradient_strides, batch, head, row);
                let scale = scale_of(query_scale, batch, row, sizes, plan);
                let mut score = bias;
                if comptime!(plan.sides == 1) {
                    score += dot_of::<N>(q, q_from, k, k_from, plan.dim) * scale;
                } else {
                    if distance < sizes.near {
                        score += dot_of::<N>(q, q_from, k, k_from, plan.dim) * scale;
                    } else {
                        let k_from = start(lies.far_k, batch, key_head, key);
                        let q_from = start(lies.far_q, batch, head, row);
                        score += dot_of::<N>(far_q, q_from, far_k, k_from, plan.dim) * scale;
                    }
                }
                let share = (score - log_sums[place]).exp();
                let wanted = dot_of::<N>(gradient, g_from, v, v_from, plan.value_dim);
                sum += share * (wanted - products[place]);
            }
            row += 1;
        }
        target[(batch * sizes.heads + head) * sizes.distances + distance] = sum;
    }
}
