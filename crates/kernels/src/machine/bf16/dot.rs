//! Sums of products of bf16 pairs by the processor's own instruction.

use super::Bf16Matrix;
use super::panels::{COLUMNS, Panels};
use std::sync::LazyLock;

/// Rows whose sums are kept in registers at once: with four registers a row, 24 of 32.
pub(super) const ROWS: usize = 6;

/// Rows of a tile of rows that may begin anywhere: whole registers.
pub(super) const TILE_ROWS: usize = COLUMNS / ROWS * ROWS;

/// What multiplies bf16 numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    /// The processor's dot products of bf16 pairs.
    Dot,
    /// f32 arithmetic on the same numbers.
    Widened,
}

/// What this processor has.
pub(crate) fn arithmetic() -> Arithmetic {
    static ARITHMETIC: LazyLock<Arithmetic> = LazyLock::new(|| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx512bf16") && is_x86_feature_detected!("avx512f") {
            return Arithmetic::Dot;
        }
        Arithmetic::Widened
    });
    *ARITHMETIC
}

/// The left matrix of a product, `[rows, inner]`: pairs of a row where they lie, or in panels.
#[derive(Debug)]
pub(super) enum Left<'a> {
    /// Contiguous rows of an even number of numbers.
    Rows(Bf16Matrix<'a>),
    /// Its transpose in panels.
    Panels(Panels),
    /// Its transpose, which is one panel.
    Panel(&'a [u32]),
}

impl<'a> Left<'a> {
    pub(super) fn new(matrix: Bf16Matrix<'a>) -> Self {
        if matrix.turned || matrix.columns % 2 == 1 {
            return Self::Panels(Panels::new(matrix.transposed()));
        }
        Self::Rows(matrix)
    }

    /// Rows of a tile of the product: whole registers where rows may begin anywhere, and else those of a panel.
    pub(super) fn tile_rows(&self) -> usize {
        match self {
            Self::Rows(_) => TILE_ROWS,
            Self::Panels(_) | Self::Panel(_) => COLUMNS,
        }
    }

    /// Sums `[count, COLUMNS]` of products with a part of a panel, that begins at pair `first`: written, or added to what
    /// is there.
    pub(super) fn add(
        &self,
        row: usize,
        count: usize,
        first: usize,
        panel: &[u32],
        sums: &mut [f32],
        add: bool,
    ) {
        let pairs = panel.len() / COLUMNS;
        let (start, words, row_step, pair_step) = match self {
            Self::Rows(matrix) => {
                let numbers = &matrix.data[row * matrix.columns + 2 * first..];
                #[allow(clippy::cast_ptr_alignment, reason = "words are read from any address")]
                (numbers.as_ptr().cast::<u32>(), numbers.len() / 2, matrix.columns / 2, 1)
            }
            Self::Panels(panels) => {
                assert!(row % COLUMNS + count <= COLUMNS, "rows of one panel");
                let words = panels.from(row, first);
                (words.as_ptr(), words.len(), 1, COLUMNS)
            }
            Self::Panel(words) => {
                assert!(row + count <= COLUMNS, "rows of one panel");
                let words = &words[first * COLUMNS + row..];
                (words.as_ptr(), words.len(), 1, COLUMNS)
            }
        };
        assert!((1..=ROWS).contains(&count) && sums.len() == count * COLUMNS);
        assert!((count - 1) * row_step + (pairs - 1) * pair_step < words);
        let pairs = Pairs { start, row_step, pair_step };
        // SAFETY: the last pair of the last row lies inside (asserted), and so does every other; sums has as many rows.
        unsafe { pairs.add(count, panel, sums, add) }
    }
}

/// Pairs of some rows, each a word: pair p of row r lies `r * row_step + p * pair_step` words after the first, at any
/// address.
#[derive(Clone, Copy)]
struct Pairs {
    start: *const u32,
    row_step: usize,
    pair_step: usize,
}

impl Pairs {
    /// Sums of `count` rows, at most [`ROWS`], with a panel.
    ///
    /// # Safety
    /// There are as many rows of as many pairs as the panel has, and sums has `count * COLUMNS` numbers.
    unsafe fn add(self, count: usize, panel: &[u32], sums: &mut [f32], add: bool) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if arithmetic() == Arithmetic::Dot {
            // SAFETY: the processor has the instructions, and the rest is the caller's to hold.
            return unsafe {
                match count {
                    1 => add_rows::<1>(self, panel, sums, add),
                    2 => add_rows::<2>(self, panel, sums, add),
                    3 => add_rows::<3>(self, panel, sums, add),
                    4 => add_rows::<4>(self, panel, sums, add),
                    5 => add_rows::<5>(self, panel, sums, add),
                    _ => add_rows::<6>(self, panel, sums, add),
                }
            };
        }
        // SAFETY: the caller's to hold.
        unsafe { self.add_plainly(count, panel, sums, add) }
    }

    /// The same in plain arithmetic: for tests of everything around the instruction where there is none.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    unsafe fn add_plainly(self, count: usize, panel: &[u32], sums: &mut [f32], add: bool) {
        let halves = |word: u32| [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)];
        for (row, sums) in sums.chunks_exact_mut(COLUMNS).take(count).enumerate() {
            if !add {
                sums.fill(0.0);
            }
            for (index, words) in panel.chunks_exact(COLUMNS).enumerate() {
                let offset = row * self.row_step + index * self.pair_step;
                // SAFETY: the caller's to hold.
                let [a, b] = halves(unsafe { self.start.add(offset).read_unaligned() });
                for (sum, word) in sums.iter_mut().zip(words) {
                    let [upper, lower] = halves(*word);
                    *sum += b * lower;
                    *sum += a * upper;
                }
            }
        }
    }
}

/// [`Pairs::add`] for R rows.
///
/// # Safety
/// As there, and the processor has AVX512-BF16.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn add_rows<const R: usize>(pairs: Pairs, panel: &[u32], sums: &mut [f32], add: bool) {
    use std::arch::x86_64::{
        __m512bh, __m512i, _mm512_dpbf16_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_set1_epi32,
        _mm512_setzero_ps, _mm512_setzero_si512, _mm512_storeu_ps,
    };
    const LANES: usize = 16;
    const WIDE: usize = COLUMNS / LANES;
    let bf16s = |x: __m512i| -> __m512bh {
        // SAFETY: two types of the same 512 bits.
        unsafe { std::mem::transmute(x) }
    };
    let mut rows = [[_mm512_setzero_ps(); WIDE]; R];
    // SAFETY: R rows of sums, and all pairs of the panel, as the caller promises. Nothing here can overflow, and checks
    // for it would take the sums out of their registers.
    unsafe {
        let out = sums.as_mut_ptr();
        if add {
            for (row, sums) in rows.iter_mut().enumerate() {
                for (at, sums) in sums.iter_mut().enumerate() {
                    *sums = _mm512_loadu_ps(out.wrapping_add(row * COLUMNS + at * LANES));
                }
            }
        }
        let mut left = pairs.start;
        for words in panel.as_chunks::<COLUMNS>().0 {
            let mut right = [_mm512_setzero_si512(); WIDE];
            for (at, right) in right.iter_mut().enumerate() {
                *right = _mm512_loadu_si512(words.as_ptr().wrapping_add(at * LANES).cast());
            }
            let mut from = left;
            for sums in &mut rows {
                let pair = _mm512_set1_epi32(from.read_unaligned().cast_signed());
                for (sums, right) in sums.iter_mut().zip(right) {
                    *sums = _mm512_dpbf16_ps(*sums, bf16s(pair), bf16s(right));
                }
                from = from.wrapping_add(pairs.row_step);
            }
            left = left.wrapping_add(pairs.pair_step);
        }
        for (row, sums) in rows.iter().enumerate() {
            for (at, sums) in sums.iter().enumerate() {
                _mm512_storeu_ps(out.wrapping_add(row * COLUMNS + at * LANES), *sums);
            }
        }
    }
}
