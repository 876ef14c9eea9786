//! How a published architecture reads texts past the training length: the `rope_parameters` of `config.json`.

use burn::tensor::Device;
use longwave_core::{Error, Result, written};
use longwave_model::resolved::Resolved;
use longwave_position::extensions::rope_parameters::{Applied, Written, rope_type, written};
use longwave_position::{ExtensionConfig, Init, Lengths};
use longwave_train::checkpoint::StageReading;
use longwave_train::{Imported, RunConfig};
use serde_json::{Map, Value, json};

/// The field of the longest text that a model is for.
pub(crate) const LONGEST: &str = "max_position_embeddings";

/// The scaling that `config.json` says: what `--extend` asked for, or else the stage that scaled the model.
///
/// `Ok(Err(reason))` where its stages made a model that no `rope_parameters` describe.
pub(crate) fn of(
    config: &RunConfig,
    resolved: &Resolved,
    stages: &[StageReading],
    asked: Option<&StageReading>,
) -> Result<Result<Option<Written>, String>> {
    if stages.iter().any(|stage| stage.head_scale.is_some()) {
        let reason = "a `[[stage]]` trained a factor on the logits of each head";
        return match asked {
            None => Ok(Err(reason.to_owned())),
            Some(_) => Err(Error::usage(format!("`--extend` has no place in the files: {reason}"))
                .hint("leave `--extend` out, or export the end of `[train]` with `--checkpoint stage-0`")),
        };
    }
    let published = config.imported.as_ref().map(Imported::published).transpose()?.flatten();
    if asked.is_some() && published.as_ref().is_some_and(|published| published.scaling.is_some()) {
        return Err(Error::usage("`--extend` would scale a model twice: its file already scales positions").hint(
            "leave `--extend` out, or import the file with `--scaling added` if the model was not trained with that scaling",
        ));
    }
    let rope_parameters = |scaling, applied| rope_parameters(config, resolved, scaling, applied);
    let changed: Vec<&StageReading> =
        stages.iter().filter(|stage| stage.extend != json!({ "kind": "direct" })).collect();
    match (changed.as_slice(), asked) {
        ([], None) => Ok(Ok(None)),
        ([], Some(asked)) => rope_parameters(asked, Applied::ToEachText).map(|written| Ok(Some(written))),
        (_, Some(_)) => Err(Error::usage(
            "`--extend` would scale a model twice: a `[[stage]]` already changed how it reads",
        )
        .hint("leave `--extend` out, or export the end of `[train]` with `--checkpoint stage-0`")),
        ([stage], None) => Ok(rope_parameters(stage, Applied::Once)
            .map(Some)
            .map_err(|error| format!("a `[[stage]]` changed how it reads, and {}", error.message()))),
        (_, None) => Ok(Err("several stages changed how it reads, one after the other".to_owned())),
    }
}

fn rope_parameters(
    config: &RunConfig,
    resolved: &Resolved,
    scaling: &StageReading,
    applied: Applied,
) -> Result<Written> {
    let value = written::toml_value("an extension", &scaling.extend)?;
    let extend = ExtensionConfig::from_value(&value, "extend")?;
    // As `[train]` left it; the model's own reading has its stages.
    let reading = config.position.build(
        "position",
        &resolved.dimensions,
        &Init::new(config.seed, &Device::flex()),
        resolved.log_n(),
    )?;
    written(&extend, &reading, Lengths { train: config.train.length, length: scaling.length }, applied)
}

/// Puts the longest text that a run without a scaling was trained on into its fields: a stage may read longer ones as the model does anyway.
pub(crate) fn insert_longest(fields: &mut Map<String, Value>, config: &RunConfig, stages: &[StageReading]) {
    if let Some(longest) = fields.get_mut(LONGEST) {
        *longest = stages.iter().fold(config.train.length, |most, stage| most.max(stage.length)).into();
    }
}

/// Puts the scaling of a run into its fields of a published architecture. `rotary` are its [base and share](crate::fields::rotary).
pub(crate) fn insert(fields: &mut Map<String, Value>, rotary: Map<String, Value>, scaling: Written) {
    let Written { mut parameters, longest } = scaling;
    if let Some(share) = rotary.get("rotary_pct") {
        parameters.insert("partial_rotary_factor".to_owned(), share.clone());
    }
    // Beside a `rope_scaling` transformers reads nothing of `rope_parameters`, in which an imported file may have had them alone.
    fields.extend(rotary);
    let original = parameters.get("original_max_position_embeddings").cloned();
    let kind = rope_type(&parameters).and_then(Value::as_str).unwrap_or_default().to_owned();
    for key in ["rope_scaling", "original_max_position_embeddings"] {
        fields.remove(key);
    }
    if kind != "default" {
        // As transformers 4 reads it: base and share stand beside it, and `longrope` has its length there too.
        let mut older = parameters.clone();
        older.retain(|key, _| !matches!(key.as_str(), "rope_theta" | "partial_rotary_factor"));
        fields.insert("rope_scaling".to_owned(), older.into());
    }
    if kind == "longrope" {
        fields.extend(original.map(|length| ("original_max_position_embeddings".to_owned(), length)));
    }
    fields.insert("rope_parameters".to_owned(), parameters.into());
    fields.insert(LONGEST.to_owned(), longest.into());
}
