//! The run that `config.json` holds under the key `longwave`.

use longwave_train::checkpoint::StageReading;
use serde::{Deserialize, Serialize};

/// The key of `config.json` that holds the run.
pub(crate) const RUN_KEY: &str = "longwave";

/// The format of the value under `longwave`. A newer one is rejected.
pub(crate) const FORMAT: u32 = 2;

/// The format without `scaling`, which earlier versions read too.
pub(crate) const FORMAT_UNSCALED: u32 = 1;

/// The value of `longwave` in `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunBlock {
    /// [`FORMAT`], or [`FORMAT_UNSCALED`].
    pub(crate) format: u32,
    /// The run's config, every default written out.
    pub(crate) config: serde_json::Value,
    /// The metadata of its checkpoint.
    pub(crate) checkpoint: longwave_train::checkpoint::Meta,
    /// SHA-256 of `model.safetensors`: other weights are not this run's.
    pub(crate) weights_sha256: String,
    /// The extension that the fields beside it name for other programs. The run itself reads as it was trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scaling: Option<StageReading>,
}
