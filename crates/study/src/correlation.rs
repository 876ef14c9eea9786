//! `[[correlation]]` of a study file: which metrics may predict another. See [`prediction`](crate::prediction).

use crate::schema::pointed;
use longwave_core::config::read;
use longwave_core::{Error, Result};
use longwave_eval::{Metric, Protocol, Split};
use serde::Deserialize;
use toml::Table;

/// One `[[correlation]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Correlation {
    pub of: Vec<Metric>,
    #[serde(default)]
    pub with: Metric,
    #[serde(default = "diagnostics")]
    pub protocol: Protocol,
    #[serde(default)]
    pub split: Split,
}

fn diagnostics() -> Protocol {
    Protocol::Diagnostics
}

impl Correlation {
    /// Reads one `[[correlation]]`; `section` is its place in the file.
    pub(crate) fn read(table: &Table, section: &str) -> Result<Self> {
        let correlation: Self = read(table, section).map_err(pointed)?;
        let Self { of, with, protocol, .. } = &correlation;
        let wrong = |key: &str, value: String, allowed: String| {
            Error::value(&format!("{section}.{key}"), value, allowed)
        };
        if of.is_empty() {
            return Err(wrong("of", "[]".to_owned(), "it names a metric".to_owned())
                .hint("write `of = [\"unseen_angles\", \"first_token\"]`"));
        }
        if let Some(metric) = of.iter().chain([with]).find(|metric| !metric.is_of(protocol.material())) {
            let allowed = format!("rows of `{protocol}` do not hold it");
            return Err(wrong("of", format!("\"{}\"", metric.name()), allowed).hint(metric.held_by()));
        }
        Ok(correlation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_that_the_rows_lack_is_named() {
        let table = |text: &str| text.parse::<Table>().unwrap();
        let read = |text: &str| Correlation::read(&table(text), "correlation[0]");
        assert_eq!(read("of = ['first_token']").unwrap().with, Metric::Loss);
        let error = read("of = ['first_token']\nprotocol = 'fixed_target'").unwrap_err();
        assert!(error.message().contains("rows of `fixed_target` do not hold it"), "{error:?}");
        assert!(error.hint_text().unwrap().contains("protocol = \"diagnostics\""));
        assert!(read("of = []").unwrap_err().message().contains("it names a metric"));
    }
}
