//! The gradient of a table of distances: the sums of the scores' gradients along the diagonals of the tiles.
//!
//! A unit adds up the diagonals of its own pairs, in registers, and lays them out. Then one unit adds up each diagonal of the tile,
//! in the order of its pieces, and adds that to the sum of its distance. Distance d belongs to unit `d mod 256` in every tile, so
//! a unit waits for no other one. These are the sums of one cube, `[batch, heads, query tiles, distances]`; a second, small launch
//! adds up cubes and batch rows.
//!
//! What must be moved: `4 * distances` bytes out and in for each tile of queries, a 64th of what the pairs would take.

use super::tile::Tile;
use super::{BiasKind, Plan, Sizes, UNITS, UNITS_A_SIDE};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The diagonals of the pairs of each unit: first the lowest of all units, then the next ones.
#[derive(CubeType)]
pub(super) struct Diagonals {
    pieces: Shared<[f32]>,
    /// Where the sums of the cube begin.
    place: usize,
}

/// The diagonals of so many rows and columns.
const fn diagonals(side: usize) -> usize {
    2 * side - 1
}

#[cube]
impl Diagonals {
    /// For the queries of a tile from `row` on. The sums of the distances that they have begin with 0.
    pub(super) fn new(
        batch: usize,
        head: usize,
        row: usize,
        sums: &mut [f32],
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) -> Diagonals {
        let used = comptime!(plan.learned && plan.kind == BiasKind::ByDistance);
        let pieces =
            Shared::<[f32]>::new_slice(comptime!(if used { diagonals(plan.part()) * UNITS } else { 1 }));
        let tiles = sizes.queries.div_ceil(plan.side);
        let place = ((batch * sizes.heads + head) * tiles + row / plan.side) * sizes.distances;
        if used {
            let mut distance = UNIT_POS as usize;
            while distance < min(sizes.distances, sizes.offset + row + plan.side) {
                sums[place + distance] = 0.0;
                distance += UNITS;
            }
        }
        Diagonals { pieces, place }
    }

    /// Adds the diagonals of a tile.
    pub(super) fn take<P: Size>(
        &mut self,
        slopes: &Array<Vector<f32, P>>,
        tile: Tile,
        sums: &mut [f32],
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) {
        sync_cube();
        #[unroll]
        for diagonal in 0..comptime!(diagonals(plan.part())) {
            // From the one of the first own and the last other row on.
            let mut sum = f32::new(0.0);
            #[unroll]
            for i in 0..plan.part() {
                #[unroll]
                for j in 0..plan.part() {
                    if comptime!(i + plan.part() - 1 == diagonal + j) {
                        sum += slopes[j].extract(i);
                    }
                }
            }
            self.pieces[diagonal * UNITS + UNIT_POS as usize] = sum;
        }
        sync_cube();
        // Distance d is on diagonal `d + 2 side - 1 - reach`, and belongs to this unit.
        let count = comptime!(diagonals(plan.side));
        let reach = sizes.offset + tile.row + plan.side - tile.key;
        let diagonal = (UNIT_POS as usize + count + UNITS - reach % UNITS) % UNITS;
        if diagonal < count && diagonal + reach >= count {
            let distance = diagonal + reach - count;
            if distance < sizes.distances {
                sums[self.place + distance] += self.sum(diagonal, plan);
            }
        }
    }

    /// The sum of a diagonal of the tile. The groups of its units lie on two neighbouring diagonals of groups.
    fn sum(&self, diagonal: usize, #[comptime] plan: Plan) -> f32 {
        let part = comptime!(plan.part());
        let groups = (diagonal + 1) / part;
        let piece = (diagonal + 1) % part;
        let mut sum = f32::new(0.0);
        for own in 0..UNITS_A_SIDE {
            // The group of other rows, counted from 16 on.
            let other = own + 2 * UNITS_A_SIDE - groups;
            if other >= UNITS_A_SIDE && other < 2 * UNITS_A_SIDE {
                sum += self.pieces[(piece + part - 1) * UNITS + (other - UNITS_A_SIDE) * UNITS_A_SIDE + own];
            }
            if piece > 0 && other > UNITS_A_SIDE && other <= 2 * UNITS_A_SIDE {
                let other = other - 1 - UNITS_A_SIDE;
                sum += self.pieces[(piece - 1) * UNITS + other * UNITS_A_SIDE + own];
            }
        }
        sum
    }
}

/// The sums of the cubes -> the gradient of the table `[heads, distances]`. A unit takes an entry.
#[cube(launch, launch_unchecked, address_type = "dynamic")]
pub(super) fn distance_kernel(
    sums: &[f32],
    target: &mut [f32],
    batch: usize,
    heads: usize,
    tiles: usize,
    distances: usize,
    offset: usize,
    #[comptime] side: usize,
) {
    if ABSOLUTE_POS >= heads * distances {
        terminate!();
    }
    let head = ABSOLUTE_POS / distances;
    let distance = ABSOLUTE_POS % distances;
    // The first tile that has a query at this distance from a key.
    let first = (distance - min(distance, offset)) / side;
    let mut sum = f32::new(0.0);
    for row in 0..batch {
        for tile in first..tiles {
            sum += sums[((row * heads + head) * tiles + tile) * distances + distance];
        }
    }
    target[ABSOLUTE_POS] = sum;
}
