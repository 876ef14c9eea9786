//! What divides the logits of a layer.

/// One number for all heads of a layer, or one for each.
#[derive(Clone, Debug, PartialEq)]
pub enum Temperature {
    /// The same in every head.
    All(f64),
    /// One for each head.
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

    /// Each one that it holds.
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
