//! How keys of `[train]` count steps.

use longwave_core::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number of steps, or a share of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of steps, or a share of them below 1")]
pub enum Steps {
    /// So many steps.
    Count(u64),
    /// This share of them, rounded; below 1.
    Share(f64),
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Share(share) => write!(f, "{share}"),
        }
    }
}

impl Steps {
    /// The number of steps out of `total`.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Self::Count(count) => count,
            Self::Share(share) => (share * total as f64).round() as u64,
        }
    }

    pub(super) fn validate(self, key: &str) -> Result<()> {
        match self {
            Self::Share(share) if !(0.0..1.0).contains(&share) => {
                Err(Error::value(key, share, "a share must be at least 0 and below 1")
                    .hint("write a whole number for a count of steps"))
            }
            _ => Ok(()),
        }
    }
}

/// Steps of a stage after which its weights are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a number of steps between checkpoints, or a list of steps")]
pub enum KeptSteps {
    /// So many steps between them.
    Every(u64),
    /// These steps, ascending.
    Listed(Vec<u64>),
}

impl KeptSteps {
    /// The steps of a stage of so many steps.
    pub fn of(&self, steps: u64) -> Vec<u64> {
        match self {
            Self::Every(every) => (1..=steps / every.max(&1)).map(|count| count * every).collect(),
            Self::Listed(listed) => listed.clone(),
        }
    }

    pub(super) fn validate(&self, key: &str, steps: u64) -> Result<()> {
        let within = |step: &u64| (1..=steps).contains(step);
        match self {
            Self::Every(every) if !within(every) => {
                Err(Error::value(key, every, format!("it must be a number of steps from 1 to {steps}"))
                    .hint("the last step is kept in any case: it is the checkpoint `last`"))
            }
            Self::Listed(listed)
                if listed.is_empty() || !listed.iter().all(within) || !listed.is_sorted_by(|a, b| a < b) =>
            {
                let allowed = format!("it must hold steps from 1 to {steps}, ascending");
                Err(Error::value(key, format!("{listed:?}"), allowed)
                    .hint("as in `keep_checkpoints = [50, 100, 200]`"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainConfig;

    #[test]
    fn kept_steps_are_every_so_many_or_listed() {
        assert_eq!(KeptSteps::Every(4).of(10), [4, 8]);
        assert_eq!(KeptSteps::Every(5).of(10), [5, 10]);
        let error = |kept: KeptSteps| kept.validate("train.keep_checkpoints", 10).unwrap_err().to_string();
        assert!(error(KeptSteps::Every(0)).starts_with("`train.keep_checkpoints = 0` is not allowed"));
        assert!(error(KeptSteps::Every(11)).contains("from 1 to 10"));
        for wrong in [vec![], vec![0, 4], vec![4, 4], vec![8, 4], vec![11]] {
            assert!(error(KeptSteps::Listed(wrong)).contains("ascending"));
        }
        assert!(KeptSteps::Listed(vec![1, 10]).validate("train.keep_checkpoints", 10).is_ok());
    }

    #[test]
    fn steps_read_as_count_or_share() {
        let read =
            |text: &str| longwave_core::config::read::<TrainConfig>(&text.parse().unwrap(), "train").unwrap();
        assert_eq!(read("warmup = 30").warmup, Steps::Count(30));
        assert_eq!(read("warmup = 0.1").warmup.of(200), 20);
    }
}
