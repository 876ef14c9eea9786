//! What belongs to queries of a bias' gradient. All biases get the gradient `slope` of a pair's score:
//!
//! | bias | gradient |
//! |---|---|
//! | slopes | the sum of `-slope * distance` over the keys of a query, and later over all queries |
//! | pair | of a query the sum of `slope`, of a key that of `-slope` (`by_keys.rs`) |
//! | block | `slope` |
//! | table of distances | the sum of `slope` along each diagonal (`diagonals.rs`) |

use super::diagonals::Diagonals;
use super::memory::Memory;
use super::scores::of_queries;
use super::tile::{Own, Tile, other_group, own_group};
use super::{BiasKind, Plan, Sizes, Upstream};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The sums of a unit's queries, over the unit's keys alone, or where its pairs go.
#[derive(CubeType)]
pub(super) struct BiasGradient<'a, P: Size> {
    sums: Vector<f32, P>,
    /// For slopes: the sums of the scores' gradients less those of the log sums, which are 0 but for rounding errors, which
    /// distances would enlarge; and the mean distances.
    excess: Vector<f32, P>,
    means: Vector<f32, P>,
    log_sums_gradient: Vector<f32, P>,
    diagonals: Diagonals,
    target: &'a mut [f32],
}

#[cube]
impl<'a, P: Size> BiasGradient<'a, P> {
    /// For the queries of a tile from `row` on.
    pub(super) fn new<N: Size>(
        upstream: &Upstream<'_, N>,
        batch: usize,
        head: usize,
        row: usize,
        target: &'a mut [f32],
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) -> BiasGradient<'a, P> {
        let diagonals = Diagonals::new(batch, head, row, target, sizes, plan);
        let mut log_sums_gradient = Vector::<f32, P>::new(0.0);
        if comptime!(plan.log_sums_given) {
            let first = row + own_group() * plan.part();
            let from = (batch * sizes.heads + head) * sizes.queries;
            log_sums_gradient = of_queries::<P>(upstream.log_sums_gradient, from, first, sizes.queries, plan);
        }
        BiasGradient::<'a, P> {
            sums: Vector::new(0.0),
            excess: Vector::new(0.0),
            means: Vector::new(0.0),
            log_sums_gradient,
            diagonals,
            target,
        }
    }

    /// Takes the shares of the pairs of a tile and the gradients of their scores.
    pub(super) fn take(
        &mut self,
        shares: &Array<Vector<f32, P>>,
        slopes: &Array<Vector<f32, P>>,
        tile: Tile,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        if comptime!(!plan.learned) {
        } else if comptime!(plan.kind == BiasKind::Slopes) {
            self.take_distances(shares, slopes, tile, sizes, plan);
        } else if comptime!(plan.kind == BiasKind::Pair) {
            #[unroll]
            for j in 0..plan.part() {
                self.sums += slopes[j];
            }
        } else if comptime!(plan.kind == BiasKind::Block) {
            self.write_pairs(slopes, tile, sizes, plan);
        } else if comptime!(plan.kind == BiasKind::ByDistance) {
            self.diagonals.take::<P>(slopes, tile, self.target, sizes, plan);
        }
    }

    fn take_distances(
        &mut self,
        shares: &Array<Vector<f32, P>>,
        slopes: &Array<Vector<f32, P>>,
        tile: Tile,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        let mut positions = Vector::<f32, P>::new(0.0);
        #[unroll]
        for i in 0..plan.part() {
            let position = sizes.offset + tile.row + own_group() * plan.part() + i;
            positions.insert(i, f32::cast_from(position));
        }
        #[unroll]
        for j in 0..plan.part() {
            let key = tile.key + other_group() * plan.part() + j;
            let distances = positions - Vector::new(f32::cast_from(key));
            self.sums -= slopes[j] * distances;
            self.excess += slopes[j];
            self.means += shares[j] * distances;
        }
    }

    fn write_pairs(
        &mut self,
        slopes: &Array<Vector<f32, P>>,
        tile: Tile,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        let from = (tile.batch * sizes.heads + tile.head) * sizes.queries;
        #[unroll]
        for j in 0..plan.part() {
            let other = other_group() * plan.part() + j;
            let seen = tile.seen::<P>(other, sizes, Own::Queries, plan);
            #[unroll]
            for i in 0..plan.part() {
                let own = own_group() * plan.part() + i;
                if seen.extract(i) {
                    self.target[(from + tile.row + own) * sizes.keys + tile.key + other] =
                        slopes[j].extract(i);
                }
            }
        }
    }

    /// Writes what belongs to the unit's queries, from row `first` on.
    pub(super) fn write<N: Size>(
        &mut self,
        batch: usize,
        head: usize,
        first: usize,
        memory: &mut Memory<N, P>,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        if comptime!(plan.learned && (plan.kind == BiasKind::Slopes || plan.kind == BiasKind::Pair)) {
            let mut sums = memory.sum(self.sums, own_group(), other_group());
            if comptime!(plan.kind == BiasKind::Slopes) {
                let excess = memory.sum(self.excess, own_group(), other_group()) - self.log_sums_gradient;
                sums += memory.sum(self.means, own_group(), other_group()) * excess;
            }
            #[unroll]
            for i in 0..plan.part() {
                if other_group() == 0 && first + i < sizes.queries {
                    self.target[(batch * sizes.heads + head) * sizes.queries + first + i] = sums.extract(i);
                }
            }
        }
    }
}
