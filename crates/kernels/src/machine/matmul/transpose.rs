//! Transposes, in tiles of 16 x 16 numbers.
//!
//! In registers of 512 bits a tile takes 64 shuffles, which is a few times as fast as what the compiler makes of the loops.

use crate::machine::simd::{LANES, vectorised};

/// Writes the transpose of `rows` rows, `x_stride` apart, of `columns` numbers, in rows that lie `out_stride` apart.
///
/// # Panics
/// x or out is too short.
pub(super) fn transpose(
    x: &[f32],
    rows: usize,
    columns: usize,
    x_stride: usize,
    out: &mut [f32],
    out_stride: usize,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(x.len() >= (rows - 1) * x_stride + columns && out.len() >= (columns - 1) * out_stride + rows);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if super::has_wide_registers() {
        let [high, wide] = [rows, columns].map(|count| count / LANES * LANES);
        // SAFETY: the processor has the registers, and both slices hold all tiles (asserted).
        unsafe { by_tiles::tiles(x, [high, wide], x_stride, out, out_stride) };
        // Tiles do not cover the last columns, and of the other columns not the last rows.
        let last = &mut out[wide.min(columns - 1) * out_stride..];
        in_loops(&x[wide.min(columns - 1)..], rows, columns - wide, x_stride, last, out_stride);
        let last = &x[high.min(rows - 1) * x_stride..];
        return in_loops(last, rows - high, wide, x_stride, &mut out[high.min(rows - 1)..], out_stride);
    }
    in_loops(x, rows, columns, x_stride, out, out_stride);
}

vectorised! {
    fn in_loops(x: &[f32], rows: usize, columns: usize, x_stride: usize, out: &mut [f32], out_stride: usize) {
        for first in (0..rows).step_by(LANES) {
            let count = LANES.min(rows - first);
            for from in (0..columns).step_by(LANES) {
                let wide = LANES.min(columns - from);
                let x = &x[first * x_stride + from..];
                let out = &mut out[from * out_stride + first..];
                if count == LANES && wide == LANES {
                    // A whole tile: with both sizes known, whole lines are read and written.
                    let mut tile = [[0.0_f32; LANES]; LANES];
                    for (row, tile) in tile.iter_mut().enumerate() {
                        tile.copy_from_slice(&x[row * x_stride..row * x_stride + LANES]);
                    }
                    for column in 0..LANES {
                        let out = &mut out[column * out_stride..column * out_stride + LANES];
                        for lane in 0..LANES {
                            out[lane] = tile[lane][column];
                        }
                    }
                } else {
                    for column in 0..wide {
                        for row in 0..count {
                            out[column * out_stride + row] = x[row * x_stride + column];
                        }
                    }
                }
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod by_tiles {
    use super::LANES;
    use std::arch::x86_64::{
        __m512, _mm512_castpd_ps, _mm512_castps_pd, _mm512_loadu_ps, _mm512_setzero_ps, _mm512_shuffle_f32x4,
        _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
    };

    /// Whole tiles, of so many rows and columns together.
    ///
    /// # Safety
    /// x and out hold them, and the processor has registers of 512 bits.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn tiles(
        x: &[f32],
        [rows, columns]: [usize; 2],
        x_stride: usize,
        out: &mut [f32],
        out_stride: usize,
    ) {
        for first in (0..rows).step_by(LANES) {
            for from in (0..columns).step_by(LANES) {
                let mut tile = [_mm512_setzero_ps(); LANES];
                // SAFETY: 16 numbers of each of 16 rows lie inside both, as the caller promises.
                unsafe {
                    let x = x.as_ptr().add(first * x_stride + from);
                    for (row, tile) in tile.iter_mut().enumerate() {
                        *tile = _mm512_loadu_ps(x.add(row * x_stride));
                    }
                    let out = out.as_mut_ptr().add(from * out_stride + first);
                    for (row, turned) in turned(&tile).into_iter().enumerate() {
                        _mm512_storeu_ps(out.add(row * out_stride), turned);
                    }
                }
            }
        }
    }

    /// The transpose of a tile: numbers, then pairs, change places inside quarters of four rows; then the quarters do.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn turned(rows: &[__m512; LANES]) -> [__m512; LANES] {
        let mut quarters = [_mm512_setzero_ps(); LANES];
        for four in (0..LANES).step_by(4) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|row| rows[four + row]);
            let [low, high] =
                [_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)].map(|x| _mm512_castps_pd(x));
            let [next_low, next_high] =
                [_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)].map(|x| _mm512_castps_pd(x));
            // In each quarter of register n: column n of that quarter, of the four rows.
            quarters[four] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, next_low));
            quarters[four + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, next_low));
            quarters[four + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high, next_high));
            quarters[four + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high, next_high));
        }
        let mut out = [_mm512_setzero_ps(); LANES];
        for column in 0..4 {
            let [a, b, c, d] = [0, 4, 8, 12].map(|four| quarters[four + column]);
            // Quarters 0 and 2, and 1 and 3, of two registers each.
            let even = [_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0x88>(c, d)];
            let odd = [_mm512_shuffle_f32x4::<0xdd>(a, b), _mm512_shuffle_f32x4::<0xdd>(c, d)];
            out[column] = _mm512_shuffle_f32x4::<0x88>(even[0], even[1]);
            out[column + 4] = _mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]);
            out[column + 8] = _mm512_shuffle_f32x4::<0xdd>(even[0], even[1]);
            out[column + 12] = _mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;

    #[test]
    fn every_number_takes_its_place() {
        for (rows, columns) in [(0, 3), (1, 1), (16, 16), (32, 48), (33, 17), (5, 40), (50, 31), (47, 64)] {
            let (x_stride, out_stride) = (columns + 2, rows + 3);
            let (x, before) =
                (numbers(1, rows * x_stride + columns), numbers(2, columns * out_stride + rows));
            for turn in [transpose, in_loops] {
                let mut out = before.clone();
                turn(&x, rows, columns, x_stride, &mut out, out_stride);
                for (index, (out, before)) in out.iter().zip(&before).enumerate() {
                    let (column, row) = (index / out_stride, index % out_stride);
                    let inside = row < rows && column < columns;
                    let expected = if inside { x[row * x_stride + column] } else { *before };
                    assert_eq!(out.to_bits(), expected.to_bits(), "{rows} x {columns}: {row}, {column}");
                }
            }
        }
    }
}
