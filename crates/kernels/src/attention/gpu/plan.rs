//! What the kernels are compiled for, and what a cube needs of a device.

#[cfg(test)]
use super::tests::memory;
use super::{UNITS, UNITS_A_SIDE, WIDEST};
use crate::Precision;
use burn_cubecl::cubecl::ir::features::MmaConfig;
use burn_cubecl::cubecl::ir::{DeviceProperties, ElemType, FloatKind};
use std::env;
#[cfg(not(test))]
use std::sync::LazyLock;

/// The queries, and the keys, of a tile: as many as the shared memory of a device allows.
const SIDES: [usize; 2] = [64, 32];

/// Where the bias comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum BiasKind {
    None,
    ByDistance,
    Slopes,
    Pair,
    Block,
}

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    pub(super) kind: BiasKind,
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
    /// The matrix units that compute the products, if any do.
    pub(super) matrices: Option<Matrices>,
    /// The vectors of a query or key.
    pub(super) dim: usize,
    /// The vectors of a value.
    pub(super) value_dim: usize,
    /// The query heads of a key head.
    pub(super) group: usize,
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

    /// What matrix units multiply; f32 where there are none.
    pub(super) fn half(&self) -> ElemType {
        ElemType::Float(self.matrices.map_or(FloatKind::F32, |matrices| matrices.half))
    }

    /// The rows, columns and inner size of a product of the matrix units.
    ///
    /// # Panics
    /// There are none.
    pub(super) fn block(&self) -> (usize, usize, usize) {
        let Matrices { m, n, k, .. } = self.matrices.expect("a plan with matrix units");
        (m, n, k)
    }

    /// The channels of a row of `dim` vectors of `width`, and those of zeros behind them that fill its last block.
    pub(super) fn padded(&self, dim: usize, width: usize) -> usize {
        let (_, n, k) = self.block();
        (dim * width).next_multiple_of(n.max(k))
    }

    /// Rows of the left factors: of the channels of at most so many vectors, or of the numbers of a tile.
    pub(super) fn left_rows(&self, dim: usize, width: usize) -> usize {
        if self.matrices.is_some() { self.padded(dim, width).max(self.side) } else { 1 }
    }

    /// Vectors of the other rows.
    pub(super) fn other_vectors(&self, dim: usize, width: usize) -> usize {
        if self.matrices.is_some() { self.side * self.padded(dim, width) / width } else { 1 }
    }
}

/// Matrix units of a device: they multiply `[m, k]` and `[k, n]` halves, and add in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Matrices {
    half: FloatKind,
    m: usize,
    n: usize,
    k: usize,
}

impl Matrices {
    /// Those of a device that multiply most at once, for a precision; blocks fit into tiles of either side.
    fn of(device: &DeviceProperties, precision: Precision) -> Option<Self> {
        let half = match precision {
            Precision::F32 => return None,
            Precision::F16 => FloatKind::F16,
            Precision::Bf16 => FloatKind::BF16,
        };
        let fits = |config: &&MmaConfig| {
            let sizes = [config.m, config.n, config.k].map(|size| size as usize);
            let [half, sum] = [half, FloatKind::F32].map(ElemType::Float);
            [config.a_type, config.b_type, config.cd_type] == [half, half, sum]
                && sizes.into_iter().all(|size| BLOCKS.contains(&size))
        };
        let known = device.features.matmul.cmma.iter().filter(fits);
        // Of two that multiply as much, the squarer one.
        let best = known.max_by_key(|config| (config.m * config.n * config.k, config.m.min(config.n)))?;
        let [m, n, k] = [best.m, best.n, best.k].map(|size| size as usize);
        Some(Self { half, m, n, k })
    }

    /// The bytes that a cube shares for the factors of a product, with tiles of a side and rows of so many channels.
    fn shared_memory(&self, side: usize, channels: usize) -> usize {
        let padded = channels.next_multiple_of(self.n.max(self.k));
        2 * side * (padded + padded.max(side))
    }
}

/// The sizes of blocks that tiles are made of.
const BLOCKS: [usize; 3] = [8, 16, 32];

/// The bytes that a cube shares with tiles of a side and rows of so many channels: the numbers of a tile, some rows, and those of
/// the diagonals of each unit where a table of distances has a gradient.
const fn shared_memory(side: usize, channels: usize) -> usize {
    let diagonals = (2 * (side / UNITS_A_SIDE) - 1) * UNITS;
    size_of::<f32>() * (side * side + UNITS_A_SIDE * channels + diagonals)
}

// WebGPU promises so much.
const _: () = assert!(shared_memory(SIDES[1], WIDEST) <= 16_384);

/// How a device computes tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::attention) struct Tiles {
    pub(super) side: usize,
    pub(super) matrices: Option<Matrices>,
}

/// What every device lets a cube share, in bytes: tiles are of the shorter side.
pub(super) const LEAST: usize = 16_384;

/// Whether tests run in their long form.
pub(super) fn is_long() -> bool {
    env::var_os("LONGWAVE_GPU").is_some_and(|which| which == "all")
}

/// The most bytes that a cube may share, for tests of whole programs (`CONTRIBUTING.md`): `LONGWAVE_SHARED_MEMORY`, but for the long form, and
/// never less than every device has.
#[cfg(not(test))]
fn memory() -> usize {
    static BYTES: LazyLock<usize> = LazyLock::new(|| {
        let bytes = env::var("LONGWAVE_SHARED_MEMORY").ok().filter(|_| !is_long());
        bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(usize::MAX).max(LEAST)
    });
    *BYTES
}

/// The tiles of a device, for rows of at most so many channels: the largest for which there is memory, by matrix units if
/// these have what the precision asks for.
pub(super) fn tiles(device: &DeviceProperties, channels: usize, precision: Precision) -> Option<Tiles> {
    let hardware = &device.hardware;
    let enough = hardware.max_units_per_cube as usize >= UNITS;
    let available = hardware.max_shared_memory_size.min(memory());
    let needed = |Tiles { side, matrices }: &Tiles| {
        let factors = matrices.map_or(0, |matrices| matrices.shared_memory(*side, channels));
        shared_memory(*side, channels) + factors
    };
    let with = |matrices: Option<Matrices>| SIDES.map(|side| Tiles { side, matrices });
    let by_matrices = Matrices::of(device, precision).map(|matrices| with(Some(matrices)));
    let mut all = by_matrices.into_iter().flatten().chain(with(None));
    all.find(|tiles| enough && needed(tiles) <= available)
}
