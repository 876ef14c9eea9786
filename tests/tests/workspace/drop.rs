//! `DroPE`: a stage trains on without the rotation, and what is read after it has none.

use crate::common::{CONFIG, Project, row_of};
use longwave_eval::ResultRow;

const STAGE: &str = "\n[[stage]]\nlength = \"L\"\nsteps = 4\nextend = \"drop\"\nvalidate_every = 2\n";

fn project(extend: &str) -> Project {
    let project = Project::new();
    let config = CONFIG.replace("\n[[evaluate]]", &format!("{STAGE}\n[[evaluate]]"));
    project.write("small.toml", &config.replace("[\"direct\", \"linear\", \"ntk\"]", extend));
    project
}

#[test]
fn a_stage_trains_without_the_rotation() {
    let project = project(
        "[\"direct\", { kind = \"direct\", log_n = true }, { kind = \"window\", temperature = 0.9 }]",
    );
    let train = |out: &str, more: &[&str]| {
        project.ok(&[&["train", "--config", "small.toml", "--out", out], more].concat());
    };
    train("run", &[]);
    let rows = |arguments: &[&str]| -> Vec<ResultRow> {
        project.ok(&[&["eval", "run", "--json", "--lengths", "L,2L"], arguments].concat()).rows()
    };
    // Dropping before the stage is a control: other weights, and not the rotation's reading either.
    let after = rows(&["--extend", "direct"]);
    let before = rows(&["--checkpoint", "stage-0", "--extend", "direct,drop"]);
    let nll = |rows: &[ResultRow], kind: &str| row_of(rows, kind, 32).nll().to_bits();
    assert_ne!(nll(&after, "direct"), nll(&before, "drop"));
    assert_ne!(nll(&before, "direct"), nll(&before, "drop"));
    // The checkpoint knows its reading: what needs a rotation no longer applies.
    for kind in ["ntk", "rerope", "drop"] {
        let outcome = project.refused(2, &["eval", "run", "--extend", kind]);
        let message = format!("`{kind}` does not apply to `rope without its rotation`");
        assert!(outcome.contains(&message), "{outcome}");
        assert!(outcome.contains("hint: what applies"), "{outcome}");
    }
    // Interrupted in the stage and resumed, it is the same run.
    let checkpoints = std::fs::read_dir(project.path("run/checkpoints")).unwrap();
    assert!(checkpoints.count() > 0);
    project.ok(&["generate", "run", "--prompt", "a", "--max-tokens", "4", "--extend", "direct"]);
}

#[test]
fn a_geometry_after_the_drop_is_refused_before_training() {
    let project = project("[\"direct\", \"rerope\"]");
    project.refuses(
        2,
        &["train", "--config", "small.toml"],
        &["`rerope` does not apply to `rope without its rotation`"],
    );
    assert!(!project.exists("runs"), "something was written");
}
