//! What of a score belongs to its query, and the scores of a unit's pairs.

use super::memory::Memory;
use super::products::columns;
use super::tile::{Own, Tile, other_group, own_group};
use super::{BiasKind, Plan, Read, UNITS_A_SIDE, Upstream, bias_of, scale_of};
use crate::attention::spec::NOTHING_SEEN;
use crate::machine::gpu::start;
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Numbers of the queries of a unit: of the row `first` and those after it. Rows that there are not have those of the last.
#[cube]
pub(super) fn of_queries<P: Size>(
    source: &[f32],
    from: usize,
    first: usize,
    queries: usize,
    #[comptime] plan: Plan,
) -> Vector<f32, P> {
    let mut numbers = Vector::<f32, P>::new(0.0);
    #[unroll]
    for i in 0..plan.part() {
        numbers.insert(i, source[from + min(first + i, queries - 1)]);
    }
    numbers
}

/// What q·k is multiplied by, for the queries of a unit.
#[cube]
pub(super) fn scales<N: Size, P: Size>(
    read: &Read<'_, N>,
    batch: usize,
    first: usize,
    #[comptime] plan: Plan,
) -> Vector<f32, P> {
    let sizes = read.sizes;
    let mut scales = Vector::<f32, P>::new(sizes.scale);
    if comptime!(plan.scaled) {
        #[unroll]
        for i in 0..plan.part() {
            scales.insert(i, scale_of::<N>(read, batch, min(first + i, sizes.queries - 1), plan));
        }
    }
    scales
}

/// Makes scores of the products of queries and keys; hidden pairs get [`NOTHING_SEEN`].
#[cube]
pub(super) fn make_scores<N: Size, P: Size>(
    products: &mut Array<Vector<f32, P>>,
    scales: Vector<f32, P>,
    read: &Read<'_, N>,
    tile: Tile,
    #[comptime] owner: Own,
    #[comptime] plan: Plan,
) {
    let sizes = read.sizes;
    #[unroll]
    for j in 0..plan.part() {
        let other = other_group() * plan.part() + j;
        let mut scale = scales;
        if comptime!(owner == Own::Keys) {
            scale = Vector::new(scales.extract(j));
        }
        let mut scores = products[j] * scale;
        if comptime!(plan.kind != BiasKind::None) {
            let mut biases = Vector::<f32, P>::new(0.0);
            #[unroll]
            for i in 0..plan.part() {
                let own = own_group() * plan.part() + i;
                // Hidden pairs read the bias of another one, which no score has.
                let row = min(tile.row_of(own, other, owner), sizes.queries - 1);
                let key = min(tile.key_of(own, other, owner), sizes.offset + row);
                biases.insert(i, bias_of::<N>(read, tile.batch, tile.head, row, key, plan));
            }
            scores += biases;
        }
        let seen = tile.seen::<P>(other, sizes, owner, plan);
        products[j] = select_many(seen, scores, Vector::new(NOTHING_SEEN));
    }
}

/// What belongs to the queries of a unit, which are own or other rows.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct OfQueries<P: Size> {
    /// What q·k is multiplied by.
    pub(super) scales: Vector<f32, P>,
    log_sums: Vector<f32, P>,
    /// The product of the output and its gradient, less the gradient of the log sum.
    products: Vector<f32, P>,
}

#[cube]
impl<P: Size> OfQueries<P> {
    /// Of the queries of a tile from `row` on.
    pub(super) fn read<N: Size>(
        read: &Read<'_, N>,
        upstream: &Upstream<'_, N>,
        memory: &mut Memory<N, P>,
        batch: usize,
        head: usize,
        row: usize,
        #[comptime] owner: Own,
        #[comptime] plan: Plan,
    ) -> OfQueries<P> {
        let sizes = read.sizes;
        let (group, place) = if comptime!(owner == Own::Queries) {
            (own_group(), other_group())
        } else {
            (other_group(), own_group())
        };
        let first = row + group * plan.part();
        // The units of a group share the channels.
        let mut dots = Vector::<f32, P>::new(0.0);
        #[unroll]
        for i in 0..plan.part() {
            let row = min(first + i, sizes.queries - 1);
            let of_gradient = start(upstream.strides, batch, head, row);
            let of_output = ((batch * sizes.queries + row) * sizes.heads + head) * plan.value_dim;
            let mut dot = Vector::<f32, N>::new(0.0);
            #[unroll]
            for column in 0..comptime!(columns(plan.value_dim)) {
                let own = column * UNITS_A_SIDE + place;
                let vector = min(own, comptime!(plan.value_dim - 1));
                let product = upstream.gradient[of_gradient + vector] * upstream.output[of_output + vector];
                dot += select(own < plan.value_dim, product, Vector::new(0.0));
            }
            dots.insert(i, dot.vector_sum());
        }
        let mut products = memory.sum(dots, group, place);
        let head_rows = (batch * sizes.heads + head) * sizes.queries;
        if comptime!(plan.log_sums_given) {
            products -= of_queries::<P>(upstream.log_sums_gradient, head_rows, first, sizes.queries, plan);
        }
        let log_sums = of_queries::<P>(upstream.log_sums, head_rows, first, sizes.queries, plan);
        OfQueries::<P> { scales: scales::<N, P>(read, batch, first, plan), log_sums, products }
    }
}

/// Makes of scores the shares of the softmax, and of `wanted`, the products of the output's gradient and the values, the
/// gradients of the scores: `share * (wanted - product)`. Both are 0 for hidden pairs.
#[cube]
pub(super) fn weigh<P: Size>(
    scores: &mut Array<Vector<f32, P>>,
    wanted: &mut Array<Vector<f32, P>>,
    of_queries: OfQueries<P>,
    #[comptime] owner: Own,
    #[comptime] plan: Plan,
) {
    #[unroll]
    for j in 0..plan.part() {
        let mut log_sums = of_queries.log_sums;
        let mut products = of_queries.products;
        if comptime!(owner == Own::Keys) {
            log_sums = Vector::new(of_queries.log_sums.extract(j));
            products = Vector::new(of_queries.products.extract(j));
        }
        // What is not a number stays so.
        let hidden = scores[j].less_equal(&Vector::new(NOTHING_SEEN));
        let shares = select_many(hidden, Vector::new(0.0), (scores[j] - log_sums).exp());
        wanted[j] = select_many(hidden, Vector::new(0.0), shares * (wanted[j] - products));
        scores[j] = shares;
    }
}
