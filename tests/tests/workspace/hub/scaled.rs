//! Extensions in exported files: every `rope_type`, fine-tuned stages, and what has no counterpart.

use super::{LAYER_NORM, LENGTH, Made, QWEN3, SWIGLU, distance, edit, imported, keep, logits, logits_read};
use crate::common::Project;
use burn::tensor::Device;
use longwave_hub::tensors;
use longwave_hub::torch::Extended;
use longwave_position::{ExtensionConfig, Lengths};
use longwave_train::checkpoint::StageReading;
use longwave_train::run::CheckpointId;
use longwave_train::{FileScaling, Trained};
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
    for (extend, kind, longest) in [
        ("yarn", "arcee", 128),
        // Its texts were that long too.
        ("direct", "arcee", 128),
        ("dynamic_ntk", "arcee", 128),
        ("rerope", "longwave", 32),
    ] {
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
        assert_eq!(json["max_position_embeddings"], longest, "{json}");
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

/// transformers reads `rope_scaling` in the place of `rope_parameters`, and base and share at the top of the file beside it. Files that it
/// saves have them in `rope_parameters` alone.
#[test]
fn an_imported_model_is_scaled_from_its_l_with_the_base_and_the_share_of_its_file() {
    let share = "{ kind = 'rope', layout = 'interleaved', base = 500.0, fraction = 0.5 }";
    for (position, model, base, of_share) in [
        ("{ kind = 'rope', base = 500.0 }", SWIGLU.to_owned(), "rope_theta", json!(null)),
        (share, format!("{LAYER_NORM}\nhead_dim = 4"), "rotary_emb_base", json!(0.5)),
    ] {
        let made = Made::new(position, &model);
        let (folder, _) = made.export("plain");
        edit(&folder, |json| {
            for key in ["longwave", base, "rotary_pct"] {
                json.remove(key);
            }
        });
        let [run, scaled] = ["run", "scaled"].map(|name| made.folder.path().join(name));
        let mut import = longwave_hub::import(&folder, FileScaling::Trained).unwrap();
        // The file names a longer text than the model was trained on.
        import.change(&[format!("train.length={}", LENGTH / 2)]).unwrap();
        import.write(&run, &Device::flex()).unwrap();
        let trained = Trained::open(&run, CheckpointId::Last, &Device::flex()).unwrap();
        let scaling =
            StageReading { length: 2 * LENGTH, extend: json!({ "kind": "yarn" }), head_scale: None };
        longwave_hub::export(&scaled, &run, &trained, &import.document, Some(&scaling)).unwrap();
        let json: Value = serde_json::from_slice(&fs::read(scaled.join("config.json")).unwrap()).unwrap();
        assert_eq!((&json[base], &json["rotary_pct"]), (&json!(500.0), &of_share), "{json}");
        let parameters = &json["rope_parameters"];
        assert_eq!(
            (&parameters["rope_theta"], &parameters["partial_rotary_factor"]),
            (&json!(500.0), &of_share)
        );
        assert_eq!(parameters["factor"], 4.0, "{json}");
        assert_eq!(parameters["original_max_position_embeddings"], LENGTH / 2, "{json}");
    }
}

/// `model.py` saves other weights of the same model.
#[test]
fn other_weights_keep_the_scaling_of_their_file() {
    let made = Made::new("'rope'", SWIGLU);
    let yarn = json!({ "kind": "yarn", "scale": 4.0 });
    let scaling = StageReading { length: 4 * LENGTH, extend: yarn, head_scale: None };
    let (folder, _) = made.export_scaled("scaled", Some(&scaling));
    edit(&folder, |json| drop(json.remove("longwave")));
    let [run, opened] = ["run", "opened"].map(|name| made.folder.path().join(name));
    let (import, trained) = imported(&folder, &run);
    let extend = ExtensionConfig::from_value(&"direct".into(), "extend").unwrap();
    let extended = Extended { extend, longest: 4 * LENGTH };
    longwave_hub::torch::export(&opened, &run, &trained, &import.document, &extended).unwrap();
    let path = opened.join("model.safetensors");
    let mut stored = tensors::from_bytes(&fs::read(&path).unwrap()).unwrap();
    stored.values_mut().next().unwrap().numbers[0] += 1.0;
    fs::write(&path, tensors::to_bytes(&stored).unwrap()).unwrap();
    let (_, back) = imported(&opened, &made.folder.path().join("back"));
    let of_file = |trained: &Trained| trained.config.imported.clone().unwrap();
    let (before, after) = (of_file(&trained), of_file(&back));
    assert_ne!(after.weights, before.weights);
    assert!(before.scaling.is_some() && before.config.is_some());
    assert_eq!((after.scaling, after.config), (before.scaling, before.config));
    let frequencies = |trained: &Trained| trained.model.position.encodings()[0].frequencies().cloned();
    assert_eq!(frequencies(&back), frequencies(&trained));
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
