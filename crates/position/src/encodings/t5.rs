//! `t5`: a learned bias for each bucket of distances.
//!
//! `logit_ij += table[h, bucket(i - j)]`, table `[heads, buckets]`, shared by all layers (Raffel et al.
//! 2020, arXiv:1910.10683, section 2.1; the causal half of `mesh_tensorflow`'s buckets). With
//! B = `buckets`, M = `max_distance`, E = B/2: distances below E have a bucket each; from there on
//! `min(B - 1, E + floor(ln(n/E) / ln(M/E) (B - E)))`. The logits keep their `1/sqrt(head_dim)`.
//!
//! Buckets are computed in f64. A fractional distance is rounded down first, also where it is
//! interpolated: `floor(n / s)`.

use crate::prelude::*;

/// How distances fall into buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// Number of buckets, even.
    pub buckets: usize,
    /// The distance from which on all share the last bucket.
    pub max_distance: usize,
}

impl Buckets {
    /// The bucket of a distance of at least 0.
    pub fn of(self, distance: f64) -> usize {
        let exact = self.buckets / 2;
        let (n, e) = (distance.max(0.0).floor(), exact as f64);
        if n < e {
            return n as usize;
        }
        let share = (n / e).ln() / (self.max_distance as f64 / e).ln();
        // A distance that is exactly the start of a bucket may come out an ulp below it.
        let step = share.mul_add((self.buckets - exact) as f64, 1e-9).floor();
        (exact + step as usize).min(self.buckets - 1)
    }

    /// The least distance in the last bucket; `None` where the numbers make no buckets.
    pub(super) fn last_begins(self) -> Option<usize> {
        self.check("").ok()?;
        let (mut before, mut within) = (0, self.max_distance);
        while within - before > 1 {
            let middle = before.midpoint(within);
            let is_last = self.of(middle as f64) == self.buckets - 1;
            *(if is_last { &mut within } else { &mut before }) = middle;
        }
        Some(within)
    }

    /// The distances of each bucket in a text that ends at the last of these positions.
    pub(super) fn summary(self, positions: &Positions) -> Summary {
        let last = positions.largest().unwrap_or_default() as usize;
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for distance in (0..=last).map(|n| n as f64) {
            let bucket = self.of(distance / positions.scale()) as f64;
            match rows.last_mut() {
                Some(row) if (row[0] - bucket).abs() < 0.5 => row[2] = distance,
                _ => rows.push(vec![bucket, distance, distance]),
            }
        }
        Summary::new("buckets of distances", &["bucket", "from", "to"], rows)
    }

    pub(super) fn check(self, section: &str) -> Result<()> {
        check_at_least(section, "buckets", self.buckets, 2)?;
        if self.buckets % 2 == 1 {
            return Err(Error::value(
                &format!("{section}.buckets"),
                self.buckets,
                "it must be even: one half counts single distances, the other grows",
            )
            .hint(format!("use {}", self.buckets + 1)));
        }
        if self.max_distance <= self.buckets / 2 {
            return Err(Error::value(
                &format!("{section}.max_distance"),
                self.max_distance,
                format!("it must exceed half the buckets, {}", self.buckets / 2),
            )
            .hint("the usual ones are `buckets = 32` and `max_distance = 128`"));
        }
        Ok(())
    }

    /// The entries of `table` `[heads, buckets]` for distances: `[heads, distances]`.
    pub(super) fn read(self, table: Tensor<2>, distances: &[f64]) -> Tensor<2> {
        let index: Vec<i64> = distances.iter().map(|&n| self.of(n).cast_signed() as i64).collect();
        let count = index.len();
        let index: Tensor<1, Int> = constant(TensorData::new(index, [count]), &table.device());
        table.select(1, index)
    }
}

keys! {
    /// Keys of `kind = "t5"`.
    pub struct Config {
        /// Number of buckets, even.
        pub buckets: usize = 32,
        /// The distance from which on all share the last bucket.
        pub max_distance: usize = 128,
    }
}

impl Config {
    fn buckets(&self) -> Buckets {
        Buckets { buckets: self.buckets, max_distance: self.max_distance }
    }
}

/// The table.
#[derive(Module, Debug)]
pub struct T5 {
    /// `[heads, buckets]`.
    pub table: Param<Tensor<2>>,
    #[module(skip)]
    buckets: Buckets,
}

impl Configure for Config {
    type Encoding = T5;
    const KIND: &'static str = "t5";
    const DESCRIPTION: &'static str = "a learned bias per bucket of distances, shared by all layers (T5)";
    const SOURCE: &'static str = "arXiv:1910.10683";
    const FORMULA: &'static str = "a_{mn} = q_m · k_n / √d + c_{h,β(m−n)}, c learned\n\
        β(r) = r, for r < 16\n\
        β(r) = min(31, 16 + ⌊16 ln(r/16) / ln(128/16)⌋), for r ≥ 16";
    const LENGTHS: &'static [&'static str] = &["max_distance"];
    const PYTORCH: Option<&'static str> = Some(include_str!("t5.py"));
    const EXTRAPOLATION: Extrapolation =
        Extrapolation::Supported("defined: distances of `max_distance` and more share the last bucket");

    fn validate(&self, section: &str, _dimensions: &Dimensions) -> Result<()> {
        self.buckets().check(section)
    }

    fn farthest_entry(&self) -> Option<(&'static str, usize)> {
        Some(("max_distance", self.buckets().last_begins()?))
    }

    fn build(&self, dimensions: &Dimensions, init: &Init) -> T5 {
        let table = init.normal("position.t5.table", [dimensions.heads, self.buckets], 0.02);
        T5 { table, buckets: self.buckets() }
    }
}

impl DistanceBias for T5 {
    fn parameters(&self) -> Vec<ParameterSpec> {
        vec![ParameterSpec::undecayed("table", &["heads", "buckets"])]
    }

    fn at(&self, _layer: usize, distances: &[f64], _device: &Device) -> Tensor<2> {
        self.buckets.read(self.table.val(), distances)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { domain: Domain::Whole, ..Capabilities::BY_DISTANCE }
    }

    fn summaries(&self, positions: &Positions) -> Vec<Summary> {
        vec![self.buckets.summary(positions)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::message_of;

    #[test]
    fn odd_or_empty_buckets_are_refused() {
        assert!(Buckets { buckets: 7, max_distance: 128 }.check("position").is_err());
        assert!(Buckets { buckets: 32, max_distance: 16 }.check("position").is_err());
        assert!(message_of("kind = \"t5\"\nbuckets = 0").starts_with("`position.buckets = 0`"));
    }
}
