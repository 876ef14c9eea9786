//! The stable rank of a cloud of vectors: how many directions it fills.
//!
//! `srank(X) = |X|_F^2 / |X|_2^2`, the sum of the squared singular values of the rows over the largest of them. Keys of one direction have 1; turning
//! them by position spreads them over the plane of each band.
//!
//! Source: "Frayed `RoPE`" (arXiv:2603.18017, lemmas 1 and 2).

/// Steps of the power iteration, at most.
const STEPS: usize = 500;

/// The stable rank of rows `[rows, width]`; none where all are 0.
pub fn stable_rank(rows: &[f32], width: usize) -> Option<f64> {
    let mut gram = vec![0.0_f64; width * width];
    for row in rows.chunks_exact(width) {
        for (i, &a) in row.iter().enumerate() {
            for (sum, &b) in gram[i * width..].iter_mut().zip(row) {
                *sum += f64::from(a) * f64::from(b);
            }
        }
    }
    let trace: f64 = (0..width).map(|i| gram[i * width + i]).sum();
    let largest = largest_eigenvalue(&gram, width);
    (largest > 0.0).then(|| trace / largest)
}

/// The largest eigenvalue of a symmetric matrix without negative ones, by power iteration.
fn largest_eigenvalue(matrix: &[f64], width: usize) -> f64 {
    // Unequal numbers: no eigenvector is orthogonal to them by symmetry.
    let mut vector: Vec<f64> = (0..width).map(|i| 1.0 + (i as f64 * 0.618).fract()).collect();
    let mut value = 0.0;
    for _ in 0..STEPS {
        let product: Vec<f64> =
            matrix.chunks_exact(width).map(|row| row.iter().zip(&vector).map(|(a, b)| a * b).sum()).collect();
        let norm = product.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm <= 0.0 {
            return 0.0;
        }
        vector = product.into_iter().map(|x| x / norm).collect();
        if (norm - value).abs() <= 1e-12 * norm {
            return norm;
        }
        value = norm;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_direction_has_rank_one_and_equal_ones_have_all() {
        assert!((stable_rank(&[1.0, 2.0, 2.0, 4.0, -3.0, -6.0], 2).unwrap() - 1.0).abs() < 1e-9);
        assert!((stable_rank(&[1.0, 0.0, 0.0, 1.0], 2).unwrap() - 2.0).abs() < 1e-9);
        // Singular values 2 and 1: (4 + 1) / 4.
        assert!((stable_rank(&[2.0, 0.0, 0.0, 1.0], 2).unwrap() - 1.25).abs() < 1e-9);
        assert_eq!(stable_rank(&[0.0; 4], 2), None);
    }

    #[test]
    fn turning_one_key_over_a_full_turn_doubles_its_rank() {
        let turned: Vec<f32> = (0..64)
            .flat_map(|n| {
                let (sin, cos) = (std::f64::consts::TAU * f64::from(n) / 64.0).sin_cos();
                [cos as f32, sin as f32]
            })
            .collect();
        assert!((stable_rank(&turned, 2).unwrap() - 2.0).abs() < 1e-5);
    }
}
