//! What is stated of rotations.

use super::{
    Matrix, ROWS, SCALE, SIZES, assert_close, assert_logits, build, dot, heads, logits, queries_and_keys,
    random, times,
};
use burn::tensor::{Device, Tensor};
use longwave_kernels::{Layout, rotate};
use longwave_position::frequency::{Frequencies, Side};
use longwave_position::reading::LogN;
use longwave_position::{
    Dimensions, Encoding, ExtensionConfig, Init, Lengths, PositionConfig, Positions, Reading,
};

const DIM: usize = SIZES.head_dim;

fn bands() -> Vec<f64> {
    Frequencies::geometric(1e4, DIM).inv_freq
}

fn rope(layout: Layout) -> Encoding {
    build(&format!("kind = 'rope'\nlayout = '{}'", format!("{layout:?}").to_lowercase()))
}

/// The channels of a band.
fn pair(layout: Layout, band: usize) -> [usize; 2] {
    match layout {
        Layout::Half => [band, band + DIM / 2],
        Layout::Interleaved => [2 * band, 2 * band + 1],
    }
}

/// The rotation of position m as a matrix, for columns from the left.
fn dense(layout: Layout, m: f64) -> Matrix {
    let mut matrix = vec![vec![0.0; DIM]; DIM];
    for (band, f) in bands().iter().enumerate() {
        let [a, b] = pair(layout, band);
        let (sin, cos) = (m * f).sin_cos();
        (matrix[a][a], matrix[a][b], matrix[b][a], matrix[b][b]) = (cos, -sin, sin, cos);
    }
    matrix
}

/// Rows of x `[1, heads, rows, head_dim]`, turned as the encoding turns them.
fn turned(encoding: &Encoding, x: &Tensor<4>, positions: &Positions) -> Vec<Matrix> {
    let rotation = encoding.rotation(0).unwrap();
    heads(&rotate(x.clone(), &rotation.table(positions, Side::Query, &Device::flex())))
}

fn vectors() -> Tensor<4> {
    random("vectors", [1, SIZES.heads, ROWS, DIM])
}

const LAYOUTS: [Layout; 2] = [Layout::Half, Layout::Interleaved];

#[test]
fn the_sparse_form_is_the_dense_rotation() {
    let positions = Positions::range(100..100 + ROWS);
    for layout in LAYOUTS {
        let found = turned(&rope(layout), &vectors(), &positions);
        for (found, x) in found.iter().zip(heads(&vectors())) {
            for (row, x) in x.iter().enumerate() {
                let matrix = dense(layout, (100 + row) as f64);
                for (channel, line) in matrix.iter().enumerate() {
                    assert_close(found[row][channel], dot(line, x), 1e-5, &format!("{layout:?}"));
                }
            }
        }
    }
}

#[test]
fn the_transpose_of_one_rotation_times_another_is_that_of_the_difference() {
    for layout in LAYOUTS {
        for (m, n) in [(0.0, 5.0), (7.0, 3.0), (1000.0, 1024.0)] {
            let (of_m, of_n, of_difference) = (dense(layout, m), dense(layout, n), dense(layout, n - m));
            for (row, expected) in of_difference.iter().enumerate() {
                // A row of the transpose is a column.
                let column: Vec<f64> = of_m.iter().map(|line| line[row]).collect();
                for (found, expected) in times(&column, &of_n).iter().zip(expected) {
                    assert_close(*found, *expected, 1e-12, &format!("{layout:?} {m} {n}"));
                }
            }
        }
    }
}

#[test]
fn scores_of_rotated_vectors_are_the_real_part_of_the_complex_form() {
    let start = 300;
    for layout in LAYOUTS {
        let [q, k] = queries_and_keys();
        let (queries, keys) = (heads(&q), heads(&k));
        let found = logits(&rope(layout), [q, k], &Positions::range(start..start + ROWS));
        for h in 0..SIZES.heads {
            for m in 0..ROWS {
                for n in 0..ROWS {
                    // Re sum_i q_i conj(k_i) e^(i (m - n) theta_i).
                    let sum: f64 = bands()
                        .iter()
                        .enumerate()
                        .map(|(band, f)| {
                            let [a, b] = pair(layout, band);
                            let (q, k) = (&queries[h][m], &keys[h][n]);
                            let (re, im) = (q[a] * k[a] + q[b] * k[b], q[b] * k[a] - q[a] * k[b]);
                            let (sin, cos) = ((m as f64 - n as f64) * f).sin_cos();
                            re * cos - im * sin
                        })
                        .sum();
                    assert_close(found[h][m][n], SCALE * sum, 1e-4, &format!("{layout:?} {m} {n}"));
                }
            }
        }
    }
}

#[test]
fn at_position_zero_nothing_turns() {
    let zero = Positions::explicit(1, vec![0.0; ROWS]);
    for layout in LAYOUTS {
        assert_eq!(turned(&rope(layout), &vectors(), &zero), heads(&vectors()));
    }
}

#[test]
fn norms_are_kept_at_every_distance() {
    // Stated to shrink with the distance: what is turned keeps its length, however far it is turned.
    for layout in LAYOUTS {
        for start in [0, 1000, 60_000] {
            let found = turned(&rope(layout), &vectors(), &Positions::range(start..start + ROWS));
            for (found, x) in found.iter().flatten().zip(heads(&vectors()).iter().flatten()) {
                assert_close(
                    dot(found, found),
                    dot(x, x),
                    1e-5 * dot(x, x),
                    &format!("{layout:?} from {start}"),
                );
            }
        }
    }
}

#[test]
fn equal_vectors_may_attract_more_from_further_away() {
    // Stated to matter less and less with the distance: the score of a vector with itself falls and rises again.
    let ones = || Tensor::<4>::ones([1, SIZES.heads, 64, DIM], &Device::flex());
    let found = logits(&rope(Layout::Half), [ones(), ones()], &Positions::range(0..64));
    let last = &found[0][63];
    let by_distance: Vec<f64> = last.iter().rev().copied().collect();
    assert!(by_distance.iter().all(|&score| score <= by_distance[0] + 1e-6), "no score exceeds its own");
    let rising = by_distance.windows(2).filter(|pair| pair[1] > pair[0]).count();
    assert!((20..44).contains(&rising), "{rising} of 63 steps rise");
}

#[test]
fn a_rotation_is_a_position_in_a_base_read_digit_by_digit() {
    // Direct reading, interpolation and base conversion are three readings of one number.
    let (base, d, s): (f64, usize, f64) = (1e4, 16, 4.0);
    let beta = base.powf(2.0 / d as f64);
    let frequencies = Frequencies::geometric(base, d).inv_freq;
    for (j, f) in frequencies.iter().enumerate() {
        assert_close(1749.0 * f, 1749.0 / beta.powi(j as i32), 1e-9, "digit j is m / beta^j");
    }
    // A larger base of the digits, beta s^(2 / (d - 2)), is NTK's base b s^(d / (d - 2)); its slowest band is the
    // interpolated one.
    let converted = Frequencies::geometric(base * s.powf(d as f64 / (d as f64 - 2.0)), d).inv_freq;
    let larger = beta * s.powf(2.0 / (d as f64 - 2.0));
    for (j, f) in converted.iter().enumerate() {
        assert_close(f * larger.powi(j as i32), 1.0, 1e-9, "digit j is m / beta'^j");
    }
    assert_close(converted[d / 2 - 1], frequencies[d / 2 - 1] / s, 1e-15, "the slowest");
}

#[test]
fn an_imaginary_head_of_rope_with_its_own_queries_is_rope() {
    // RoPE++ (arXiv:2512.07525) adds heads whose logits are `q.k sin(n f) - (q x k) cos(n f)`, band by band. RoPE gives just these for
    // queries that are turned by -90 degrees before it, which a projection of their own can do: only a head that shares its
    // projection with another differs.
    let positions = Positions::range(5..5 + ROWS);
    let [q, k] = queries_and_keys();
    let (first, second) = (q.clone().slice_dim(3, 0..DIM / 2), q.clone().slice_dim(3, DIM / 2..DIM));
    let turned = Tensor::cat(vec![second, first.neg()], 3);
    let found = logits(&rope(Layout::Half), [turned, k.clone()], &positions);
    let (q, k) = (heads(&q), heads(&k));
    let imaginary = |head: usize, i: usize, j: usize| -> f64 {
        let (q, k, n) = (&q[head][i], &k[head][j], i as f64 - j as f64);
        let of_band = |(band, f): (usize, &f64)| {
            let [a, b] = pair(Layout::Half, band);
            let (sin, cos) = (n * f).sin_cos();
            (q[a] * k[a] + q[b] * k[b]) * sin - (q[a] * k[b] - q[b] * k[a]) * cos
        };
        SCALE * bands().iter().enumerate().map(of_band).sum::<f64>()
    };
    assert_logits(&found, imaginary, "imaginary heads");
}

#[test]
fn a_base_of_the_length_read_at_a_longer_one_is_a_base_conversion() {
    // Trained with the base L and read at L' with the base L' (Oka et al. 2026): Su's first conversion multiplies the base by L'/L.
    let sizes = Dimensions { layers: 1, ..SIZES };
    let reading = |text: &str| {
        let table: toml::Table = text.parse().unwrap();
        let init = Init::new(0, &Device::flex());
        let config =
            PositionConfig::for_length(&toml::Value::Table(table), "position", SIZES.train_length).unwrap();
        config.build("position", &sizes, &init, LogN::Off).unwrap()
    };
    let bands = |reading: &Reading| reading.rotation(0).unwrap().frequencies.inv_freq.clone();
    let extension = ExtensionConfig::from_value(&"su_ntk_old".into(), "extend").unwrap();
    let lengths = Lengths { train: SIZES.train_length, length: 8 * SIZES.train_length };
    let read = extension.apply(&reading("kind = 'rope'\nbase = 'L'"), lengths).unwrap();
    let longer = reading(&format!("kind = 'rope'\nbase = {}.0", lengths.length));
    for (found, expected) in bands(&read).iter().zip(bands(&longer)) {
        assert_close(*found, expected, 1e-12, "frequency");
    }
}
