//! The metrics of a reading, one file each. Adding one is one new file and one line here. A program outside of this
//! workspace adds its own with [`register`].
//!
//! A metric says what its columns are, how its value and error follow from sums per document, and how tables show it.
//! Rows, CSV files, tables, charts, `compare` and the claims of studies follow from the list.

pub mod attention;
mod measure;
mod positions;
mod sums;
mod tally;
#[cfg(test)]
mod tests;

pub use measure::{Absent, Column, Measure};
pub use positions::{PositionRow, PositionTally};
pub use sums::{DifferenceFacts, DocumentSums, Documents, Facts, Score, TokenSum, Values};
pub use tally::Tally;

use crate::fields::reserved_columns;
use crate::protocols;
use longwave_core::config::unknown_kind;
use longwave_core::registry::{Registered, Registry, check_name};
use longwave_core::{Error, Result};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Deref;
use std::str::FromStr;
use std::sync::LazyLock;

macro_rules! metrics {
    ($($Name:ident in $module:ident),*; of attention: $($Attention:ident = $METRIC:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// Any one metric; its name is that of its file, or of its column where it is of attention.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Metric {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Name,)*
            $(#[doc = concat!("See [`attention::", stringify!($METRIC), "`].")] $Attention,)*
            Registered(Registered<dyn Measure>),
        }

        impl Metric {
            /// Those of this workspace, without those that a program registers.
            const OF_THE_WORKSPACE: &[Self] = &[$(Self::$Name,)* $(Self::$Attention,)*];

            /// The name in study files, options and files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Name => stringify!($module),)*
                    $(Self::$Attention => attention::$METRIC.column.name,)*
                    Self::Registered(entry) => entry.name(),
                }
            }
        }

        impl Deref for Metric {
            type Target = dyn Measure;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$Name => &$module::$Name,)*
                    $(Self::$Attention => &attention::$METRIC,)*
                    Self::Registered(entry) => entry.get(),
                }
            }
        }
    };
}

metrics! {
    Loss in loss,
    Perplexity in perplexity,
    BitsPerByte in bits_per_byte,
    Accuracy in accuracy,
    ExactMatch in exact_match,
    Chance in chance,
    Difference in difference,
    BaselineDifference in baseline_difference;
    of attention:
    UnseenAngles = UNSEEN_ANGLES,
    FirstToken = FIRST_TOKEN,
    EffectiveKeys = EFFECTIVE_KEYS,
    Entropy = ENTROPY,
    BeyondLength = BEYOND_LENGTH,
    StableRank = STABLE_RANK,
}

static REGISTRY: Registry<Metric> = Registry::new("metric");

pub fn registered() -> &'static [Metric] {
    REGISTRY.entries()
}

/// Adds metrics that another crate defines, each with its name, before anything reads the list. Protocols come first:
/// columns and their keys stand in one row.
pub fn register(entries: Vec<(&'static str, &'static dyn Measure)>) -> Result<()> {
    let mut known: Vec<Metric> = Metric::OF_THE_WORKSPACE.to_vec();
    for &(name, measure) in &entries {
        check_name("metric", name, known.iter().map(|metric| metric.name()))?;
        let names = |metric: &Metric| {
            let column = metric.column();
            let sums = metric.token_sum().map(|sum| sum.name);
            [sums, column.map(|column| column.name), column.and_then(|column| column.error)]
        };
        let metric = Metric::Registered(Registered::new(name, measure));
        let taken: Vec<&str> = known.iter().flat_map(names).flatten().collect();
        for (what, name) in ["sum", "column", "column"].into_iter().zip(names(&metric)) {
            let Some(name) = name else { continue };
            let keys = protocols::keys().into_iter().map(|key| key.name);
            check_name(what, name, reserved_columns().chain(keys).chain(taken.iter().copied()))?;
        }
        known.push(metric);
    }
    REGISTRY.fill(known.split_off(Metric::OF_THE_WORKSPACE.len()))
}

impl Metric {
    /// Every metric there is, in the order of columns: those of this workspace, then those that the program has
    /// registered.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<Metric>> =
            LazyLock::new(|| [Metric::OF_THE_WORKSPACE, registered()].concat());
        &ALL
    }

    /// Those by which two readings can be compared.
    pub fn comparable() -> impl Iterator<Item = Self> + Clone {
        Self::all().iter().copied().filter(|metric| metric.is_comparable())
    }

    /// One of these by its name, or by that of its column: `bits_per_byte` or `bpb`.
    fn named(name: &str) -> Option<Self> {
        let is_of = |metric: &Self| metric.column().is_some_and(|column| column.name == name);
        Self::comparable().find(|metric| metric.name() == name).or_else(|| Self::comparable().find(is_of))
    }

    pub fn in_words(self) -> String {
        self.name().replace('_', " ")
    }

    /// A value as tables show it, in per cent where it is a share, and its error to the same decimal place.
    pub fn shown(self, value: f64, error: Option<f64>) -> (String, Option<String>) {
        if !value.is_finite() {
            return (if value.is_nan() { "nan".into() } else { "inf".into() }, None);
        }
        self.texts(value, error)
    }

    /// What a value of a row is multiplied by in tables.
    pub fn factor(self) -> f64 {
        if self.is_share() { 100.0 } else { 1.0 }
    }

    /// The columns of rows, with what a row says where it lacks one.
    fn columns() -> impl Iterator<Item = (&'static str, Absent)> {
        let columns = Self::all().iter().filter_map(|metric| metric.column());
        columns.flat_map(|column| {
            // A value that is always there may lack its error: of one document there is none.
            let absent = if column.absent == Absent::LeftOut { Absent::LeftOut } else { Absent::Null };
            let error = column.error.filter(|_| column.error_in_rows).map(|error| (error, absent));
            std::iter::once((column.name, column.absent)).chain(error)
        })
    }

    pub fn is_column(name: &str) -> bool {
        Self::columns().any(|(column, _)| column == name)
    }
}

#[allow(clippy::derivable_impls, reason = "the variants come from the list, which marks no default")]
impl Default for Metric {
    fn default() -> Self {
        Self::Loss
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::named(name).ok_or_else(|| unknown_kind("--metric", name, Self::comparable().map(Self::name)))
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        static NAMES: LazyLock<Vec<&str>> =
            LazyLock::new(|| Metric::comparable().map(Metric::name).collect());
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| serde::de::Error::unknown_variant(&name, &NAMES))
    }
}

pub(crate) mod fields {
    use super::{Absent, Deserialize, Deserializer, Metric, SerializeMap, Serializer, Values};
    use serde::de::Error as _;
    use serde_json::Map;

    pub(crate) fn serialize<S: Serializer>(values: &Values, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, absent) in Metric::columns() {
            match values.get(name).filter(|value| value.is_finite()) {
                None if absent == Absent::LeftOut => {}
                value => map.serialize_entry(name, &value)?,
            }
        }
        map.end()
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
        let (fields, mut values) = (Map::deserialize(deserializer)?, Values::default());
        for (column, absent) in Metric::columns() {
            let is_needed = absent == Absent::Never;
            let value = match fields.get(column) {
                Some(value) => Option::deserialize(value).map_err(D::Error::custom)?,
                None if is_needed => return Err(D::Error::missing_field(column)),
                None => continue,
            };
            values.set(column, value.or(is_needed.then_some(f64::NAN)));
        }
        Ok(values)
    }
}
