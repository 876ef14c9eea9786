//! The gradient of a table of distances.

use super::backward::Upstream;
use super::rows::dot_of;
use super::{Plan, QUERIES, Read, scale_of, visible};
use crate::gpu::start;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The gradient of a table of distances, for each batch row: `[batch, heads, distances]`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn distance_kernel<N: Size>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    products: &[f32],
    target: &mut [f32],
    #[comptime] plan: Plan,
) {
    let (strides, sizes) = (read.strides, read.sizes);
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
                let k_from = start(strides.k, batch, key_head, key);
                let v_from = start(strides.v, batch, key_head, key);
                let q_from = start(strides.q, batch, head, row);
                let g_from = start(upstream.strides, batch, head, row);
                let scale = scale_of::<N>(read, batch, row, plan);
                let score = bias + dot_of::<N>(read.q, q_from, read.k, k_from, plan.dim) * scale;
                let share = (score - upstream.log_sums[place]).exp();
                let wanted = dot_of::<N>(upstream.gradient, g_from, read.v, v_from, plan.value_dim);
                sum += share * (wanted - products[place]);
            }
            row += 1;
        }
        target[(batch * sizes.heads + head) * sizes.distances + distance] = sum;
    }
}
