//! The gradients of attention on the GPU, by queries and by keys, in one launch.

use super::by_keys::by_keys;
use super::by_queries::by_queries;
use super::matrices::Halves;
use super::memory::Memory;
use super::{Plan, Read, Target, Upstream};
use burn_cubecl::cubecl;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// All gradients. Cubes along x: first those of the queries, then those of the keys.
///
/// Written besides: what belongs to a query of the bias' gradient, `[batch, heads, queries]` for slopes and pairs, all of it
/// for a block, and for a table of distances the sums of each cube of queries (`diagonals.rs`); and the keys' part of a bias by
/// pairs, `[batch, heads, keys]`.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn backward_kernel<N: Size, P: Size, H: Float>(
    read: &Read<'_, N>,
    upstream: &Upstream<'_, N>,
    target: &mut Target<'_, N>,
    query_bias: &mut [f32],
    key_bias: &mut [f32],
    query_cubes: usize,
    #[define(H)] _half: ElemType,
    #[comptime] plan: Plan,
) {
    let mut memory = Memory::<N, P>::new(plan);
    let mut halves = Halves::<H, N, P>::new(plan);
    let cube = CUBE_POS_X as usize;
    if cube < query_cubes {
        by_queries::<N, P, H>(read, upstream, target, query_bias, &mut memory, &mut halves, plan);
    } else if (CUBE_POS_Y as usize) < read.sizes.heads / comptime!(plan.group) {
        by_keys::<N, P, H>(
            read,
            upstream,
            target,
            key_bias,
            &mut memory,
            &mut halves,
            cube - query_cubes,
            plan,
        );
    }
}
