//! What the kernels are compiled for, and what a cube needs of a device.

use super::{UNITS, UNITS_A_SIDE, WIDEST};
use crate::rotary::Layout;
use burn_cubecl::cubecl::ir::HardwareProperties;

/// The queries, and the keys, of a tile: as many as the shared memory of a device allows.
const SIDES: [usize; 2] = [64, 32];

/// Where the bias comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    None,
    ByDistance,
    Slopes,
    Pair,
    Block,
}

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    /// Whether there is a window.
    pub(super) windowed: bool,
    /// Whether there is a scale for each query.
    pub(super) scaled: bool,
    /// Whether the bias has a gradient.
    pub(super) learned: bool,
    /// Whether only some distances are read.
    pub(super) ranged: bool,
    /// Whether the log sums have a gradient.
    pub(super) log_sums_given: bool,
    /// The queries, and the keys, of a tile.
    pub(super) side: usize,
    /// The vectors of a query or key.
    pub(super) dim: usize,
    /// The vectors of a value.
    pub(super) value_dim: usize,
    /// The query heads of a key head.
    pub(super) group: usize,
    /// How q and k were turned, where their gradients go to packed rows.
    pub(super) q_turned: Turned,
    pub(super) k_turned: Turned,
}

impl Plan {
    /// The rows of a tile that a unit takes, of its own and of others.
    pub(super) const fn part(&self) -> usize {
        self.side / UNITS_A_SIDE
    }

    /// The channels of a slice. Those of own rows and of others take the place of a tile's numbers.
    pub(super) const fn depth(&self) -> usize {
        self.side / 2
    }
}

/// Which vectors of a row were turned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Turned {
    /// The pairs of vectors that were turned; the vectors behind them were not.
    pub(super) pairs: usize,
    pub(super) layout: Layout,
}

/// The bytes that a cube shares with tiles of a side and rows of so many channels: the numbers of a tile, some rows, and those of
/// the diagonals of each unit where a table of distances has a gradient.
const fn shared_memory(side: usize, channels: usize) -> usize {
    let diagonals = (2 * (side / UNITS_A_SIDE) - 1) * UNITS;
    size_of::<f32>() * (side * side + UNITS_A_SIDE * channels + diagonals)
}

// WebGPU promises so much.
const _: () = assert!(shared_memory(SIDES[1], WIDEST) <= 16_384);

/// The side of the tiles on a device, for rows of at most so many channels.
pub(super) fn side(hardware: &HardwareProperties, channels: usize) -> Option<usize> {
    let enough = hardware.max_units_per_cube as usize >= UNITS;
    let available = hardware.max_shared_memory_size;
    #[cfg(test)]
    let available = available.min(super::tests::memory());
    SIDES.into_iter().find(|side| enough && shared_memory(*side, channels) <= available)
}
