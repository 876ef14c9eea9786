//! Resonance `RoPE`: what has no wavelengths to round, and what an export says. Golden files have the numbers.

use crate::common::{CONFIG, Project};

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
