//! A process that trains and evaluates again and again takes no more memory than at first. `CONTRIBUTING.md` has the long form.

use crate::common::{CONFIG, Project, set};
use std::process::Command;

const SOAK: &str = env!("CARGO_BIN_EXE_longwave-soak");

#[cfg(target_os = "linux")]
#[test]
fn memory_stays_flat() {
    let project = Project::new();
    for kind in ["alibi", "t5", "cope"] {
        let config = CONFIG.replace("\"rope\"", &format!("\"{kind}\""));
        let config = config.replace(r#"["direct", "linear", "ntk"]"#, r#"["direct"]"#);
        project.write(&format!("{kind}.toml"), &config);
    }
    let configs = ["small.toml", "alibi.toml", "t5.toml", "cope.toml", "--rounds", "40"];
    let output = Command::new(SOAK)
        .args(configs)
        .args(set(&["train.steps=2", "evaluate.lengths=[64]"]))
        .current_dir(project.path(""))
        .env("LONGWAVE_CACHE", project.path(".cache"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.lines().filter(|line| line.starts_with("round ") && line.ends_with(" MiB")).count(), 40);
}

#[test]
fn what_is_missing_is_named() {
    let refused = |arguments: &[&str]| {
        let output = Command::new(SOAK).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["--rounds", "2"]).contains("\n  <CONFIG>...\n"));
    assert!(refused(&["rope.toml"]).contains("\n  <--minutes <N>|--rounds <N>>\n"));
}
