//! Which queries and keys meet in a tile, and which pairs of them count.

use super::{Plan, Sizes, UNITS_A_SIDE, all, visible};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The rows that a cube owns; the others come by, tile after tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Own {
    Queries,
    Keys,
}

/// The place of a unit among the rows that its cube owns, in groups of as many rows as a unit takes.
#[cube]
pub(super) fn own_group() -> usize {
    UNIT_POS as usize % UNITS_A_SIDE
}

/// The same among the other rows. Neighbouring units have the same, and read it at once.
#[cube]
pub(super) fn other_group() -> usize {
    UNIT_POS as usize / UNITS_A_SIDE
}

/// So many queries and as many keys of one head.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Tile {
    pub(super) batch: usize,
    pub(super) head: usize,
    /// The first query row and the first key.
    pub(super) row: usize,
    pub(super) key: usize,
    /// Whether every query sees every key.
    pub(super) whole: bool,
}

#[cube]
impl Tile {
    pub(super) fn new(
        batch: usize,
        head: usize,
        row: usize,
        key: usize,
        sizes: Sizes,
        #[comptime] plan: Plan,
    ) -> Tile {
        let (last_row, last_key) = (row + comptime!(plan.side - 1), key + comptime!(plan.side - 1));
        let (lowest, highest) = (sizes.offset + row, sizes.offset + last_row);
        let mut whole = last_row < sizes.queries && last_key <= lowest;
        if comptime!(plan.windowed) {
            whole = whole && (highest < key + sizes.window || last_key < sizes.sinks);
        }
        if comptime!(plan.ranged) {
            whole = whole && lowest >= last_key + sizes.nearest && highest < key + sizes.farthest;
        }
        Tile { batch, head, row, key, whole }
    }

    /// Whether some query sees some key, as far as the window says.
    pub(super) fn reached(&self, sizes: Sizes, #[comptime] plan: Plan) -> bool {
        if comptime!(plan.windowed) {
            sizes.offset + self.row < self.key + comptime!(plan.side - 1) + sizes.window
                || self.key < sizes.sinks
        } else {
            true.runtime()
        }
    }

    /// The query row of a pair: rows are counted from the tile's first.
    pub(super) fn row_of(&self, own: usize, other: usize, #[comptime] owner: Own) -> usize {
        if comptime!(owner == Own::Queries) { self.row + own } else { self.row + other }
    }

    /// The key of a pair.
    pub(super) fn key_of(&self, own: usize, other: usize, #[comptime] owner: Own) -> usize {
        if comptime!(owner == Own::Queries) { self.key + other } else { self.key + own }
    }

    /// For each own row of the unit whether it makes a visible pair with an other row.
    pub(super) fn seen<P: Size>(
        &self,
        other: usize,
        sizes: Sizes,
        #[comptime] owner: Own,
        #[comptime] plan: Plan,
    ) -> Vector<bool, P> {
        let own = own_group() * plan.part();
        let mut next = Vector::<u32, P>::new(0);
        #[unroll]
        for i in 0..plan.part() {
            next.insert(i, comptime!(i as u32).runtime());
        }
        let mut rows = all::<P>(self.row_of(own, other, owner));
        let mut keys = all::<P>(self.key_of(own, other, owner));
        if comptime!(owner == Own::Queries) {
            rows += next;
        } else {
            keys += next;
        }
        let seen = visible::<P>(rows + all::<P>(sizes.offset), keys, sizes, plan);
        seen.vec_and(rows.less_than(&all::<P>(sizes.queries)))
    }
}

/// Other rows, of which some may be seen: from the first to before the last.
#[derive(CubeType, Clone, Copy)]
#[expand(derive(Clone, Copy))]
pub(super) struct Span {
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// The keys that the queries of a tile see, as far as the order and the range of distances say.
#[cube]
pub(super) fn keys_of(row: usize, sizes: Sizes, #[comptime] plan: Plan) -> Span {
    let lowest = sizes.offset + row;
    let mut begin = 0usize;
    let mut end = min(sizes.keys, lowest + plan.side);
    if comptime!(plan.ranged) {
        begin = keys_before(lowest, sizes.farthest);
        end = min(end, keys_before(lowest + comptime!(plan.side - 1), sizes.nearest));
    }
    Span { begin, end }
}

/// The end of the keys at `distance` or more from a position.
#[cube]
fn keys_before(position: usize, distance: usize) -> usize {
    position + 1 - min(distance, position + 1)
}

#[cube]
pub(super) fn queries_of(key: usize, sizes: Sizes, #[comptime] plan: Plan) -> Span {
    let last = key + comptime!(plan.side - 1);
    // The first position that sees the first key, and the end of those that see the last one.
    let mut nearest = key;
    let mut end = sizes.queries;
    if comptime!(plan.windowed) {
        if key >= sizes.sinks {
            let beyond = last + sizes.window;
            end = min(end, beyond - min(beyond, sizes.offset));
        }
    }
    if comptime!(plan.ranged) {
        nearest += sizes.nearest;
        let beyond = last + sizes.farthest;
        end = min(end, beyond - min(beyond, sizes.offset));
    }
    Span { begin: nearest - min(nearest, sizes.offset), end }
}
