//! The JSON schema of a study file, as `longwave schema --study` prints it and editors show it.

use crate::looks::MAX_SEEDS;
use longwave_core::error::Error;
use longwave_eval::{Metric, Protocol};
use serde_json::{Map, Value, json};

/// The schema of a study file: every key with what it means and allows. What runs take from their config is that of
/// [`mod@longwave_experiment::schema`].
pub fn schema() -> Value {
    let config = longwave_experiment::schema().to_value();
    let mut evaluate = config["properties"]["evaluate"].clone();
    evaluate["description"] = json!("How the runs are evaluated, in place of the base's evaluations.");
    let mut definitions = config["$defs"].as_object().cloned().unwrap_or_default();
    add_only(&mut definitions);
    json!({
        "$schema": config["$schema"],
        "title": "Study",
        "description": "A study: a base config, what is varied, and what is expected.",
        "type": "object",
        "required": ["name", "base"],
        "additionalProperties": false,
        "properties": {
            "name": described("string", "Names the study's folder: letters, digits, `-`, `_` and `.`."),
            "base": described("string", "The config that every run begins with: a path, or a file in `configs/`."),
            "seeds": {
                "description": "A number of seeds from 0, the seeds themselves, or `\"until decided\"`: more seeds for the runs \
                                of each claim until it is decided. Default: 1.",
                "anyOf": [
                    { "const": "until decided" },
                    { "type": "integer", "minimum": 1 },
                    { "type": "array", "items": { "type": "integer", "minimum": 0 }, "uniqueItems": true },
                ],
            },
            "max_seeds": {
                "description": format!("The most seeds of `seeds = \"until decided\"`. Default: {MAX_SEEDS}."),
                "type": "integer",
                "minimum": 2,
            },
            "best": best(),
            "threads": {
                "description": "Threads of a run on the CPU, or `\"auto\"`: the number with which this machine trains most \
                                tokens a second, all runs at a time together. Default: 1.",
                "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": "auto" }],
            },
            "devices": {
                "description": "Devices that runs are assigned to: `cpu`, `gpu`, `gpu:N` or `auto`. Default: `[\"cpu\"]`.",
                "type": "array",
                "items": { "type": "string" },
                "minItems": 1,
            },
            "store": described("string", "The folder of runs, shared by studies. Default: `runs/store`."),
            "set": described("object", "Changes to the base: any key of a config but `name`, `seed` and `evaluate`."),
            "axis": list("What is varied. Axes multiply with each other.", axis()),
            "stage": config["properties"]["stage"],
            "evaluate": evaluate,
            "claim": list("What the study expects.", claim()),
            "correlation": list("What may predict the loss past L.", correlation()),
        },
        "$defs": definitions,
    })
}

/// Lets an `[[evaluate]]` block name the runs it is for.
fn add_only(definitions: &mut Map<String, Value>) {
    let labels =
        json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] });
    let only = json!({
        "description": "The runs the block is for: labels by the name of an axis, or kinds of encodings as `encoding`. \
                        Default: all.",
        "type": "object",
        "additionalProperties": labels,
    });
    if let Some(properties) =
        definitions.get_mut("EvaluateConfig").and_then(|it| it["properties"].as_object_mut())
    {
        properties.insert("only".to_owned(), only);
    }
}

fn described(kind: &str, description: &str) -> Value {
    json!({ "description": description, "type": kind })
}

fn list(description: &str, item: Value) -> Value {
    json!({ "description": description, "type": "array", "items": item })
}

fn axis() -> Value {
    let values = described("array", "Its values; with `keys`, one list of values for each point.");
    json!({
        "description": "One axis: `key` or `keys` with `values`, or `points`.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "name": described("string", "Names it in results and claims. Default: its keys, or `point`."),
            "key": described("string", "The dotted key of a config that it varies."),
            "keys": { "description": "Keys that change together.", "type": "array", "items": { "type": "string" } },
            "values": values,
            "labels": { "description": "Names of its values.", "type": "array", "items": { "type": "string" } },
            "points": list(
                "Named points, each with the keys that it changes.",
                json!({ "type": "object", "required": ["label"], "properties": {
                    "label": described("string", "Names the point in results and claims."),
                } }),
            ),
        },
    })
}

fn metrics() -> Vec<&'static str> {
    Metric::comparable().map(Metric::name).collect()
}

fn best() -> Value {
    let length = json!([{ "type": "integer", "minimum": 1 }, { "type": "string" }]);
    let table = json!({
        "type": "object",
        "required": ["at"],
        "additionalProperties": false,
        "properties": {
            "at": { "description": "The length.", "anyOf": length },
            "metric": { "description": "What is compared. Default: what the protocol is about, such as `loss`.", "enum": metrics() },
        },
    });
    json!({
        "description": "Ranks everything that is read at this length, with all pairs corrected together: a length, or a table \
                        with `at` and `metric`, as `{ at = \"8L\", metric = \"bits_per_byte\" }`.",
        "anyOf": [length[0], length[1], table],
    })
}

fn claim() -> Value {
    let protocols: Vec<String> = Protocol::all().iter().map(ToString::to_string).collect();
    json!({
        "description": "A claim, judged by the difference of its sides.",
        "type": "object",
        "required": ["says"],
        "additionalProperties": false,
        "properties": {
            "says": described("string", "The sentence, such as `\"rope, yarn < alibi at 8L\"`, `\"alibi at 16L < alibi at L\"` or `\"rope, step=300 < rope at 8L\"`."),
            "metric": { "description": "What is compared. Default: `loss`.", "enum": metrics() },
            "tolerance": {
                "description": "By how much the sides may differ the wrong way, in the unit of the metric. Default: 0.",
                "type": "number",
                "minimum": 0,
            },
            "protocol": { "description": "The protocol of its rows. Default: the first that both sides have.", "enum": protocols },
            "tokens": { "description": "Which of the protocol's tokens its rows score. Default: as for `protocol`.", "enum": ["all", "key"] },
            "split": { "description": "The split of its rows. Default: as for `protocol`.", "enum": ["train", "valid", "test"] },
            "over": { "description": "What errors are over. Default: what those of all claims are over, seeds where the study has several.", "enum": ["seeds", "documents", "both"] },
        },
    })
}

fn correlation() -> Value {
    let protocols: Vec<String> = Protocol::all().iter().map(ToString::to_string).collect();
    json!({
        "description": "Spearman's rank correlation of metrics with another, over readings above L.",
        "type": "object",
        "required": ["of"],
        "additionalProperties": false,
        "properties": {
            "of": {
                "description": "The metrics that may predict, compared on the same readings.",
                "type": "array",
                "items": { "enum": metrics() },
                "minItems": 1,
            },
            "with": { "description": "What they predict. Default: `loss`.", "enum": metrics() },
            "protocol": { "description": "The protocol of the rows. Default: `diagnostics`.", "enum": protocols },
            "split": { "description": "The split of the rows. Default: `test`.", "enum": ["train", "valid", "test"] },
        },
    })
}

/// Points the hint of an error about a study file to its schema.
pub(crate) fn pointed(error: Error) -> Error {
    match error.hint_text().map(|hint| hint.replace("`longwave schema`", "`longwave schema --study`")) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}
