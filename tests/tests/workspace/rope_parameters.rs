//! `rope_parameters` of other people's `config.json` as an entry of `extend`.

use crate::common::{CONFIG, Project};
use serde_json::{Value, json};

/// The frequencies that `inspect` reports for an extension at 128 tokens, 4L; or the message.
fn spectrum(project: &Project, extend: &str) -> Result<Value, String> {
    let arguments = ["inspect", "--config", "small.toml", "--length", "128", "--extend", extend, "--json"];
    let outcome = project.run(&arguments);
    if outcome.code != Some(0) {
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        return Err(outcome.stderr);
    }
    Ok(outcome.json()[0]["spectrum"].clone())
}

#[test]
fn every_rope_type_is_read_as_the_extension_that_computes_it() {
    let project = Project::new();
    let long = "[1.0, 1.0, 1.5, 2.0, 3.0, 4.0, 4.0, 4.0]";
    for (theirs, ours) in [
        (r#"{"rope_type": "default", "rope_theta": 10000.0}"#.to_owned(), "direct".to_owned()),
        (r#"{"type": "linear", "factor": 4.0}"#.to_owned(), "{ kind = 'linear', scale = 4.0 }".to_owned()),
        (
            r#"{"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 32}"#.to_owned(),
            "{ kind = 'dynamic_ntk', factor = 2.0 }".to_owned(),
        ),
        (
            r#"{"rope_type": "yarn", "factor": 4.0, "beta_fast": 8, "beta_slow": 0, "truncate": false}"#.to_owned(),
            "{ kind = 'yarn', scale = 4.0, beta = 8.0, truncate = false }".to_owned(),
        ),
        (
            // One of the two alone changes nothing there, and would here.
            r#"{"rope_type": "yarn", "factor": 4.0, "mscale": 2.0, "mscale_all_dim": null}"#.to_owned(),
            "{ kind = 'yarn', scale = 4.0 }".to_owned(),
        ),
        (
            r#"{"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5}"#.to_owned(),
            "{ kind = 'yarn', scale = 4.0, mscale_all_dim = 0.5 }".to_owned(),
        ),
        (
            r#"{"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.3, "mscale": 9.0, "mscale_all_dim": 0.5}"#
                .to_owned(),
            "{ kind = 'yarn', scale = 4.0, attention_factor = 1.3 }".to_owned(),
        ),
        (
            r#"{"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 2.0}"#.to_owned(),
            "{ kind = 'llama3', scale = 4.0, high_freq_factor = 2.0 }".to_owned(),
        ),
        (
            // A whole config, whose factor is that of its lengths.
            format!(
                r#"{{"model_type": "phi3", "max_position_embeddings": 128, "original_max_position_embeddings": 32,
                "rope_scaling": {{"type": "longrope", "long_factor": {long}, "short_factor": {long}}}}}"#
            ),
            format!("{{ kind = 'longrope', scale = 4.0, long_factor = {long}, short_factor = {long} }}"),
        ),
        (
            // One object for each kind of layer, both names, a length as a float beside them, the whole share.
            r#"{"model_type": "llama", "original_max_position_embeddings": 32.0, "max_position_embeddings": 128,
                "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": null, "partial_rotary_factor": 1.0}},
                "rope_scaling": {"type": "yarn", "rope_theta": 10000}}"#
                .to_owned(),
            "{ kind = 'yarn', scale = 4.0 }".to_owned(),
        ),
        // As a TOML table too, with a key of ours.
        (
            "{ rope_type = 'yarn', factor = 4.0, resonance = true }".to_owned(),
            "{ kind = 'yarn', scale = 4.0, resonance = true }".to_owned(),
        ),
    ] {
        let found = spectrum(&project, &theirs).unwrap_or_else(|error| panic!("{theirs}: {error}"));
        assert_eq!(found, spectrum(&project, &ours).unwrap(), "{theirs}");
    }
}

#[test]
fn what_cannot_be_read_is_named_with_what_is_allowed() {
    let project = Project::new();
    for (theirs, parts) in [
        (r#"{"rope_type": "yarn"}"#, ["`--extend.factor` is missing", "config.json"]),
        (r#"{"rope_type": "yarn", "factor": 0.5}"#, ["`--extend.factor = 0.5`", "at least 1"]),
        (r#"{"rope_type": "yarn", "factor": "4"}"#, ["`--extend.factor = \"4\"`", "it must be a number"]),
        (
            r#"{"rope_type": "yarm", "factor": 4.0}"#,
            ["`--extend.rope_type = \"yarm\"`", "did you mean `yarn`?"],
        ),
        (
            r#"{"rope_type": "linear", "factor": 4.0, "beta_fast": 32}"#,
            ["`--extend.beta_fast`", "allowed are"],
        ),
        (r#"{"rope_type": "yarn", "factor": 4.0, "beta_fast": -1}"#, ["`--extend.beta = -1`", "stands for"]),
        (
            r#"{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}"#,
            ["`trained.length = 64`", "original_max_position_embeddings = 32"],
        ),
        (r#"{"rope_type": "default", "rope_theta": 500000.0}"#, ["`trained.base = 500000`", "10000"]),
        (
            r#"{"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5}"#,
            ["`trained.share = 0.5`", "`partial_rotary_factor = 1`"],
        ),
        (
            r#"{"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.5}"#,
            ["`\"attention_factor\": 1.138629436111989`", "`\"attention_factor\": 0.5693147180559945`"],
        ),
        (
            r#"{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32.5}"#,
            ["32.5", "a whole number of tokens"],
        ),
        (
            r#"{"model_type": "llama", "original_max_position_embeddings": 64,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}"#,
            ["`--extend.rope_scaling.original_max_position_embeddings = 32`", "disagree"],
        ),
        (
            r#"{"model_type": "llama", "rope_parameters": {"rope_type": "yarn", "factor": 4.0},
                "rope_scaling": {"rope_type": "yarn", "factor": 2.0}}"#,
            ["`--extend.rope_parameters` and `--extend.rope_scaling` disagree", "`factor` is 4.0"],
        ),
        (
            r#"{"model_type": "gemma3", "rope_parameters": {"full_attention": {"rope_type": "yarn"},
                "sliding_attention": {"rope_type": "default"}}}"#,
            ["`full_attention`", "layers = \"full\""],
        ),
        (r#"{"model_type": "llama", "rope_scaling": null}"#, ["are not scaled", "`direct`"]),
        ("missing/config.json", ["missing/config.json", "no such file"]),
        (r#"{"rope_type": }"#, ["neither a TOML table nor JSON", "rope_type"]),
    ] {
        let message = spectrum(&project, theirs).expect_err(theirs);
        assert!(message.contains("hint: "), "{theirs}: {message}");
        for part in parts {
            assert!(message.contains(part), "{theirs}: {message}");
        }
    }
    let both = "{ kind = 'yarn', attention_factor = 1.1, temperature = 0.9 }";
    let message = spectrum(&project, both).unwrap_err();
    assert!(
        message.contains("`--extend.temperature = 0.9` is not allowed: `--extend.attention_factor`"),
        "{message}"
    );
}

#[test]
fn a_file_is_read_once_and_rows_hold_what_it_said() {
    let project = Project::new();
    let theirs = json!({
        "model_type": "llama", "max_position_embeddings": 128, "hidden_size": 4096,
        "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32,
        },
    });
    project.write("theirs/config.json", &theirs.to_string());
    let config = CONFIG.replace(
        "[\"direct\", \"linear\", \"ntk\"]",
        "[\"theirs/config.json\", { kind = \"yarn\", scale = 4.0 }]",
    );
    project.write("small.toml", &config);
    project.ok(&["train", "--config", "small.toml", "--out", "run"]);
    std::fs::remove_file(project.path("theirs/config.json")).unwrap();
    let outcome = project.ok(&["eval", "run", "--lengths", "64", "--json"]);
    let rows: Vec<Value> = outcome.rows();
    let yarn: Vec<&Value> = rows.iter().filter(|row| row["extend"] == "yarn").collect();
    assert_eq!(yarn.len(), 2, "{rows:?}");
    assert_eq!(yarn[0]["extend_config"]["trained"], json!({ "base": 1e4, "length": 32 }));
    assert_eq!(yarn[0]["extend_config"]["scale"], 4.0);
    assert_eq!(yarn[0]["nll"], yarn[1]["nll"]);
}

/// The object says the whole scaling, so it cannot come on top of one that the model was trained with.
#[test]
fn a_model_with_a_scaling_of_its_own_is_not_scaled_twice() {
    let project = Project::new();
    let stage = "\n[[stage]]\nlength = \"4L\"\nsteps = 2\nbatch_tokens = 256\nextend = \"linear\"\n";
    project.write("small.toml", &(CONFIG.to_owned() + stage));
    for (theirs, part) in [
        (r#"{"rope_type": "linear", "factor": 4.0}"#, "say the whole scaling of a model"),
        ("yarn", "`yarn` with `ramp = \"code\"` finds its bands by the base"),
    ] {
        let message = spectrum(&project, theirs).unwrap_err();
        assert!(message.contains(part) && message.contains("hint: "), "{message}");
    }
    // An extension of ours comes on top: the stage reads a fourth, and this half of it.
    let spectrum = spectrum(&project, "{ kind = 'linear', scale = 2.0 }").unwrap();
    let band = &spectrum["bands"][0];
    assert_eq!((&band["inv_freq"], &band["inv_freq_read"]), (&json!(0.25), &json!(0.125)));
}
