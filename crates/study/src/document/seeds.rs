//! The seeds of a study: a number, a list, or as many as its claims need.

use crate::looks::{Looks, MAX_SEEDS};
use longwave_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// What `seeds` says where claims decide how many there are.
const UNTIL_DECIDED: &str = "until decided";

/// `seeds` as written.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a number of seeds, a list of them, or \"until decided\"")]
pub(super) enum Seeds {
    Count(u64),
    List(Vec<u64>),
    Word(String),
}

impl Seeds {
    /// The seeds that a study may have, and after how many of them its claims are judged.
    pub(super) fn resolve(self, max_seeds: Option<u64>, has_claims: bool) -> Result<(Vec<u64>, Looks)> {
        if let (Self::Count(_) | Self::List(_), Some(most)) = (&self, max_seeds) {
            return Err(Error::value("max_seeds", most, "the number of seeds is fixed")
                .hint(format!("write `seeds = \"{UNTIL_DECIDED}\"`, or leave `max_seeds` out")));
        }
        let list = match self {
            Self::Count(count) if count > super::MOST_RUNS => {
                return Err(super::too_many("seeds", u128::from(count)));
            }
            Self::Count(count) => (0..count).collect(),
            Self::List(list) => list,
            Self::Word(word) if word == UNTIL_DECIDED => return until_decided(max_seeds, has_claims),
            Self::Word(word) => {
                return Err(Error::value(
                    "seeds",
                    format!("\"{word}\""),
                    "it is a number, a list, or one word",
                )
                .hint(format!("write `seeds = 3`, `seeds = [0, 1, 2]` or `seeds = \"{UNTIL_DECIDED}\"`")));
            }
        };
        if list.is_empty() {
            return Err(Error::value("seeds", "0", "there must be a seed").hint("use `seeds = 3`, or a list"));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = list.iter().find(|seed| !seen.insert(**seed)) {
            return Err(Error::value("seeds", format!("{list:?}"), format!("{twice} is listed twice")));
        }
        let looks = Looks::once(list.len());
        Ok((list, looks))
    }
}

fn until_decided(max_seeds: Option<u64>, has_claims: bool) -> Result<(Vec<u64>, Looks)> {
    if !has_claims {
        return Err(Error::value("seeds", format!("\"{UNTIL_DECIDED}\""), "the study has nothing to decide")
            .hint("add a `[[claim]]`, or write a number of seeds"));
    }
    let most = max_seeds.unwrap_or(MAX_SEEDS);
    if most < 2 {
        return Err(Error::value("max_seeds", most, "it must be at least 2")
            .hint("the spread over seeds, by which a claim is decided, needs two"));
    }
    if most > super::MOST_RUNS {
        return Err(super::too_many("max_seeds", u128::from(most)));
    }
    Ok(((0..most).collect(), Looks::until(most as usize)))
}
