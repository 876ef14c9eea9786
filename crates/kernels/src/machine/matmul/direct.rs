//! Products on one thread that read both factors as they lie, in registers of 512 bits.
//!
//! Attention multiplies blocks of 32 rows and heads of 32 or 64 channels. The `gemm` crate lays out both factors of each product,
//! which takes as long as a third of such a product. Here rows of the right factor are loaded as registers, and numbers of the
//! left one are spread over a register each; the left factor may be the transpose of contiguous rows, whose columns then lie
//! side by side. A small right factor that is a transpose is turned first. Sums of up to 24 registers stay in registers over [`INNER`] numbers at a time: a sum is the sum of such parts,
//! in their order. `rows.rs` lays a factor out for it that many rows share.

use super::{Matrix, transpose};
use std::cell::RefCell;

/// Numbers of a register.
const LANES: usize = 16;
/// Registers across at once.
const WIDE: usize = 4;
/// Numbers whose products are summed in registers: so many rows of the right factor stay in the second cache.
pub(super) const INNER: usize = if cfg!(miri) { 4 } else { 256 };

/// Numbers of a right factor that is turned first.
const MOST_TURNED: usize = 1 << 13;

/// Whether the right factor is made of contiguous rows, the left one of such or of their transpose, and the processor has the
/// registers.
pub(super) fn applies(left: Matrix<'_>, right: Matrix<'_>) -> bool {
    right.strides.1 == 1 && (left.strides.1 == 1 || left.strides.0 == 1) && super::has_wide_registers()
}

/// Whether the right factor is the transpose of contiguous rows, so small that turning it costs little.
pub(super) fn turns(right: Matrix<'_>) -> bool {
    right.strides.0 == 1
        && right.strides.1 > 1
        && right.rows * right.columns <= MOST_TURNED
        && super::has_wide_registers()
}

/// Calls `then` with the same matrix in contiguous rows.
pub(super) fn with_turned<T>(right: Matrix<'_>, then: impl FnOnce(Matrix<'_>) -> T) -> T {
    thread_local! {
        static TURNED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    let (rows, columns) = (right.rows, right.columns);
    // A buffer of its own for each call, should one ever come inside another.
    let mut turned = TURNED.take();
    turned.resize(turned.len().max(rows * columns), 0.0);
    transpose(right.data, columns, rows, right.strides.1, &mut turned, columns);
    let result = then(Matrix::new(&turned, rows, columns, columns));
    TURNED.set(turned);
    result
}

/// `out = factor * left * right`, or that added to numbers from `before` on, which may be those of out; the rows of both lie `stride`
/// apart.
///
/// # Safety
/// [`applies`] holds. Nothing else uses the `left.rows` rows of `right.columns` numbers that begin at `out`, and from `before` on
/// there are as many.
pub(super) unsafe fn product(
    out: *mut f32,
    stride: usize,
    before: Option<*const f32>,
    factor: f32,
    left: Matrix<'_>,
    right: Matrix<'_>,
) {
    let (rows, columns, inner) = (left.rows, right.columns, left.columns);
    let last =
        |matrix: Matrix<'_>| (matrix.rows - 1) * matrix.strides.0 + (matrix.columns - 1) * matrix.strides.1;
    assert!(rows * columns * inner > 0 && inner == right.rows);
    assert!(last(left) < left.data.len() && last(right) < right.data.len());
    for first in (0..inner).step_by(INNER) {
        let count = INNER.min(inner - first);
        for column in (0..columns).step_by(WIDE * LANES) {
            // SAFETY: inside the first row of both.
            let (out, before) = unsafe { (out.add(column), before.map(|before| before.add(column))) };
            let part = Part {
                left: left.data[first * left.strides.1..].as_ptr(),
                strides: left.strides,
                right: right.data[first * right.strides.0 + column..].as_ptr(),
                right_stride: right.strides.0,
                count,
                out,
                before: if first > 0 { Some(out.cast_const()) } else { before },
                stride,
                factor,
                wide: (WIDE * LANES).min(columns - column),
            };
            // SAFETY: all numbers of both factors lie inside their slices (asserted), and those of out by the caller's promise.
            unsafe { part.run(rows) }
        }
    }
}

/// A few columns of the product and a part of the sums.
#[derive(Clone, Copy)]
struct Part {
    left: *const f32,
    strides: (usize, usize),
    /// `count` rows of `wide` numbers.
    right: *const f32,
    right_stride: usize,
    count: usize,
    out: *mut f32,
    before: Option<*const f32>,
    stride: usize,
    factor: f32,
    wide: usize,
}

impl Part {
    /// All rows.
    ///
    /// # Safety
    /// Both factors and out have so many rows and columns, and the processor has registers of 512 bits.
    unsafe fn run(self, rows: usize) {
        // SAFETY: the caller's to hold.
        unsafe {
            match (self.wide.div_ceil(LANES), self.strides.1 == 1) {
                (1, true) => self.groups::<16, 1, false>(rows),
                (1, false) => self.groups::<16, 1, true>(rows),
                (2, true) => self.groups::<12, 2, false>(rows),
                (2, false) => self.groups::<12, 2, true>(rows),
                (3, true) => self.groups::<8, 3, false>(rows),
                (3, false) => self.groups::<8, 3, true>(rows),
                (_, true) => self.groups::<6, 4, false>(rows),
                (_, false) => self.groups::<6, 4, true>(rows),
            }
        }
    }

    /// R rows at once, and the last ones four, two and one at once.
    ///
    /// # Safety
    /// As for [`run`](Self::run), and W registers are as wide as the part.
    unsafe fn groups<const R: usize, const W: usize, const TURNED: bool>(self, rows: usize) {
        let mut row = 0;
        while row < rows {
            let left = rows - row;
            // SAFETY: the caller's to hold; there are as many rows left.
            unsafe {
                let part = self.from(row);
                row += match left {
                    _ if left >= R => part.rows::<R, W, TURNED>(),
                    _ if left >= 8 && R > 8 => part.rows::<8, W, TURNED>(),
                    4.. => part.rows::<4, W, TURNED>(),
                    2.. => part.rows::<2, W, TURNED>(),
                    _ => part.rows::<1, W, TURNED>(),
                };
            }
        }
    }

    /// The part from a row on.
    ///
    /// # Safety
    /// There is such a row.
    unsafe fn from(self, row: usize) -> Self {
        // SAFETY: the caller's to hold.
        unsafe {
            let before = self.before.map(|before| before.add(row * self.stride));
            Self {
                left: self.left.add(row * self.strides.0),
                out: self.out.add(row * self.stride),
                before,
                ..self
            }
        }
    }

    /// Writes R rows; gives R.
    ///
    /// # Safety
    /// As for [`groups`](Self::groups).
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx512f")]
    unsafe fn rows<const R: usize, const W: usize, const TURNED: bool>(self) -> usize {
        use std::arch::x86_64::{
            __mmask16, _mm512_add_ps, _mm512_fmadd_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
            _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps,
        };
        let mut masks: [__mmask16; W] = [0; W];
        for (at, mask) in masks.iter_mut().enumerate() {
            *mask = ((1_u32 << (self.wide - at * LANES).min(LANES)) - 1) as __mmask16;
        }
        // One of the two is known to be 1, so that its multiples are part of the instructions.
        let (step, along) = if TURNED { (1, self.strides.1) } else { (self.strides.0, 1) };
        let mut sums = [[_mm512_setzero_ps(); W]; R];
        // SAFETY: as many rows as the caller promises, and of each only the columns that the masks let through. Nothing here can
        // overflow, and checks for it would take the sums out of their registers.
        unsafe {
            let (mut left, mut right) = (self.left, self.right);
            for _ in 0..self.count {
                let mut numbers = [_mm512_setzero_ps(); W];
                for (at, numbers) in numbers.iter_mut().enumerate() {
                    *numbers = _mm512_maskz_loadu_ps(masks[at], right.wrapping_add(at * LANES));
                }
                let mut from = left;
                for sums in &mut sums {
                    let number = _mm512_set1_ps(*from);
                    for (sum, right) in sums.iter_mut().zip(numbers) {
                        *sum = _mm512_fmadd_ps(number, right, *sum);
                    }
                    from = from.wrapping_add(step);
                }
                left = left.wrapping_add(along);
                right = right.wrapping_add(self.right_stride);
            }
            let factor = _mm512_set1_ps(self.factor);
            for (row, sums) in sums.iter().enumerate() {
                for (at, sum) in sums.iter().enumerate() {
                    let offset = row * self.stride + at * LANES;
                    let mut sum = _mm512_mul_ps(*sum, factor);
                    if let Some(before) = self.before {
                        sum =
                            _mm512_add_ps(_mm512_maskz_loadu_ps(masks[at], before.wrapping_add(offset)), sum);
                    }
                    _mm512_mask_storeu_ps(self.out.wrapping_add(offset), masks[at], sum);
                }
            }
        }
        R
    }

    /// The same in plain loops, for Miri.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    unsafe fn rows<const R: usize, const W: usize, const TURNED: bool>(self) -> usize {
        assert!(self.wide <= W * LANES && if TURNED { self.strides.0 == 1 } else { self.strides.1 == 1 });
        for (row, column) in (0..R).flat_map(|row| (0..self.wide).map(move |column| (row, column))) {
            // SAFETY: the caller's to hold.
            unsafe {
                let terms = (0..self.count).map(|index| {
                    let left = *self.left.add(row * self.strides.0 + index * self.strides.1);
                    (left, *self.right.add(index * self.right_stride + column))
                });
                let sum = self.factor * terms.fold(0.0_f32, |sum, (left, right)| left.mul_add(right, sum));
                let offset = row * self.stride + column;
                self.out.add(offset).write(self.before.map_or(0.0, |before| *before.add(offset)) + sum);
            }
        }
        R
    }
}
