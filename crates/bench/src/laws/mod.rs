//! Laws of what a program registers: `selfcheck` holds its encodings, extensions, protocols and metrics to them. Those of
//! encodings are in `longwave_position::laws`. Tests apply all of them to the entries of this workspace too.

pub mod extensions;
pub mod measures;

use longwave_core::Result;
use longwave_eval::{metrics, protocols};
use longwave_position::{encodings, laws};

/// The error says what does not hold.
pub type Outcome = std::result::Result<(), String>;

type Check<'a> = dyn FnMut(String, &dyn Fn() -> Outcome) -> Result<()> + 'a;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what()) }
}

/// Checks every entry that the program has registered.
pub(crate) fn of_registered(check: &mut Check<'_>) -> Result<()> {
    for entry in encodings::registered() {
        let kind = entry.info.kind;
        for law in laws::LAWS {
            check(format!("law: {kind}: {}", law.name), &|| of_settings(law, &entry.settings()))?;
        }
        let name = format!("law: {kind}: attention is causal under every extension");
        check(name, &|| extensions::is_causal_under_every_extension(kind))?;
    }
    for kind in longwave_position::extensions::registered().iter().map(|entry| entry.info.kind) {
        for law in extensions::LAWS {
            check(format!("law: {kind}: {}", law.name), &|| law.check_kind(kind))?;
        }
    }
    for &protocol in protocols::registered() {
        check(format!("law: {protocol}: plans keep what they say"), &|| measures::plans_hold(protocol))?;
    }
    for &metric in metrics::registered() {
        check(format!("law: {}: values follow from sums", metric.name()), &|| measures::values_hold(metric))?;
    }
    Ok(())
}

/// A law of encodings with each of some `[position]` tables.
fn of_settings(law: &laws::Law, settings: &[String]) -> Outcome {
    for text in settings {
        let with = |error: String| format!("`{}`: {error}", text.replace('\n', ", "));
        let table = text.parse::<toml::Table>().map_err(|error| with(error.to_string()))?;
        law.check(&table.into()).map_err(with)?;
    }
    Ok(())
}
