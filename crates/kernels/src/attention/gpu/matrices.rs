//! The two products of a tile by the matrix units of a device: of f16 or bf16, with sums in f32.
//!
//! Only where the model trains in that precision ([`Attention::precision`](crate::attention::Attention)), and the device
//! tells of such units (`plan.rs`). Channels of own rows, or the numbers of a tile, lie in shared memory as the left factor
//! `[inner, own rows]`; other rows, as they lie, are the right one. Both are rounded on their way there. The planes of a cube
//! share the blocks of the product among them. A unit takes its numbers from where the product is laid down, and goes on in
//! f32: the scores, the softmax and the sums of tiles are the same as without matrix units.
//!
//! Hidden pairs are multiplied by 0 here, and not left out: a value that is no number reaches all queries of its tile.

use super::memory::{Memory, TileRows};
use super::products::{self, columns};
use super::tile::{Own, Tile, other_group, own_group};
use super::{Plan, Sizes, UNITS, UNITS_A_SIDE};
use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// The factors of a product, which a cube shares.
#[derive(CubeType)]
pub(super) struct Halves<H: Float, N: Size, P: Size> {
    /// The left factor: for each channel, or each other row, all own rows, in vectors of as many as a unit takes.
    left: Shared<[Vector<H, P>]>,
    /// Other rows, one after the other.
    other: Shared<[Vector<H, N>]>,
}

#[cube]
impl<H: Float, N: Size, P: Size> Halves<H, N, P> {
    pub(super) fn new(#[comptime] plan: Plan) -> Halves<H, N, P> {
        let width = N::value();
        let most = comptime!(plan.dim.max(plan.value_dim));
        Halves::<H, N, P> {
            left: Shared::<[Vector<H, P>]>::new_slice(comptime!(plan.left_rows(most, width) * UNITS_A_SIDE)),
            other: Shared::<[Vector<H, N>]>::new_slice(comptime!(plan.other_vectors(most, width))),
        }
    }

    /// Brings the channels of own rows. The caller waits for all units.
    fn bring_own(&mut self, rows: &TileRows<'_, N>, #[comptime] dim: usize, #[comptime] plan: Plan) {
        let width = N::value();
        let items = comptime!(plan.padded(dim, width) / width * UNITS_A_SIDE);
        let mut item = UNIT_POS as usize;
        while item < items {
            let group = item % UNITS_A_SIDE;
            let vector = item / UNITS_A_SIDE;
            let channels = rows.turned::<P>(group * plan.part(), vector, dim, plan);
            #[unroll]
            for channel in 0..width {
                let place = (vector * width + channel) * UNITS_A_SIDE + group;
                self.left[place] = Vector::cast_from(channels[channel]);
            }
            item += UNITS;
        }
    }

    /// Brings other rows. The caller waits for all units.
    fn bring_other(&mut self, rows: &TileRows<'_, N>, #[comptime] dim: usize, #[comptime] plan: Plan) {
        let width = N::value();
        let vectors = comptime!(plan.padded(dim, width) / width);
        let mut item = UNIT_POS as usize;
        while item < comptime!(plan.side * vectors) {
            self.other[item] = Vector::cast_from(rows.vector(item / vectors, item % vectors, dim));
            item += UNITS;
        }
    }

    /// Lays down in `square`, for each column of `across` from `first` on, its products with all own rows.
    ///
    /// The left factor has `inner` rows. The other one has rows of `wide` numbers, which are its columns where channels are
    /// summed over, and its rows where other rows are.
    fn multiply(
        &self,
        square: &mut Shared<[Vector<f32, P>]>,
        first: usize,
        #[comptime] inner: usize,
        #[comptime] across: usize,
        #[comptime] wide: usize,
        #[comptime] by_channels: bool,
        #[comptime] plan: Plan,
    ) {
        let (width, part) = (N::value(), P::value());
        let (m, n, k) = comptime!(plan.block());
        let down = comptime!(plan.side / m);
        let layout =
            comptime!(if by_channels { cmma::MatrixLayout::ColMajor } else { cmma::MatrixLayout::RowMajor });
        let (left_end, other_end, square_end) = (self.left.len(), self.other.len(), square.len());
        let mut block = PLANE_POS as usize;
        while block < comptime!(down * (across / n)) {
            let row = block % down * m;
            let column = block / down * n;
            let sums = cmma::Matrix::<f32>::from_value(
                cmma::MatrixIdent::Accumulator,
                m,
                n,
                k,
                cmma::MatrixLayout::Undefined,
                0.0,
            );
            for step in 0..comptime!(inner / k) {
                let at = step * k;
                let left = cmma::Matrix::<Vector<H, P>>::from_slice(
                    cmma::MatrixIdent::A,
                    m,
                    n,
                    k,
                    cmma::MatrixLayout::ColMajor,
                    &self.left[(at * plan.side + row) / part..left_end],
                    comptime!(plan.side as u32),
                );
                let from = if comptime!(by_channels) {
                    (column * wide + at) / width
                } else {
                    (at * wide + first + column) / width
                };
                let other = cmma::Matrix::<Vector<H, N>>::from_slice(
                    cmma::MatrixIdent::B,
                    m,
                    n,
                    k,
                    layout,
                    &self.other[from..other_end],
                    comptime!(wide as u32),
                );
                cmma::execute(&left, &other, &sums, &sums);
            }
            cmma::store(
                &mut square[(column * plan.side + row) / part..square_end],
                &sums,
                comptime!(plan.side as u32),
                cmma::MatrixLayout::ColMajor,
            );
            block += UNITS / PLANE_DIM as usize;
        }
    }
}

/// [`products::over_channels`], by matrix units where the plan has them.
#[cube]
pub(super) fn over_channels<N: Size, P: Size, H: Float>(
    own: &TileRows<'_, N>,
    other: &TileRows<'_, N>,
    memory: &mut Memory<N, P>,
    halves: &mut Halves<H, N, P>,
    #[comptime] dim: usize,
    #[comptime] plan: Plan,
) -> Array<Vector<f32, P>> {
    if comptime!(plan.matrices.is_none()) {
        products::over_channels::<N, P>(own, other, memory, dim, plan)
    } else {
        let width = N::value();
        let wide = comptime!(plan.padded(dim, width));
        sync_cube();
        halves.bring_own(own, dim, plan);
        halves.bring_other(other, dim, plan);
        sync_cube();
        halves.multiply(&mut memory.square, 0usize, wide, plan.side, wide, true, plan);
        sync_cube();
        let mut products = Array::<Vector<f32, P>>::new(plan.part());
        #[unroll]
        for j in 0..plan.part() {
            let other = other_group() * plan.part() + j;
            products[j] = memory.square[other * UNITS_A_SIDE + own_group()];
        }
        products
    }
}

/// Lays out the numbers of a tile, and adds what [`products::over_rows`] does, by matrix units where the plan has them.
#[cube]
pub(super) fn over_rows<N: Size, P: Size, H: Float>(
    pairs: &Array<Vector<f32, P>>,
    other: &TileRows<'_, N>,
    tile: Tile,
    memory: &mut Memory<N, P>,
    halves: &mut Halves<H, N, P>,
    sums: &mut Array<Vector<f32, N>>,
    sizes: Sizes,
    #[comptime] owner: Own,
    #[comptime] dim: usize,
    #[comptime] plan: Plan,
) {
    if comptime!(plan.matrices.is_none()) {
        memory.lay_out(pairs, plan);
        products::over_rows::<N, P>(other, tile, memory, sums, sizes, owner, dim, plan);
    } else {
        let width = N::value();
        let wide = comptime!(plan.padded(dim, width));
        sync_cube();
        #[unroll]
        for j in 0..plan.part() {
            let row = other_group() * plan.part() + j;
            halves.left[row * UNITS_A_SIDE + own_group()] = Vector::cast_from(pairs[j]);
        }
        halves.bring_other(other, dim, plan);
        #[unroll]
        for slice in 0..comptime!(wide.div_ceil(plan.side)) {
            let first = comptime!(slice * plan.side);
            let across = comptime!(plan.side.min(wide - first));
            sync_cube();
            halves.multiply(&mut memory.square, first, plan.side, across, wide, false, plan);
            sync_cube();
            add_slice::<N, P>(memory, sums, first, across, dim, plan);
        }
    }
}

/// Adds a unit's numbers of the `across` channels that were laid down, of which `first` is the first.
#[cube]
fn add_slice<N: Size, P: Size>(
    memory: &mut Memory<N, P>,
    sums: &mut Array<Vector<f32, N>>,
    #[comptime] first: usize,
    #[comptime] across: usize,
    #[comptime] dim: usize,
    #[comptime] plan: Plan,
) {
    let width = N::value();
    #[unroll]
    for column in 0..comptime!(columns(dim)) {
        let channel = (column * UNITS_A_SIDE + other_group()) * width;
        if channel >= first && channel < comptime!(first + across) {
            #[unroll]
            for lane in 0..width {
                let own = memory.square[(channel + lane - first) * UNITS_A_SIDE + own_group()];
                #[unroll]
                for i in 0..plan.part() {
                    let place = comptime!(column * plan.part() + i);
                    let mut sum = sums[place];
                    let added = sum.extract(lane) + own.extract(i);
                    sum.insert(lane, added);
                    sums[place] = sum;
                }
            }
        }
    }
}
