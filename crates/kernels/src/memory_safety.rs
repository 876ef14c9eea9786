//! Small inputs for every piece of unsafe code that a CPU runs: what Miri interprets (`sh tests/sanitize.sh miri`).
//!
//! Under Miri, work is cut into small parts, and small buffers are written past the caches (the constants of `buffers`,
//! `matmul` and `rotary::cpu`). So these inputs reach the code that large ones reach elsewhere. All numbers are
//! small and whole, so that every sum is exact.

#![allow(clippy::float_cmp, reason = "sums of small whole numbers are exact")]

use crate::machine::bf16::{Arithmetic, Bf16Matrix, matmul_rounded, product, round, rounded, widen};
use crate::machine::buffers::{computed, written_beside};
use crate::machine::matmul::{Matrix, STRIP, SharedMatrix, matmul, parallel_matmul};
use crate::testing::list;
use crate::{Heads, Layout, Precision, RotationTable, head_loss, rotate, split_rotate, with_gradients};
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Runs `work` on threads that share it, also where the machine has one core.
fn on_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    crate::testing::on_threads(2, work)
}

/// -3, -2, .. 3, -3, ..
fn whole_numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| (n % 7) as f32 - 3.0).collect()
}

fn tensor<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::from_data(TensorData::new(whole_numbers(shape.iter().product()), shape), &Device::flex())
}

#[test]
fn buffers_are_filled_by_several_threads() {
    // Within the caches and, under Miri, past them; chunks that begin anywhere, and a short last one.
    for (count, chunk) in [(0, 4), (5, 1), (50, 16), (150, 16), (150, 7), (70, 100)] {
        let made = on_threads(|| {
            computed(count, chunk, |index, chunk_values| {
                assert!(chunk_values.iter().all(|x| x.to_bits() == 0), "chunks come with zeros");
                for (n, x) in chunk_values.iter_mut().enumerate().skip(index % 2) {
                    *x = (index * chunk + n) as f32;
                }
            })
        });
        let expected: Vec<f32> =
            (0..count).map(|n| if n % chunk == 0 && n / chunk % 2 == 1 { 0.0 } else { n as f32 }).collect();
        assert_eq!(made, expected, "{count} in chunks of {chunk}");
    }
}

/// Sizes around those of tiles, and transposes of both factors, so that pairs are read from rows and from panels.
#[test]
fn products_of_bf16_are_made_by_several_threads() {
    for sizes in [[1, 1, 1], [7, 66, 3], [9, 5, 12], [66, 3, 10]] {
        let [rows, columns, inner] = sizes;
        let (left, right) = (whole_numbers(rows * inner), whole_numbers(inner * columns));
        let expected = expected_product(&left, &right, sizes, &vec![0.0; rows * columns]);
        let (a, b) = (rounded(&left), rounded(&right));
        let (a_turned, b_turned) =
            (rounded(&by_columns(&left, rows, inner)), rounded(&by_columns(&right, inner, columns)));
        let lefts = [Bf16Matrix::new(&a, rows, inner), Bf16Matrix::new(&a_turned, inner, rows).transposed()];
        let rights =
            [Bf16Matrix::new(&b, inner, columns), Bf16Matrix::new(&b_turned, columns, inner).transposed()];
        for (left, right) in lefts.into_iter().flat_map(|left| rights.map(|right| (left, right))) {
            let sums = on_threads(|| {
                product(Arithmetic::Dot, left, right, |_, sums, out| {
                    out.write_copy_of_slice(sums);
                })
            });
            assert_eq!(sums, expected, "{sizes:?}");
        }
    }
    let halves = on_threads(|| {
        written_beside(50, 16, (0..4_usize).into_par_iter(), |index, chunk, beside| {
            chunk.fill(MaybeUninit::new(round((index + beside) as f32)));
        })
    });
    assert!(halves.iter().enumerate().all(|(n, half)| widen(*half) == (n / 16 * 2) as f32));
}

/// `onto + left * right` by definition.
fn expected_product(
    left: &[f32],
    right: &[f32],
    [rows, columns, inner]: [usize; 3],
    onto: &[f32],
) -> Vec<f32> {
    let element = |row: usize, column: usize| {
        let terms = (0..inner).map(|n| left[row * inner + n] * right[n * columns + column]);
        onto[row * columns + column] + terms.sum::<f32>()
    };
    (0..rows * columns).map(|index| element(index / columns, index % columns)).collect()
}

/// The values of a `[rows, columns]` matrix, column by column.
fn by_columns(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..rows * columns).map(|index| values[index % rows * columns + index / rows]).collect()
}

#[test]
fn tiles_of_a_product_cover_it_once() {
    // One tile, tiles of whole rows, tiles of some columns, and edges that no tile fills.
    for shape @ [rows, columns, inner] in [[3, 5, 2], [18, 3, 2], [5, 9, 7], [2, 9, 4]] {
        let (left, right) = (whole_numbers(rows * inner), whole_numbers(inner * columns));
        let (left_turned, right_turned) =
            (by_columns(&left, rows, inner), by_columns(&right, inner, columns));
        let lefts = [
            Matrix::new(&left, rows, inner, inner),
            Matrix::new(&left_turned, inner, rows, rows).transposed(),
        ];
        let rights = [
            Matrix::new(&right, inner, columns, columns),
            Matrix::new(&right_turned, columns, inner, inner).transposed(),
        ];
        let onto = whole_numbers(rows * columns);
        let from_zero = expected_product(&left, &right, shape, &vec![0.0; rows * columns]);
        let added = expected_product(&left, &right, shape, &onto);
        for (left, right) in [(lefts[0], rights[0]), (lefts[1], rights[0]), (lefts[0], rights[1])] {
            assert!(on_threads(|| parallel_matmul(left, right, None)) == from_zero, "{shape:?}");
            assert!(on_threads(|| parallel_matmul(left, right, Some(&onto))) == added, "{shape:?} onto");
            let mut alone = onto.clone();
            matmul(&mut alone, columns, true, 1.0, left, right);
            assert!(alone == added, "{shape:?} on one thread");
        }
    }
}

/// Odd sizes, whose last pairs are half empty, and more columns than registers hold.
#[test]
fn small_products_of_rounded_numbers_add_in_place() {
    for shape @ [rows, columns, inner] in [[1, 1, 1], [3, 5, 2], [7, 66, 9], [13, 17, 5]] {
        let (left, right) = (whole_numbers(rows * inner), whole_numbers(inner * columns));
        let turned = by_columns(&left, rows, inner);
        let onto = whole_numbers(rows * columns);
        let expected = expected_product(&left, &right, shape, &onto);
        let right = Matrix::new(&right, inner, columns, columns);
        for left in
            [Matrix::new(&left, rows, inner, inner), Matrix::new(&turned, inner, rows, rows).transposed()]
        {
            let mut out = onto.clone();
            matmul_rounded(&mut out, columns, true, 1.0, left, right);
            assert!(out == expected, "{shape:?}");
        }
    }
}

/// A matrix laid out for products, and a strip as it lies, onto numbers that are added to in place.
#[test]
fn products_with_a_shared_matrix_add_in_place() {
    for shape @ [rows, columns, inner] in [[3, 5, 2], [7, 66, 9], [13, STRIP, 5]] {
        let (left, right) = (whole_numbers(rows * inner), whole_numbers(inner * columns));
        let from_zero = expected_product(&left, &right, shape, &vec![0.0; rows * columns]);
        let twice = expected_product(&left, &right, shape, &from_zero);
        let matrix = Matrix::new(&right, inner, columns, columns);
        let mut shared = vec![SharedMatrix::new(matrix)];
        if columns == STRIP {
            shared.push(SharedMatrix::strip(&right));
        }
        for shared in shared {
            let mut out = vec![f32::NAN; rows * columns];
            shared.product(Matrix::new(&left, rows, inner, inner), &mut out, false);
            assert!(out == from_zero, "{shape:?}");
            shared.product(Matrix::new(&left, rows, inner, inner), &mut out, true);
            assert!(out == twice, "{shape:?} onto");
        }
    }
}

/// Blocks of tiles, whose rows and strips are used again, in both arithmetics.
#[test]
fn the_head_is_computed_by_several_threads() {
    for precision in [Precision::F32, Precision::Bf16] {
        let hidden = Tensor::<3>::from_inner(tensor([1, 30, 3])).require_grad();
        let weight = Tensor::<2>::from_inner(tensor([3, 66])).require_grad();
        let targets = Tensor::from_ints([5; 30], &hidden.device());
        let loss = on_threads(|| head_loss(hidden.clone(), weight.clone(), targets, None, precision));
        let gradients = loss.backward();
        // The logits of a row keep their softmax where all move alike.
        let gradient = list(weight.grad(&gradients).unwrap());
        assert!(gradient.chunks(66).all(|channel| channel.iter().sum::<f32>().abs() < 0.02), "{precision}");
        assert!(list(hidden.grad(&gradients).unwrap()).iter().all(|x| x.is_finite()));
    }
}

#[test]
fn a_product_leaves_what_lies_between_its_rows() {
    let (left, right) = (whole_numbers(3 * 2), whole_numbers(2 * 4));
    let (a, b) = (Matrix::new(&left, 3, 2, 2), Matrix::new(&right, 2, 4, 4));
    let expected = expected_product(&left, &right, [3, 4, 2], &[0.0; 12]);
    // Rows of 4, 6 apart; the last one ends with the buffer.
    let mut out = vec![0.5; 2 * 6 + 4];
    matmul(&mut out, 6, false, 2.0, a, b);
    matmul(&mut out, 6, true, 1.0, a, b);
    for (row, out) in out.chunks(6).enumerate() {
        for (column, x) in out.iter().enumerate() {
            let expected = if column < 4 { 3.0 * expected[row * 4 + column] } else { 0.5 };
            assert!(*x == expected, "{row}, {column}: {x}, expected {expected}");
        }
    }
}

/// Every pair turned by a right angle: (a, b) becomes (-b, a), exactly.
fn quarter_turns(length: usize, half: usize, layout: Layout) -> RotationTable {
    let of = |x: f32| Tensor::<3>::full([1, length, half], x, &Device::flex());
    RotationTable { cos: of(0.0), sin: of(1.0), layout }
}

/// A row after such a turn of its first `2 * half` channels.
fn turned(row: &[f32], half: usize, layout: Layout) -> Vec<f32> {
    let mut out = row.to_vec();
    for pair in 0..half {
        let (a, b) = match layout {
            Layout::Half => (pair, pair + half),
            Layout::Interleaved => (2 * pair, 2 * pair + 1),
        };
        (out[a], out[b]) = (-row[b], row[a]);
    }
    out
}

#[test]
fn rotations_write_every_row_once() {
    for layout in [Layout::Half, Layout::Interleaved] {
        // Whole lanes and a few channels more; within the caches and, under Miri, past them.
        for (shape, half) in [([1, 1, 3, 6], 2), ([2, 2, 5, 6], 3), ([1, 2, 2, 35], 16), ([1, 1, 3, 32], 16)]
        {
            let x = tensor(shape);
            let out = on_threads(|| rotate(x.clone(), &quarter_turns(shape[2], half, layout)));
            let expected: Vec<f32> =
                list(x).chunks(shape[3]).flat_map(|row| turned(row, half, layout)).collect();
            assert_eq!(list(out), expected, "{layout:?} {shape:?}");
        }
    }
}

/// The split of rows writes the heads of three buffers, and its gradient writes them back to one.
#[test]
fn a_split_and_its_gradient_write_every_row_once() {
    for (heads, batch, length) in [
        (Heads { query: 2, key_value: 1, head_dim: 6 }, 1, 2),
        (Heads { query: 2, key_value: 1, head_dim: 6 }, 2, 5),
        (Heads { query: 1, key_value: 1, head_dim: 32 }, 1, 2),
    ] {
        let table = quarter_turns(length, heads.head_dim / 2, Layout::Half);
        let packed = tensor([batch, length, heads.packed()]);
        let leaf = Tensor::<3>::from_inner(packed.clone()).require_grad();
        let (outputs, gradient) = on_threads(|| {
            let (q, k, v) = split_rotate(leaf.clone(), heads, Some(&table), Some(&table));
            let parts = [q, k, v];
            let outputs = parts.clone().map(|part| list(part.inner()));
            // The gradient of each part is the part: turned back and joined, these are the packed rows again.
            let pairs = parts.map(|part| (part.clone(), part.inner()));
            (outputs, list(leaf.grad(&with_gradients(pairs).backward()).unwrap()))
        });
        assert_eq!(gradient, list(packed.clone()), "{heads:?}");

        let (rows, width) = (list(packed), heads.packed());
        let mut first = 0;
        for (part, count) in outputs.iter().zip([heads.query, heads.key_value, heads.key_value]) {
            let is_turned = first < heads.query + heads.key_value;
            for (index, out) in part.chunks(heads.head_dim).enumerate() {
                let (batch, head, position) =
                    (index / (count * length), index / length % count, index % length);
                let from = (batch * length + position) * width + (first + head) * heads.head_dim;
                let row = &rows[from..from + heads.head_dim];
                let expected =
                    if is_turned { turned(row, heads.head_dim / 2, Layout::Half) } else { row.to_vec() };
                assert_eq!(out, expected, "{heads:?}: row {index} of the part at head {first}");
            }
            first += count;
        }
    }
}

/// The inputs above are of both kinds only where the borders are where they were when they were chosen.
#[cfg(miri)]
#[test]
fn small_inputs_reach_the_streaming_stores() {
    use crate::machine::buffers::past_caches;
    assert!(!past_caches(50) && past_caches(70));
}
