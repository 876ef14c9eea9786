//! What is stated of sinusoidal vectors, and of encodings that make them.

use super::{SIZES, added, assert_close, build, dot, sized};
use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use longwave_position::frequency::Frequencies;
use longwave_position::{Dimensions, Positions};
use std::f64::consts::TAU;

fn tensor<const D: usize>(shape: [usize; D], values: &[f64]) -> Param<Tensor<D>> {
    let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), &Device::flex()))
}

fn bands() -> Vec<f64> {
    Frequencies::geometric(1e4, SIZES.width).inv_freq
}

/// M(s) of band f: `(sin, cos)` of an angle times it, from the left, is that of the angle s f further.
fn shift(s: f64, f: f64) -> [[f64; 2]; 2] {
    let (sin, cos) = (s * f).sin_cos();
    [[cos, sin], [-sin, cos]]
}

#[test]
fn the_vector_of_a_shifted_position_is_one_linear_map_of_the_vector() {
    let p = added(&build("kind = 'sinusoidal'\nscale = 1.0"), &Positions::range(0..200));
    for s in [1, 7, 100] {
        for t in 0..200 - s {
            for (band, &f) in bands().iter().enumerate() {
                let [sin, cos] = [p[t][2 * band], p[t][2 * band + 1]];
                for (row, line) in shift(s as f64, f).iter().enumerate() {
                    let expected = line[0] * sin + line[1] * cos;
                    assert_close(p[t + s][2 * band + row], expected, 1e-6, &format!("{t} + {s}"));
                }
            }
        }
    }
}

/// `[width, width]`: a block of `of(f)` for each band, zeros elsewhere.
fn blocks(of: impl Fn(f64) -> [[f64; 2]; 2]) -> Vec<f64> {
    let width = SIZES.width;
    let mut matrix = vec![0.0; width * width];
    for (band, &f) in bands().iter().enumerate() {
        for (row, line) in of(f).iter().enumerate() {
            for (column, &value) in line.iter().enumerate() {
                matrix[(2 * band + row) * width + 2 * band + column] = value;
            }
        }
    }
    matrix
}

/// The vector of position 0: sines of 0, cosines of 0.
fn start() -> Vec<f64> {
    [0.0, 1.0].repeat(SIZES.width / 2)
}

#[test]
fn a_linear_recursion_by_the_shift_is_the_sinusoidal_encoding() {
    let mut encoding = build("kind = 'recursive'");
    let recursive = encoding.get_mut::<longwave_position::encodings::recursive::Recursive>().unwrap();
    let width = SIZES.width;
    // p w for a row p is M p for a column: w is M transposed.
    let transposed = |f: f64| {
        let [[a, b], [c, d]] = shift(1.0, f);
        [[a, c], [b, d]]
    };
    recursive.p0 = tensor([width], &start());
    recursive.w = Some(tensor([width, width], &blocks(transposed)));
    recursive.b = Some(tensor([width], &vec![0.0; width]));
    let positions = Positions::range(0..200);
    let waves = added(&build("kind = 'sinusoidal'\nscale = 1.0"), &positions);
    for (t, (found, expected)) in added(&encoding, &positions).iter().zip(&waves).enumerate() {
        for (found, expected) in found.iter().zip(expected) {
            assert_close(*found, *expected, 1e-4, &format!("position {t}"));
        }
    }
}

#[test]
fn a_flow_that_is_linear_is_the_sinusoidal_encoding() {
    // dp/dt = A p. The flow is tanh(p w1) w2: with small arguments tanh is the identity.
    let small = 5e-3;
    let width = SIZES.width;
    let mut encoding = build(&format!("kind = 'floater'\ndelta = 1.0\nsteps = 8\nhidden = {width}"));
    let floater = encoding.get_mut::<longwave_position::encodings::floater::Floater>().unwrap();
    // For a row: sin' = f cos, cos' = -f sin.
    let flow = blocks(|f| [[0.0, -f], [f, 0.0]]);
    let mut w1: Vec<f64> = flow.iter().map(|value| small * value).collect();
    // The last line reads the time, which a linear flow does not.
    w1.extend(vec![0.0; width]);
    floater.start = tensor([SIZES.layers, width], &start().repeat(SIZES.layers));
    floater.w1 = tensor([width + 1, width], &w1);
    floater.b1 = tensor([width], &vec![0.0; width]);
    let identity = (0..width * width).map(|at| if at / width == at % width { 1.0 / small } else { 0.0 });
    floater.w2 = tensor([width, width], &identity.collect::<Vec<_>>());
    floater.b2 = tensor([width], &vec![0.0; width]);
    let positions = Positions::range(0..32);
    let waves = added(&build("kind = 'sinusoidal'\nscale = 1.0"), &positions);
    for (t, (found, expected)) in added(&encoding, &positions).iter().zip(&waves).enumerate() {
        for (found, expected) in found.iter().zip(expected) {
            assert_close(*found, *expected, 1e-3, &format!("position {t}"));
        }
    }
}

/// The integral over one position, by Simpson's rule.
fn integral(of: impl Fn(f64) -> f64, from: f64) -> f64 {
    let steps = 1000;
    let h = 1.0 / f64::from(steps);
    let sum = |weight: f64, places: &mut dyn Iterator<Item = i32>| -> f64 {
        places.map(|place| weight * of(from + h * f64::from(place))).sum()
    };
    h / 3.0
        * (of(from)
            + of(from + 1.0)
            + sum(4.0, &mut (1..steps).step_by(2))
            + sum(2.0, &mut (2..steps).step_by(2)))
}

#[test]
fn the_flow_of_a_wave_has_its_frequency_as_factor_and_not_one_over_it() {
    // Stated with the factor c^(-j/d) before cos(t c^(j/d)): it must be c^(+j/d), the wave's own frequency.
    let (c, i): (f64, f64) = (1e-4, 5.0);
    for share in [0.25, 0.5] {
        let frequency = c.powf(share);
        let risen = ((i + 1.0) * frequency).sin() - (i * frequency).sin();
        let right = integral(|t| frequency * (t * frequency).cos(), i);
        let stated = integral(|t| (t * frequency).cos() / frequency, i);
        assert_close(right, risen, 1e-12, "the frequency as factor");
        assert!((stated / risen - frequency.powi(-2)).abs() < 1e-6 * frequency.powi(-2), "{stated} {risen}");
    }
}

/// The inner product of the vectors of two positions n apart, over that of a vector with itself.
fn alike(frequencies: &[f64], n: usize) -> f64 {
    frequencies.iter().map(|f| (n as f64 * f).cos()).sum::<f64>() / frequencies.len() as f64
}

#[test]
fn every_row_is_unique_to_65536() {
    // Rows n apart have the distance sum 2 (1 - cos(n f)), wherever they lie: no n may make it 0. It is stated that
    // they recur at a distance.
    let nearest = |width: usize| {
        let frequencies = Frequencies::geometric(1e4, width).inv_freq;
        let nearest =
            (1..65_536).map(|n| (alike(&frequencies, n), n)).reduce(|a, b| if b.0 > a.0 { b } else { a });
        nearest.map(|(alike, n)| (width as f64 * (1.0 - alike), n)).unwrap()
    };
    for width in [16, 64, 128, 512] {
        let (distance, n) = nearest(width);
        assert!(distance > 0.05, "width {width}: rows {n} apart are {distance:.1e} apart");
    }
    // Two bands are too few: nearly the same at 13,823.
    assert!((1.0 - alike(&Frequencies::geometric(1e4, 4).inv_freq, 13_823)) * 4.0 < 0.1);
    // And the rows are those of the formula.
    let sizes = Dimensions { width: 16, ..SIZES };
    let rows = added(
        &sized("kind = 'sinusoidal'\nscale = 1.0", &sizes),
        &Positions::explicit(1, vec![3.0, 40_003.0]),
    );
    let frequencies = Frequencies::geometric(1e4, 16).inv_freq;
    assert_close(dot(&rows[0], &rows[1]), 8.0 * alike(&frequencies, 40_000), 1e-5, "inner product");
}

#[test]
fn rows_are_bounded_and_do_not_know_the_length() {
    let encoding = build("kind = 'sinusoidal'\nscale = 1.0");
    let (short, long) =
        (added(&encoding, &Positions::range(0..16)), added(&encoding, &Positions::range(0..4096)));
    assert_eq!(short[..], long[..16]);
    assert!(long.iter().flatten().all(|value| value.abs() <= 1.0));
    assert_eq!(
        long,
        added(&build("kind = 'sinusoidal'\nscale = 1.0"), &Positions::range(0..4096)),
        "nothing is drawn"
    );
}

#[test]
fn i_am_a_robot() {
    // The worked example: base 100, width 4.
    let sizes = Dimensions { width: 4, ..SIZES };
    let rows =
        added(&sized("kind = 'sinusoidal'\nscale = 1.0\nbase = 100.0", &sizes), &Positions::range(0..4));
    let expected =
        [[0.0, 1.0, 0.0, 1.0], [0.84, 0.54, 0.10, 1.0], [0.91, -0.42, 0.20, 0.98], [0.14, -0.99, 0.30, 0.96]];
    for (row, expected) in rows.iter().zip(expected) {
        for (found, expected) in row.iter().zip(expected) {
            assert_close(*found, expected, 0.0051, "two decimals");
        }
    }
}

#[test]
fn wavelengths_begin_at_two_pi_and_end_below_ten_thousand_times_it() {
    // Stated to end at 10000 2 pi with i = d/2: the last band is i = d/2 - 1.
    let frequencies = Frequencies::geometric(1e4, 512).inv_freq;
    let wavelengths: Vec<f64> = frequencies.iter().map(|f| TAU / f).collect();
    assert_close(wavelengths[0], TAU, 1e-12, "the fastest");
    assert_close(wavelengths[255] / TAU, 9_646.6, 0.05, "the slowest");
}

#[test]
fn inner_products_fall_with_the_distance_as_an_envelope_only() {
    // Stated to fall with the distance, of sinusoidal vectors as of rotated ones.
    let frequencies = Frequencies::geometric(1e4, 128).inv_freq;
    for (n, expected) in [(1, 0.9702), (10, 0.6691), (100, 0.4772), (1024, 0.2044)] {
        assert_close(alike(&frequencies, n), expected, 5e-5, &format!("distance {n}"));
    }
    let rising = (0..1024).filter(|&n| alike(&frequencies, n + 1) > alike(&frequencies, n)).count();
    assert_eq!(rising, 492, "nearly half of the steps rise");
}
