//! What metrics are made of: scores, their sums per document, and the values of a row.

use crate::number;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Negative log likelihood in nats.
    pub nll: f64,
    /// Whether the model gave it the highest probability of all tokens (the first of those alike).
    pub correct: bool,
}

/// A number per target that is summed over each document.
#[derive(Clone, Copy, Debug)]
pub struct TokenSum {
    pub name: &'static str,
    pub of: fn(&Score) -> f64,
    /// Whether the sums are whole numbers.
    pub counts: bool,
}

/// Sums of each document, in the order of the split; skipped documents have zeros.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentSums {
    /// Scored tokens `[documents]`.
    pub tokens: Vec<u64>,
    /// Whether they are blocks of the one document that was scored, see [`Parts`](crate::Parts).
    pub blocks: bool,
    /// Sums of the targets' numbers by their names, each `[documents]`.
    sums: Vec<(String, Sums)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Sums {
    Counts(Vec<u64>),
    /// `null` in the file where it is no finite number.
    Numbers(Vec<f64>),
}

impl DocumentSums {
    /// Rows keep the sums of up to so many scored documents, about 2.5 MB a row.
    pub const MOST: usize = 100_000;

    /// Documents of so many scored tokens each, without sums.
    pub fn new(tokens: Vec<u64>) -> Self {
        Self { tokens, blocks: false, sums: Vec::new() }
    }

    #[must_use]
    pub fn with_numbers(mut self, name: &str, sums: Vec<f64>) -> Self {
        self.sums.push((name.to_owned(), Sums::Numbers(sums)));
        self
    }

    #[must_use]
    pub fn with_counts(mut self, name: &str, counts: Vec<u64>) -> Self {
        self.sums.push((name.to_owned(), Sums::Counts(counts)));
        self
    }

    pub(crate) fn scored(&self) -> usize {
        self.tokens.iter().filter(|tokens| **tokens > 0).count()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let documents = self.tokens.len();
        let count = |sums: &Sums| match sums {
            Sums::Counts(counts) => counts.len(),
            Sums::Numbers(numbers) => numbers.len(),
        };
        match self.sums.iter().find(|(_, sums)| count(sums) != documents) {
            Some((name, sums)) => Err(format!(
                "`per_document.{name}` has {} numbers, and `per_document.tokens` {documents}",
                count(sums)
            )),
            None => Ok(()),
        }
    }

    /// The counts of a name `[documents]`; `None` where there are none.
    pub fn counts(&self, name: &str) -> Option<Vec<u64>> {
        match self.sums.iter().find(|(known, _)| known == name)? {
            (_, Sums::Counts(counts)) => Some(counts.clone()),
            (_, Sums::Numbers(_)) => None,
        }
    }

    /// The sums of a name `[documents]`; `None` in rows of programs that did not have it.
    pub fn get(&self, name: &str) -> Option<Vec<f64>> {
        let (_, sums) = self.sums.iter().find(|(known, _)| known == name)?;
        Some(match sums {
            Sums::Counts(counts) => counts.iter().map(|&count| count as f64).collect(),
            Sums::Numbers(numbers) => numbers.clone(),
        })
    }
}

impl Serialize for DocumentSums {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("tokens", &self.tokens)?;
        if self.blocks {
            map.serialize_entry("blocks", &true)?;
        }
        for (name, sums) in &self.sums {
            match sums {
                Sums::Counts(counts) => map.serialize_entry(name, counts)?,
                Sums::Numbers(numbers) => map.serialize_entry(name, &number::finite(numbers))?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for DocumentSums {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = DocumentSums;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("lists of sums with the list `tokens`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DocumentSums, A::Error> {
                let (mut tokens, mut blocks, mut sums) = (None, false, Vec::new());
                while let Some(name) = map.next_key::<String>()? {
                    if name == "tokens" {
                        tokens = Some(map.next_value()?);
                    } else if name == "blocks" {
                        blocks = map.next_value()?;
                    } else {
                        // A field that is no list of numbers is another program's.
                        let value: serde_json::Value = map.next_value()?;
                        if let Ok(numbers) = serde_json::from_value::<Vec<Option<serde_json::Number>>>(value)
                        {
                            sums.push((name, Sums::read(&numbers)));
                        }
                    }
                }
                let tokens = tokens.ok_or_else(|| serde::de::Error::missing_field("tokens"))?;
                Ok(DocumentSums { tokens, blocks, sums })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl Sums {
    /// Counts where all are whole numbers as written, such as `3` and not `3.0`.
    fn read(numbers: &[Option<serde_json::Number>]) -> Self {
        let count = |number: &Option<serde_json::Number>| number.as_ref()?.as_u64();
        if let Some(counts) = numbers.iter().map(count).collect() {
            return Self::Counts(counts);
        }
        let number =
            |number: &Option<serde_json::Number>| number.as_ref().and_then(serde_json::Number::as_f64);
        Self::Numbers(numbers.iter().map(|it| number(it).unwrap_or(f64::NAN)).collect())
    }
}

/// The values of a row by the names of their columns; NaN is `null` in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(BTreeMap<&'static str, f64>);

impl Values {
    /// The value of a column; `None` where the row lacks it.
    pub fn get(&self, column: &str) -> Option<f64> {
        self.0.get(column).copied()
    }

    pub fn set(&mut self, column: &'static str, value: Option<f64>) {
        match value {
            Some(value) => self.0.insert(column, value),
            None => self.0.remove(column),
        };
    }
}

/// The facts of a measurement that metrics are made of.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Scored tokens.
    pub tokens: u64,
    /// Bytes of text of the scored tokens; 0 where they are no text.
    pub bytes: u64,
    pub values: &'a Values,
    pub per_document: Option<&'a DocumentSums>,
    /// The loss minus that of the reference reading.
    pub difference: Option<DifferenceFacts<'a>>,
    /// Values and sums of the window baseline of the same run at the same length.
    pub baseline: Option<(&'a Values, Option<&'a DocumentSums>)>,
}

impl Facts<'_> {
    /// The sums of a name and the scored tokens of each document; `None` where there are none.
    pub(super) fn summed(&self, name: &str) -> Option<Documents> {
        let sums = self.per_document?;
        Some(Documents { sums: sums.get(name)?, weights: sums.tokens.clone() })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct DifferenceFacts<'a> {
    /// The other reading, as rows record it.
    pub against: &'a serde_json::Value,
    /// The difference, in nats per token.
    pub nll: f64,
    pub nll_se: Option<f64>,
}

/// Sums over each document, and their weights: the metric is the quotient of their totals.
#[derive(Clone, Debug, PartialEq)]
pub struct Documents {
    /// `[documents]`.
    pub sums: Vec<f64>,
    /// Tokens, or sequences `[documents]`.
    pub weights: Vec<u64>,
}
