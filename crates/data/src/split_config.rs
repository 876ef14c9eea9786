//! `data.split`: which documents are held out.

use crate::split::Split;
use longwave_core::{Error, Result};
use schemars::{JsonSchema, Schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Which documents train, validate and test. Each split takes the files that a name or a pattern names, such as
/// `"eval"` for a folder or `"dev-*"` for files; files that are not named are what their own names say. A share is held
/// out where no file is named for the split: documents are chosen by a hash of their names, and the only text of a corpus is
/// cut into its first, next and last bytes. Where names of files say the splits, a share other than 0.05 is held out of the files
/// to train, for a split that has no file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(transform = other_names)]
pub struct SplitConfig {
    /// The files of the training split. Default: those whose names say so, or else all that are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<String>,
    /// Share of the validation split, in `[0, 1)`, or its files; `validation`, `val` and `dev` are other names of the key.
    /// Default: 0.05, or 0 where another split is given by its files.
    #[serde(alias = "validation", alias = "val", alias = "dev")]
    pub valid: Part,
    /// Share of the test split, in `[0, 1)`, or its files. Default: as for `valid`.
    pub test: Part,
}

/// A share of the documents, or files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a share such as 0.05, or files such as \"eval\"")]
pub enum Part {
    /// A share in `[0, 1)`.
    Share(f64),
    /// A folder or files below the corpus, by their name or a pattern.
    Files(#[serde(deserialize_with = "not_empty")] String),
}

/// The keys as written: those left out depend on the others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    train: Option<String>,
    #[serde(alias = "validation", alias = "val", alias = "dev")]
    valid: Option<Part>,
    test: Option<Part>,
}

impl<'de> Deserialize<'de> for SplitConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { train, valid, test } = Written::deserialize(deserializer)?;
        let given = [&valid, &test].into_iter().any(|part| matches!(part, Some(Part::Files(_))));
        let other = if train.is_some() || given { Self::whole() } else { Self::default() };
        Ok(Self { train, valid: valid.unwrap_or(other.valid), test: test.unwrap_or(other.test) })
    }
}

fn other_names(schema: &mut Schema) {
    also_named(schema, "valid", &Split::Valid.names()[1..]);
}

/// Lets the schema of a table take a key under other names: what is derived knows one. They are patterns, so that lists of keys
/// and editors name the key once.
pub(crate) fn also_named(schema: &mut Schema, key: &str, names: &[&str]) {
    let known = schema.pointer(&format!("/properties/{key}")).cloned().unwrap_or_default();
    let pattern = format!("^({})$", names.join("|"));
    schema.insert("patternProperties".to_owned(), serde_json::json!({ pattern: known }));
}

fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let files = String::deserialize(deserializer)?;
    if files.is_empty() { Err(D::Error::custom("it is empty")) } else { Ok(files) }
}

/// The share of a split that nothing else decides.
const USUAL: f64 = 0.05;

impl Default for SplitConfig {
    fn default() -> Self {
        Self::shares_of(USUAL, USUAL)
    }
}

impl SplitConfig {
    /// Shares for validation and test.
    pub fn shares_of(valid: f64, test: f64) -> Self {
        Self { train: None, valid: Part::Share(valid), test: Part::Share(test) }
    }

    /// Nothing is held out.
    pub fn whole() -> Self {
        Self::shares_of(0.0, 0.0)
    }

    /// The shares of validation and test; 0 where files are named.
    pub(crate) fn shares(&self) -> [f64; 2] {
        [&self.valid, &self.test].map(|part| match part {
            Part::Share(share) => *share,
            Part::Files(_) => 0.0,
        })
    }

    /// The shares that somebody gave. Every config is written with its defaults, so a share of the usual size is taken for one.
    pub(crate) fn given_shares(&self) -> [f64; 2] {
        self.shares().map(|share| if (share - USUAL).abs() < f64::EPSILON { 0.0 } else { share })
    }

    /// The files that are named, those of the held-out splits first: `train = "*"` is all that they leave.
    pub(crate) fn files(&self) -> Vec<(Split, &str)> {
        let held_out = [(Split::Valid, &self.valid), (Split::Test, &self.test)].into_iter();
        let named = held_out.filter_map(|(split, part)| match part {
            Part::Files(files) => Some((split, files.as_str())),
            Part::Share(_) => None,
        });
        named.chain(self.train.as_deref().map(|files| (Split::Train, files))).collect()
    }

    pub(crate) fn validate(&self) -> Result<()> {
        let [valid, test] = self.shares();
        for (key, share) in [("data.split.valid", valid), ("data.split.test", test)] {
            if !(0.0..1.0).contains(&share) {
                return Err(Error::value(key, share, "it must be a share in [0, 1)")
                    .hint("0.05 holds out 5% of the documents"));
            }
        }
        if valid + test >= 1.0 {
            let split = format!("{{ valid = {valid}, test = {test} }}");
            return Err(Error::value("data.split", split, "nothing is left to train on")
                .hint("let the two shares add up to less than 1"));
        }
        for (split, files) in self.files() {
            if let Err(error) = glob::Pattern::new(files) {
                let (key, value) = (format!("data.split.{split}"), format!("\"{files}\""));
                return Err(Error::value(&key, value, format!("the pattern is malformed: {error}"))
                    .hint("`*` and `?` match any letters, `[ab]` one of a set"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SplitConfig> {
        longwave_core::config::read(&text.parse().unwrap(), "data.split")
    }

    #[test]
    fn shares_are_the_default_where_no_files_are_named() {
        assert_eq!(read("").unwrap(), SplitConfig::shares_of(0.05, 0.05));
        assert_eq!(read("test = 0").unwrap(), SplitConfig::shares_of(0.05, 0.0));
        let named = read("validation = \"eval\"").unwrap();
        assert_eq!((named.shares(), named.files()), ([0.0, 0.0], vec![(Split::Valid, "eval")]));
        let all = read("train = \"*\"\ntest = 0.1").unwrap();
        assert_eq!((all.shares(), all.files()), ([0.0, 0.1], vec![(Split::Train, "*")]));
        for split in [SplitConfig::default(), named, all] {
            assert_eq!(read(&toml::to_string(&split).unwrap()).unwrap(), split);
        }
    }

    #[test]
    fn a_share_of_the_usual_size_is_the_default() {
        let given = |split: SplitConfig| split.given_shares().map(|share| share > 0.0);
        assert_eq!(given(SplitConfig::default()), [false, false]);
        assert_eq!(given(SplitConfig::shares_of(0.1, 0.05)), [true, false]);
        assert_eq!(given(SplitConfig::whole()), [false, false]);
    }
}
