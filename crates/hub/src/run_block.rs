//! The run that `config.json` holds under the key `longwave`.

use longwave_core::file::sha256_of;
use longwave_core::{Error, Result, canonical};
use longwave_train::checkpoint::StageReading;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The key of `config.json` that holds the run.
pub(crate) const RUN_KEY: &str = "longwave";

/// The key of `config.json` that holds a hash of that run. It stands beside it.
pub(crate) const CHECKSUM_KEY: &str = "longwave_sha256";

/// The format of the value under `longwave`. Another one is rejected.
pub(crate) const FORMAT: u32 = 1;

/// The value of `longwave` in `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunBlock {
    pub(crate) format: u32,
    /// The run's config, every default written out.
    pub(crate) config: Value,
    pub(crate) checkpoint: longwave_train::checkpoint::Meta,
    /// SHA-256 of `model.safetensors`: other weights are not this run's.
    pub(crate) weights_sha256: String,
    /// The extension that the fields beside it name for other programs, or that `model.py` reads with. The run itself reads as it
    /// was trained.
    pub(crate) scaling: Option<StageReading>,
}

/// Puts a run into a `config.json`, with its hash.
pub(crate) fn insert(json: &mut Map<String, Value>, block: &RunBlock) -> Result<()> {
    let failed = |error: serde_json::Error| Error::failed(format!("config.json cannot be written: {error}"));
    // As a reader will see it: reading may change the last digit of a number.
    let read: Value = serde_json::from_str(&serde_json::to_string(block).map_err(failed)?).map_err(failed)?;
    json.insert(CHECKSUM_KEY.to_owned(), hash(&read).into());
    json.insert(RUN_KEY.to_owned(), serde_json::to_value(block).map_err(failed)?);
    Ok(())
}

/// Checks that the run of a `config.json` is the one that was written.
pub(crate) fn check(json: &Map<String, Value>) -> Result<()> {
    let (Some(expected), Some(block)) = (json.get(CHECKSUM_KEY), json.get(RUN_KEY)) else { return Ok(()) };
    if *expected == hash(block) {
        return Ok(());
    }
    Err(Error::failed(format!("`{RUN_KEY}` is damaged: `{CHECKSUM_KEY}` is the hash of another run")).hint(
        format!("export the run again, or take `{CHECKSUM_KEY}` out if you changed the run on purpose"),
    ))
}

fn hash(block: &Value) -> String {
    sha256_of(canonical::text(block.clone()).as_bytes())
}
