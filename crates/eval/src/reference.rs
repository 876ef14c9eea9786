//! Differences between the readings of one model: every row of an evaluation minus one of them, paired by document.
//!
//! The reading that is subtracted is `window_baseline` unless `against` (`--against`) names an extension of the block. Rows
//! record it with the difference, so that tables, files and the page agree. `longwave compare` compares two trained
//! models.

use crate::combinations::as_json;
use crate::plan::WINDOW_BASELINE;
use crate::row::{ReferenceDifference, ResultRow, Settings};
use longwave_core::config::unknown_kind;
use longwave_core::{Error, Result};
use longwave_position::ExtensionConfig;
use longwave_position::extensions;
use toml::Value;

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Reference {
    /// The context truncated to the last L tokens.
    #[default]
    WindowBaseline,
    /// The one reading with an extension of this kind.
    Kind(String),
    /// The reading with an extension of this config, every default filled in.
    Config(serde_json::Value),
}

impl Reference {
    /// Reads `window_baseline`, a kind, or a table with a `kind` and the keys of that extension.
    pub fn from_value(value: &Value, section: &str) -> Result<Self> {
        match value {
            Value::String(kind) if kind == WINDOW_BASELINE => Ok(Self::WindowBaseline),
            Value::String(kind) => {
                let known = extensions::kinds().iter().map(|entry| entry.kind).chain([WINDOW_BASELINE]);
                match known.clone().find(|known| known == kind) {
                    Some(kind) => Ok(Self::Kind(kind.to_owned())),
                    None => Err(unknown_kind(section, kind, known)),
                }
            }
            _ => Ok(Self::Config(as_json(&ExtensionConfig::from_value(value, section)?)?)),
        }
    }

    /// As rows record it; [`of_recorded`](Self::of_recorded) reads it back.
    fn recorded(row: &ResultRow) -> serde_json::Value {
        if row.extend == WINDOW_BASELINE { WINDOW_BASELINE.into() } else { row.extend_config.clone() }
    }

    fn of_recorded(recorded: &serde_json::Value) -> Self {
        match recorded.as_str() {
            Some(_) => Self::WindowBaseline,
            None => Self::Config(recorded.clone()),
        }
    }

    pub fn is(&self, row: &ResultRow) -> bool {
        match self {
            Self::WindowBaseline => row.extend == WINDOW_BASELINE,
            Self::Kind(kind) => row.extend == *kind,
            Self::Config(config) => row.extend != WINDOW_BASELINE && row.extend_config == *config,
        }
    }

    /// Checks that an evaluation has one such reading: `kinds` are those of all its readings, `extensions` those
    /// whose values are fixed.
    pub(crate) fn check(&self, extensions: &[ExtensionConfig], kinds: &[&str], key: &str) -> Result<()> {
        let (shown, count) = match self {
            Self::WindowBaseline => return Ok(()),
            Self::Kind(kind) => (format!("\"{kind}\""), kinds.iter().filter(|other| *other == kind).count()),
            Self::Config(config) => {
                let configs = extensions.iter().map(as_json).collect::<Result<Vec<_>>>()?;
                // An extension that is listed twice is one reading.
                (config.to_string(), usize::from(configs.contains(config)))
            }
        };
        match count {
            1 => Ok(()),
            0 => {
                let mut kinds = kinds.to_vec();
                kinds.dedup();
                Err(Error::value(key, shown, "it is none of the readings of the evaluation").hint(format!(
                    "add it to `extend`, or compare with `{WINDOW_BASELINE}` or one of `{}`",
                    kinds.join("`, `")
                )))
            }
            count => Err(Error::value(
                key,
                shown,
                format!("the evaluation has {count} readings of that kind"),
            )
            .hint("name one by a table with its keys, such as `{ kind = \"rerope\", window = \"L/4\" }`")),
        }
    }

    /// Fills in the difference of every row whose model was also read in this way, on the same tokens. Other rows stay as
    /// they are.
    pub fn fill(&self, rows: &mut [ResultRow]) -> Result<()> {
        let partners: Vec<ResultRow> = rows.iter().filter(|row| self.is(row)).cloned().collect();
        for row in rows {
            let mut fitting = partners.iter().filter(|other| same_model(other, row) && same_text(other, row));
            let Some(partner) = fitting.next() else { continue };
            if let (Self::Kind(kind), Some(_)) =
                (self, fitting.find(|it| it.extend_config != partner.extend_config))
            {
                return Err(Error::usage(format!("`{kind}` is several readings of `{}`", row.run)).hint(
                    "name one by a table with its keys, such as `{ kind = \"rerope\", window = \"L/4\" }`",
                ));
            }
            row.difference = if Self::recorded(row) == Self::recorded(partner) {
                None
            } else {
                row.minus(partner).map(|mean| ReferenceDifference {
                    against: Self::recorded(partner),
                    nll: mean.mean,
                    nll_se: mean.se,
                })
            };
        }
        Ok(())
    }
}

/// Gives rows of several evaluations one reference: the given one; else the one that all rows with a difference share;
/// else the window baseline. Rows that score alike have one reference together.
pub fn resolve(rows: &mut Vec<ResultRow>, given: Option<&Reference>) -> Result<()> {
    if let Some(given) = given
        && !rows.iter().any(|row| given.is(row))
    {
        return Err(Error::usage("no row is the reading that `--against` names").hint(
            "name one that was measured, as the tables do, or measure it with `longwave eval RUN --extend`",
        ));
    }
    let mut groups: Vec<((Settings, String), Vec<ResultRow>)> = Vec::new();
    let mut places = Vec::with_capacity(rows.len());
    for row in rows.drain(..) {
        let key = (row.settings.without_length(), row.checkpoint.clone());
        let group = groups.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        places.push(group);
        groups[group].1.push(row);
    }
    for (_, rows) in &mut groups {
        let mut recorded =
            rows.iter().filter_map(|row| row.difference.as_ref()).map(|difference| &difference.against);
        let agreed =
            recorded.next().filter(|first| recorded.all(|other| other == *first)).map(Reference::of_recorded);
        let against = given.cloned().or(agreed).unwrap_or_default();
        for row in rows.iter_mut() {
            row.difference = None;
        }
        against.fill(rows)?;
    }
    // Back in their order.
    let mut groups: Vec<_> = groups.into_iter().map(|(_, rows)| rows.into_iter()).collect();
    rows.extend(places.into_iter().filter_map(|group| groups[group].next()));
    Ok(())
}

fn same_model(a: &ResultRow, b: &ResultRow) -> bool {
    (&a.config_hash, a.seed, &a.checkpoint, a.step, a.stage)
        == (&b.config_hash, b.seed, &b.checkpoint, b.step, b.stage)
}

fn same_text(a: &ResultRow, b: &ResultRow) -> bool {
    a.settings.length == b.settings.length && a.settings.without_length() == b.settings.without_length()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::EvaluateConfig;
    use crate::evaluation::Evaluation;
    use crate::metrics::DocumentSums;
    use crate::row::example::row as example;

    fn rows() -> Vec<ResultRow> {
        [("direct", 3.0), ("yarn", 2.5), ("ntk", 2.75), (WINDOW_BASELINE, 2.0)]
            .into_iter()
            .flat_map(|(extend, nll)| [128, 1024].map(|length| example(extend, length, nll)))
            .collect()
    }

    fn difference(rows: &[ResultRow], extend: &str) -> Option<(serde_json::Value, f64)> {
        let row = rows.iter().find(|row| row.extend == extend && row.settings.length == 1024).unwrap();
        row.difference.as_ref().map(|difference| (difference.against.clone(), difference.nll))
    }

    #[test]
    fn differences_are_to_the_named_reading() {
        let mut rows = rows();
        Reference::WindowBaseline.fill(&mut rows).unwrap();
        assert_eq!(difference(&rows, "direct"), Some((WINDOW_BASELINE.into(), 1.0)));
        assert_eq!(difference(&rows, WINDOW_BASELINE), None);
        Reference::Kind("yarn".into()).fill(&mut rows).unwrap();
        assert_eq!(difference(&rows, WINDOW_BASELINE), Some((serde_json::json!({ "kind": "yarn" }), -0.5)));
        assert_eq!(difference(&rows, "yarn"), None, "nothing is compared with itself");
        // Another model, or a row without sums per document, has no pair.
        rows[0].config_hash = "other".into();
        rows[2].per_document = None;
        for row in &mut rows {
            row.difference = None;
        }
        Reference::WindowBaseline.fill(&mut rows).unwrap();
        assert!(rows[0].difference.is_none() && rows[1].difference.is_some() && rows[2].difference.is_none());
    }

    #[test]
    fn rows_of_several_evaluations_share_one_reference() {
        let mut agreed = rows();
        Reference::Kind("ntk".into()).fill(&mut agreed).unwrap();
        // A row that was measured later and says nothing yet.
        agreed.push(example("linear", 1024, 4.0));
        let order: Vec<String> = agreed.iter().map(|row| row.extend.clone()).collect();
        resolve(&mut agreed, None).unwrap();
        assert_eq!(difference(&agreed, "linear"), Some((serde_json::json!({ "kind": "ntk" }), 1.25)));
        assert_eq!(agreed.iter().map(|row| row.extend.clone()).collect::<Vec<_>>(), order);
        let mut mixed = agreed.clone();
        mixed[0].difference.as_mut().unwrap().against = WINDOW_BASELINE.into();
        resolve(&mut mixed, None).unwrap();
        assert_eq!(difference(&mixed, "linear"), Some((WINDOW_BASELINE.into(), 2.0)));
        resolve(&mut mixed, Some(&Reference::Kind("direct".into()))).unwrap();
        assert_eq!(difference(&mixed, "linear").unwrap().1, 1.0);
        let error = resolve(&mut mixed, Some(&Reference::Kind("mrrope".into()))).unwrap_err();
        assert!(error.hint_text().is_some(), "{error}");
        let twin = ResultRow {
            extend_config: serde_json::json!({ "kind": "yarn", "ramp": "paper" }),
            per_document: Some(DocumentSums::new(vec![2048; 2]).with_numbers("nll", vec![1.0; 2])),
            ..example("yarn", 1024, 3.5)
        };
        mixed.push(twin);
        let error = resolve(&mut mixed, Some(&Reference::Kind("yarn".into()))).unwrap_err();
        assert!(error.message().contains("several readings"), "{error}");
    }

    #[test]
    fn a_reference_must_be_a_reading_of_the_evaluation() {
        let read = |against: &str| {
            let extend = "[\"ntk\", \"rerope\", { kind = \"rerope\", window = \"L/4\" }, { kind = \"yarn\", beta = [16, 32] }]";
            let text = format!("lengths = [128]\nextend = {extend}\nagainst = {against}");
            let config: EvaluateConfig =
                longwave_core::config::read(&text.parse().unwrap(), "evaluate[0]").unwrap();
            Evaluation::new(&config, "evaluate[0]", 128).map(|evaluation| evaluation.reference)
        };
        assert_eq!(read("\"window_baseline\"").unwrap(), Reference::WindowBaseline);
        assert_eq!(read("\"ntk\"").unwrap(), Reference::Kind("ntk".into()));
        assert_eq!(read("\"yarn\"").unwrap(), Reference::Kind("yarn".into()), "one is chosen");
        assert!(matches!(read("{ kind = \"rerope\", window = \"L/4\" }").unwrap(), Reference::Config(_)));
        for (against, part) in [
            ("\"linear\"", "none of the readings"),
            ("\"rerope\"", "2 readings of that kind"),
            ("{ kind = \"ntk\", scale = 2.0 }", "none of the readings"),
            ("\"ntkk\"", "`evaluate[0].against = \"ntkk\"`"),
            ("{ kind = \"ntk\", scael = 2.0 }", "scael"),
        ] {
            let error = read(against).unwrap_err();
            assert!(error.to_string().contains(part) && error.hint_text().is_some(), "{against}: {error}");
        }
        assert!(read("3").unwrap_err().message().starts_with("`evaluate[0].against = 3`"));
    }
}
