//! Resonance `RoPE`: wavelengths are whole numbers of tokens, of a model trained so and of a reading.

use crate::common::{CONFIG, Project};
use std::f64::consts::TAU;

/// The turns of each band at 128 tokens, as `inspect` reports them.
fn wavelengths(project: &Project, set: &str, extend: &str) -> Vec<f64> {
    let arguments =
        ["inspect", "--config", "small.toml", "--set", set, "--length", "128", "--extend", extend, "--json"];
    let shown = project.ok(&arguments).json();
    let bands = shown[0]["spectrum"]["bands"].as_array().unwrap();
    bands.iter().map(|band| TAU / band["inv_freq_read"].as_f64().unwrap()).collect()
}

#[test]
fn wavelengths_are_rounded_after_scaling_in_training_and_in_reading() {
    let project = Project::new();
    let (trained, plain) = ("position.resonance=true", "position.resonance=false");
    for (extend, resonant, first) in [
        ("direct", "{ kind = 'direct', resonance = true }", 6.0),
        // A quarter of the frequency: 25.1 tokens, and not 4 times 6.
        ("linear", "{ kind = 'linear', resonance = true }", 25.0),
        ("yarn", "{ kind = 'yarn', resonance = true }", 6.0),
    ] {
        let found = wavelengths(&project, trained, extend);
        assert!(found.iter().all(|w| (w - w.round()).abs() < 1e-6), "{extend}: {found:?}");
        assert!((found[0] - first).abs() < 1e-9, "{extend}: {found:?}");
        assert_eq!(found, wavelengths(&project, plain, resonant), "{extend}");
        assert_ne!(found, wavelengths(&project, plain, extend), "{extend}");
    }
}

#[test]
fn a_trained_resonance_changes_what_is_read_and_stays_in_the_config() {
    let project = Project::new();
    project.write("small.toml", &CONFIG.replace("kind = \"rope\"", "kind = \"rope\"\nresonance = true"));
    project.ok(&["train", "--config", "small.toml", "--out", "run"]);
    assert!(project.text("run/config.toml").contains("resonance = true"));
    // No program elsewhere rounds wavelengths.
    let outcome = project.run(&["export", "run", "out"]);
    assert!(outcome.stderr.contains("`resonance = true`"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("as `longwave`"), "{}", outcome.stderr);
}

#[test]
fn nothing_but_rotations_has_wavelengths_to_round() {
    let project = Project::new();
    project.write("small.toml", &CONFIG.replace("\"rope\"", "\"alibi\"").replace(", \"ntk\"", ""));
    let extend = "evaluate.extend=[{ kind = \"linear\", resonance = true }]";
    let outcome = project.refused(2, &["train", "--config", "small.toml", "--set", extend]);
    let message = "`resonance = true` does not apply to `alibi`: it needs an encoding that rotates q and k";
    assert!(outcome.contains(message), "{outcome}");
    assert!(outcome.contains("hint: "), "{outcome}");
    assert!(!project.exists("runs"), "something was written");
}
