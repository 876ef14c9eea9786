//! Extensions in exported files: every `rope_type`, fine-tuned stages, and what has no counterpart.

use super::{LAYER_NORM, LENGTH, Made, QWEN3, SWIGLU, distance, edit, imported, keep, logits, logits_read};
use crate::common::Project;
use longwave_position::{ExtensionConfig, Lengths};
use longwave_train::FileScaling;
use longwave_train::checkpoint::StageReading;
use serde_json::{Value, json};
use std::fs;

/// An extension with a fixed scale, the `rope_type` that names it, and how the architecture is chosen.
fn scalings() -> Vec<(&'static str, Value, &'static str, String)> {
    let long = [1.0, 1.25, 2.5, 4.0];
    vec![
        ("linear", json!({ "kind": "linear", "scale": 4.0 }), "linear", SWIGLU.to_owned()),
        ("dynamic", json!({ "kind": "dynamic_ntk", "factor": 2.0 }), "dynamic", SWIGLU.to_owned()),
        ("yarn", json!({ "kind": "yarn", "scale": 4.0 }), "yarn", SWIGLU.to_owned()),
        (
            "yarn-keys",
            json!({ "kind": "yarn", "scale": 4.0, "beta": 2.0, "alpha": 0.5, "mscale": 0.7, "truncate": false }),
            "yarn",
            QWEN3.to_owned(),
        ),
        ("llama3", json!({ "kind": "llama3", "scale": 4.0 }), "llama3", String::from("head_dim = 8")),
        (
            "longrope",
            json!({ "kind": "longrope", "scale": 4.0, "long_factor": long }),
            "longrope",
            SWIGLU.to_owned(),
        ),
        ("ntk", json!({ "kind": "ntk", "scale": 4.0 }), "longrope", SWIGLU.to_owned()),
        (
            "gpt_neox-yarn",
            json!({ "kind": "yarn", "scale": 4.0 }),
            "yarn",
            format!("{LAYER_NORM}\nhead_dim = 4"),
        ),
    ]
}

#[test]
fn an_extension_is_written_for_other_programs() {
    for (name, extend, rope_type, model) in scalings() {
        let position =
            if name.starts_with("gpt_neox") { "{ kind = 'rope', fraction = 1.0 }" } else { "'rope'" };
        let made = Made::new(position, &model);
        let scaling = StageReading { length: 4 * LENGTH, extend: extend.clone(), head_scale: None };
        let (folder, exported) = made.export_scaled(name, Some(&scaling));
        assert_eq!(exported.obstacle, None, "{name}");
        let json: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("config.json")).unwrap()).unwrap();
        assert_eq!(json["rope_parameters"]["rope_type"], rope_type, "{name}");
        let longest = if rope_type == "dynamic" { LENGTH } else { 4 * LENGTH };
        assert_eq!(json["max_position_embeddings"], longest, "{name}");

        // What the file says is the extension, at every length.
        let read = |extend: &ExtensionConfig, length: usize| {
            let lengths = Lengths { train: LENGTH, length };
            let reading = extend.apply(&made.trained.model.position, lengths).unwrap();
            logits_read(&made.trained.model, &reading, length)
        };
        let ours = toml::Value::try_from(&extend).unwrap();
        let ours = ExtensionConfig::from_value(&ours, "extend").unwrap();
        let path = toml::Value::String(folder.join("config.json").to_string_lossy().into_owned());
        // The share of rotated channels, which GPT-NeoX names beside the scaling, is the model's.
        let theirs = match ExtensionConfig::from_value(&path, "extend") {
            Ok(theirs) => theirs,
            Err(error) => panic!("{name}: {error}"),
        };
        let lengths = [LENGTH / 2, LENGTH, 2 * LENGTH, 4 * LENGTH];
        let expected = lengths.map(|length| (length, read(&ours, length)));
        for (length, expected) in &expected {
            let off = distance(read(&theirs, *length), expected.clone());
            assert!(off < 1e-5, "{name} at {length}: {off}");
        }
        let direct = logits_read(&made.trained.model, &made.trained.model.position, 2 * LENGTH);
        assert!(distance(direct, expected[2].1.clone()) > 1e-3, "{name} changes nothing");
        keep(&folder, name, &expected);

        // The run itself reads as it was trained, and says how its file reads it.
        let (import, back) = imported(&folder, &made.folder.path().join("run"));
        assert_eq!(back.config, made.trained.config, "{name}");
        assert!(distance(logits(&back.model), logits(&made.trained.model)) == 0.0, "{name}");
        assert!(import.notes[0].contains(&format!("(`{rope_type}`)")), "{name}: {:?}", import.notes);

        // Without the run: a model that was trained with the scaling, or one that somebody gave it.
        edit(&folder, |json| drop(json.remove("longwave")));
        let (import, elsewhere) = imported(&folder, &made.folder.path().join("elsewhere"));
        assert_eq!(elsewhere.config.train.length, longest, "{name}");
        assert!(import.document["evaluate"][0].get("extend").is_none(), "{name}");
        let direct = ExtensionConfig::from_value(&"direct".into(), "extend").unwrap();
        for (length, expected) in &expected {
            let lengths = Lengths { train: longest, length: *length };
            let reading = direct.apply(&elsewhere.model.position, lengths).unwrap();
            let off = distance(logits_read(&elsewhere.model, &reading, *length), expected.clone());
            assert!(off < 2e-5, "{name} at {length}: {off}");
        }
        let added = longwave_hub::import(&folder, FileScaling::Added).unwrap();
        // `linear` does not say the length before scaling.
        let before = if rope_type == "linear" { 4 * LENGTH } else { LENGTH };
        assert_eq!(added.document["train"]["length"].as_integer(), Some(before as i64), "{name}");
        assert_eq!(added.document["evaluate"][0]["extend"][0].as_str(), Some("direct"), "{name}");
        assert!(added.document["evaluate"][0]["extend"][1]["kind"].is_str(), "{name}");
    }
}

#[test]
fn a_fine_tuned_stage_is_exported_with_its_scaling() {
    let project = Project::new();
    let stage = "\n[[stage]]\nlength = \"4L\"\nsteps = 2\nbatch_tokens = 256\nextend = \"EXTEND\"\n";
    let config = project.text("small.toml");
    for (extend, kind) in [("yarn", "arcee"), ("rerope", "longwave")] {
        let (file, run, out, back) = (
            format!("{extend}.toml"),
            format!("runs/{extend}"),
            format!("out-{extend}"),
            format!("back-{extend}"),
        );
        project.write(&file, &(config.clone() + &stage.replace("EXTEND", extend)));
        project.ok(&["train", "--config", &file, "--set", "train.steps=2", "--out", &run, "--device", "cpu"]);
        let told = project.ok(&["export", &run, &out]).stderr;
        assert!(told.contains(&format!("as `{kind}`")), "{told}");
        let json = project.json(&format!("{out}/config.json"));
        assert_eq!(json["rope_parameters"]["rope_type"] == "yarn", extend == "yarn", "{json}");
        project.ok(&["import", &out, "--out", &back]);
        let rows =
            |run: &str| project.ok(&["eval", run, "--lengths", "32,128", "--json", "--device", "cpu"]).stdout;
        assert_eq!(rows(&back), rows(&run), "{extend}: the same run, measured again");
        if extend == "yarn" {
            project.refuses(
                2,
                &["export", &run, "again", "--extend", "ntk", "--length", "4L"],
                &["scale a model twice", "stage-0"],
            );
        }
    }
}

#[test]
fn an_extension_without_a_place_in_the_files_is_refused() {
    let project = Project::new();
    project.train(&["--set", "train.steps=2"]);
    let refused = |more: &[&str]| {
        let message = project.refused(2, &[&["export", "runs/small-0", "out"], more].concat());
        assert!(!project.exists("out"), "something was written");
        message
    };
    insta::assert_snapshot!("export_without_a_longest_text", refused(&["--extend", "yarn"]));
    insta::assert_snapshot!("export_of_a_geometry", refused(&["--extend", "rerope", "--length", "4L"]));
    let short = refused(&["--extend", "yarn", "--length", "8"]);
    assert!(short.contains("`--length = 8`"), "{short}");
    let alibi = ["--set", "position.kind=alibi", "--set", "evaluate.0.extend=direct", "--out", "runs/alibi"];
    project.train(&[&["--set", "train.steps=2"], &alibi[..]].concat());
    let message =
        project.refused(2, &["export", "runs/alibi", "out", "--extend", "linear", "--length", "4L"]);
    insta::assert_snapshot!("export_scaled_without_a_rotation", message);
    let told = project.run(&["export", "runs/small-0", "out", "--extend", "yarn", "--length", "4L"]).stderr;
    insta::assert_snapshot!("export_scaled", told);
    let told = project.run(&["import", "out", "--out", "back"]).stderr;
    insta::assert_snapshot!("import_scaled", told);
}
