//! What divides the logits of a layer.

use std::ops::DivAssign;

/// One number for all heads of a layer, or one for each.
#[derive(Clone, Debug, PartialEq)]
pub enum Temperature {
    /// The same in every head.
    All(f64),
    Heads(Vec<f64>),
}

impl Default for Temperature {
    fn default() -> Self {
        Self::All(1.0)
    }
}

impl Temperature {
    /// That of a head.
    ///
    /// # Panics
    /// There is no such head.
    pub fn of_head(&self, head: usize) -> f64 {
        match self {
            Self::All(temperature) => *temperature,
            Self::Heads(heads) => heads[head],
        }
    }

    /// What all heads share; 1 where each has its own.
    pub fn shared(&self) -> f64 {
        match self {
            Self::All(temperature) => *temperature,
            Self::Heads(_) => 1.0,
        }
    }

    pub fn numbers(&self) -> &[f64] {
        match self {
            Self::All(temperature) => std::slice::from_ref(temperature),
            Self::Heads(heads) => heads,
        }
    }

    /// Whether it changes nothing.
    pub fn is_one(&self) -> bool {
        self.numbers().iter().all(|temperature| (temperature - 1.0).abs() < f64::EPSILON)
    }

    /// One after the other.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All(a), Self::All(b)) => Self::All(a * b),
            (Self::All(a), Self::Heads(heads)) | (Self::Heads(heads), Self::All(a)) => {
                Self::Heads(heads.iter().map(|b| a * b).collect())
            }
            (Self::Heads(a), Self::Heads(b)) => Self::Heads(a.iter().zip(b).map(|(a, b)| a * b).collect()),
        }
    }
}

impl DivAssign<f64> for Temperature {
    fn div_assign(&mut self, divisor: f64) {
        match self {
            Self::All(temperature) => *temperature /= divisor,
            Self::Heads(heads) => heads.iter_mut().for_each(|temperature| *temperature /= divisor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other_multiplies() {
        assert!(Temperature::default().is_one());
        let mut temperature = Temperature::All(3.0);
        temperature /= 1.5;
        assert_eq!(temperature, Temperature::All(2.0));
        let mut heads = temperature.times(&Temperature::Heads(vec![0.5, 1.0]));
        assert_eq!((heads.of_head(1), heads.shared(), heads.is_one()), (2.0, 1.0, false));
        heads /= 2.0;
        assert_eq!(heads.times(&heads), Temperature::Heads(vec![0.25, 1.0]));
    }
}
