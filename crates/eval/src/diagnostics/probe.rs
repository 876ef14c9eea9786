//! A linear probe of position: whether a hidden state says where in the text it stands.
//!
//! Ridge regression of the position i (or of ln(i + 1)) on a hidden state x, standardised over the rows it is fitted on:
//!
//! ```text
//! w = (X^T X + lambda n I)^-1 X^T y      lambda = 1e-3, n rows
//! ```
//!
//! A feature that differs between rows by rounding alone is left out: standardised, it would be noise.
//!
//! It is fitted on positions below L of half the texts and read on the others. `R^2 = 1 - sum (y - w x)^2 / sum (y - mean y)^2` is 1 where position
//! can be read, 0 where the mean of the range is as good, and below 0 where the probe points elsewhere.
//!
//! Source: Haviv et al. 2022 (arXiv:2203.16634, section 5), whose probe is a network of two layers; ridge in its place is ours.

/// The penalty, as a share of a standardised feature's own sum of squares.
const PENALTY: f64 = 1e-3;

/// The deviation of a feature, as a share of the root mean square of the hidden state, that rounding in f32 leaves where it should be constant.
const ROUNDING: f64 = 1e-6;

/// Sums for a regression of several targets on features and a constant, added row by row.
#[derive(Clone, Debug)]
pub struct Normal {
    features: usize,
    targets: usize,
    rows: f64,
    /// The first row. Features are counted from it: of large numbers that are nearly alike, the sum of squares less that of the mean would be
    /// rounding.
    first: Vec<f64>,
    /// `[features + 1, features + 1]`, with the constant last.
    gram: Vec<f64>,
    /// `[features + 1, targets]`.
    products: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    targets: usize,
    /// `[features + 1, targets]`, the constants last.
    weights: Vec<f64>,
}

impl Normal {
    pub fn new(features: usize, targets: usize) -> Self {
        let side = features + 1;
        Self {
            features,
            targets,
            rows: 0.0,
            first: Vec::new(),
            gram: vec![0.0; side * side],
            products: vec![0.0; side * targets],
        }
    }

    pub fn add(&mut self, row: &[f32], y: &[f64]) {
        let side = self.features + 1;
        if self.first.is_empty() {
            self.first = row.iter().map(|&x| f64::from(x)).collect();
        }
        let first = &self.first;
        let at = |i: usize| if i < self.features { f64::from(row[i]) - first[i] } else { 1.0 };
        for i in 0..side {
            let x = at(i);
            // The lower half alone: the matrix is symmetric.
            for (j, sum) in self.gram[i * side..=i * side + i].iter_mut().enumerate() {
                *sum += x * at(j);
            }
            for (sum, y) in self.products[i * self.targets..].iter_mut().zip(y) {
                *sum += x * y;
            }
        }
        self.rows += 1.0;
    }

    /// The probe; none without rows.
    pub fn solve(&self) -> Option<Probe> {
        let (features, targets, n) = (self.features, self.targets, self.rows);
        if n < 1.0 {
            return None;
        }
        let side = features + 1;
        let gram = |i: usize, j: usize| self.gram[i.max(j) * side + i.min(j)];
        let mean = |i: usize| gram(features, i) / n;
        let variance = |i: usize| (gram(i, i) / n - mean(i).powi(2)).max(0.0);
        let squares: f64 = (0..features).map(|i| variance(i) + (mean(i) + self.first[i]).powi(2)).sum();
        let least = ROUNDING * (squares / features as f64).sqrt();
        // What is left out has an infinite scale, and so no part in anything.
        let scale = |i: usize| if variance(i).sqrt() > least { variance(i).sqrt() } else { f64::INFINITY };
        let scales: Vec<f64> = (0..features).map(scale).collect();
        let mut matrix = vec![0.0; features * features];
        for i in 0..features {
            for j in 0..features {
                matrix[i * features + j] = (gram(i, j) - n * mean(i) * mean(j)) / (scales[i] * scales[j]);
            }
            matrix[i * features + i] += PENALTY * n;
        }
        cholesky(&mut matrix, features);
        let mut weights = vec![0.0; side * targets];
        for target in 0..targets {
            let y = self.products[features * targets + target] / n;
            let mut solution: Vec<f64> = (0..features)
                .map(|i| (self.products[i * targets + target] - n * mean(i) * y) / scales[i])
                .collect();
            substitute(&matrix, &mut solution);
            let mut constant = y;
            for i in 0..features {
                let weight = solution[i] / scales[i];
                weights[i * targets + target] = weight;
                constant -= weight * (mean(i) + self.first[i]);
            }
            weights[features * targets + target] = constant;
        }
        Some(Probe { targets, weights })
    }
}

impl Probe {
    pub fn read(&self, row: &[f32]) -> Vec<f64> {
        (0..self.targets)
            .map(|target| {
                let weight = |i: usize| self.weights[i * self.targets + target];
                weight(row.len())
                    + row.iter().enumerate().map(|(i, &x)| weight(i) * f64::from(x)).sum::<f64>()
            })
            .collect()
    }
}

/// The lower factor of a symmetric positive matrix, in its place.
fn cholesky(matrix: &mut [f64], side: usize) {
    for i in 0..side {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| matrix[i * side + k] * matrix[j * side + k]).sum();
            let rest = matrix[i * side + j] - sum;
            matrix[i * side + j] =
                if i == j { rest.max(f64::MIN_POSITIVE).sqrt() } else { rest / matrix[j * side + j] };
        }
    }
}

/// Solves `L L^T x = y` in the place of y.
fn substitute(factor: &[f64], y: &mut [f64]) {
    let side = y.len();
    for i in 0..side {
        let sum: f64 = (0..i).map(|k| factor[i * side + k] * y[k]).sum();
        y[i] = (y[i] - sum) / factor[i * side + i];
    }
    for i in (0..side).rev() {
        let sum: f64 = (i + 1..side).map(|k| factor[k * side + i] * y[k]).sum();
        y[i] = (y[i] - sum) / factor[i * side + i];
    }
}

/// What a probe is asked at a place: the position, and its logarithm.
pub(super) fn targets(place: usize) -> [f64; 2] {
    [place as f64, (place as f64 + 1.0).ln()]
}

/// R^2 of what a probe read at each place of a text, from 0 to L, to 2L, to 4L and so on, each by its first position.
pub(super) fn by_range(read: &[Vec<f64>], target: usize, train: usize) -> Vec<(usize, f64)> {
    let mut found = Vec::new();
    let (mut start, mut end) = (0, train);
    while start < read.len() {
        let places = start..end.min(read.len());
        let count = places.len() as f64;
        let mean = places.clone().map(|place| targets(place)[target]).sum::<f64>() / count;
        let squares = |of: &dyn Fn(usize) -> f64| {
            places.clone().map(|place| (targets(place)[target] - of(place)).powi(2)).sum::<f64>()
        };
        let (left, all) = (squares(&|place| read[place][target]), squares(&|_| mean));
        if all > 0.0 {
            found.push((start, 1.0 - left / all));
        }
        (start, end) = (end, 2 * end);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_target_is_read_and_the_penalty_shrinks_it_a_little() {
        let mut normal = Normal::new(2, 2);
        for at in 0..200 {
            let x = [(at % 7) as f32, (at % 5) as f32];
            normal.add(&x, &[2.0 * f64::from(x[0]) - f64::from(x[1]) + 3.0, 1.0]);
        }
        let probe = normal.solve().unwrap();
        let read = probe.read(&[6.0, 0.0]);
        // The slopes are those of y over 1.001: at 6 the first feature is 3 above its mean, the second 2 below.
        assert!((read[0] - 15.0).abs() < 0.02 && read[0] < 15.0, "{read:?}");
        assert!((read[1] - 1.0).abs() < 1e-9);
        assert_eq!(Normal::new(2, 1).solve(), None);
    }

    #[test]
    fn a_feature_that_never_changes_is_no_use_and_no_harm() {
        let mut normal = Normal::new(2, 1);
        (0..50).for_each(|at| normal.add(&[1.0, at as f32], &[f64::from(at)]));
        let read = normal.solve().unwrap().read(&[1.0, 25.0]);
        assert!((read[0] - 25.0).abs() < 0.01);
    }

    /// Sixteen features that are constant, exactly or but for a few units of f32. What is left to say is the mean of 0 to 7.
    #[test]
    fn a_state_that_never_changes_but_for_rounding_says_the_mean() {
        for noise in [0.0_f32, 6e-8] {
            let mut normal = Normal::new(16, 1);
            let row = |at: usize| -> Vec<f32> {
                let off = |i: usize| noise * ((at * (i + 3) * 7919 + i) % 13) as f32;
                (0..16).map(|i| 0.37 * (i as f32 - 5.3) * (1.0 + off(i))).collect()
            };
            (0..1000).for_each(|at| normal.add(&row(at % 8), &[(at % 8) as f64]));
            let probe = normal.solve().unwrap();
            assert!((0..8).all(|at| (probe.read(&row(at))[0] - 3.5).abs() < 1e-9), "{noise}");
        }
    }

    #[test]
    fn a_small_change_of_a_large_feature_is_read() {
        let mut normal = Normal::new(1, 1);
        let x = |at: u16| 1000.0 + f32::from(at) / 64.0;
        (0..65).for_each(|at| normal.add(&[x(at)], &[f64::from(at)]));
        let read = normal.solve().unwrap().read(&[x(64)]);
        // 32 above the mean of 32, with the slope of y over 1.001.
        assert!((read[0] - (32.0 + 32.0 / 1.001)).abs() < 1e-6, "{read:?}");
    }

    #[test]
    fn a_probe_that_knows_has_one_and_one_that_says_the_mean_has_none() {
        let knows: Vec<Vec<f64>> = (0..16).map(|place| targets(place).to_vec()).collect();
        assert_eq!(by_range(&knows, 0, 4), [(0, 1.0), (4, 1.0), (8, 1.0)]);
        let mean = vec![vec![1.5, 0.0]; 4];
        assert!(by_range(&mean, 0, 4)[0].1.abs() < 1e-12);
    }
}
