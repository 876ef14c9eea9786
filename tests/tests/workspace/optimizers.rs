//! `train.optimizer` from the command line: what moves, what is kept, and what a user reads when it is wrong.

use crate::common::Project;
use longwave_train::Checkpoint;

const MUON: &str = "train.optimizer={ kind = \"muon\" }";

#[test]
fn muon_keeps_a_momentum_of_matrices_and_the_moments_of_all_else() {
    let project = Project::new();
    project.train(&["--set", MUON]);
    let resolved = project.text("runs/small-0/config.toml");
    for key in ["kind = \"muon\"", "learning_rate = 0.02", "momentum = 0.95", "nesterov = true"] {
        assert!(resolved.contains(key), "{key}: {resolved}");
    }
    let path = project.path("runs/small-0/checkpoints/last.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..header]).unwrap();
    let names: Vec<String> = header.as_object().unwrap().keys().cloned().collect();
    let (matrices, others): (Vec<&String>, Vec<&String>) =
        names.iter().filter(|name| name.starts_with("model.")).partition(|name| {
            name.ends_with("qkv") || name.ends_with("output") || name.ends_with("feed_forward.input")
        });
    assert!(matrices.len() >= 8 && others.len() >= 4, "{names:?}");
    for (names_of, kept) in [(matrices, &["momentum"][..]), (others, &["first", "second"])] {
        for name in names_of {
            let name = name.trim_start_matches("model.");
            let found: Vec<&str> = ["first", "momentum", "second"]
                .into_iter()
                .filter(|state| names.contains(&format!("optimizer.{state}.{name}")))
                .collect();
            assert_eq!(found, kept, "{name}");
        }
    }
    // Nothing of it is left in what other commands read.
    project.ok(&["export", "runs/small-0", "exported"]);
    assert!(Checkpoint::load(&path).is_ok());
}

#[test]
fn adamw_is_the_default_and_another_optimizer_another_run() {
    let project = Project::new();
    let resolved =
        |arguments: &[&str]| project.run(&[&["validate", "small.toml"], arguments].concat()).stdout;
    assert_eq!(resolved(&[]), resolved(&["--set", "train.optimizer=adamw"]));
    assert!(resolved(&[]).contains("kind = \"adamw\""), "{}", resolved(&[]));
    project.train(&[]);
    project.refuses(2, &["train", "--config", "small.toml", "--resume", "--set", MUON], &["hint:"]);
}

#[test]
fn wrong_optimizers_are_named() {
    let project = Project::new();
    let wrong = |value: &str| {
        let value = format!("train.optimizer={value}");
        project.refused(2, &["train", "--config", "small.toml", "--set", &value])
    };
    let all = [
        "muonn",
        "{ kind = \"muon\", momentun = 0.9 }",
        "{ kind = \"muon\", momentum = 1.0 }",
        "{ kind = \"muon\", learning_rate = -1.0 }",
        "{ kind = \"muon\", newton_schulz_steps = 0 }",
        "{ momentum = 0.9 }",
    ];
    insta::assert_snapshot!(all.map(wrong).join("\n"));
    let stage = "stage=[{ length = 64, steps = 2, optimizer = { kind = \"muon\" } }]";
    insta::assert_snapshot!(project.refused(2, &["train", "--config", "small.toml", "--set", stage]));
}
