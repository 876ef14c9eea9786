//! Every reader takes damaged and hostile inputs, without a panic, a hang or a leak. `CONTRIBUTING.md` has the long form.

use std::process::Command;

const FUZZ: &str = env!("CARGO_BIN_EXE_longwave-fuzz");

/// The real inputs of each reader, those in `tests/fuzz` that failed once, and changed ones up to this number.
const INPUTS: &str = "400";

#[test]
fn hostile_inputs_are_read_or_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(FUZZ).args(["--inputs", INPUTS, "--keep"]).arg(folder.path()).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let read = format!(" {INPUTS} inputs, ");
    assert!(stdout.lines().count() > 10 && stdout.lines().all(|line| line.contains(&read)), "{stdout}");
    // Changes leave some inputs of each reader whole, and what is behind its first checks is reached.
    assert!(!stdout.contains(" 0 accepted"), "{stdout}");
}

#[test]
fn a_reader_that_there_is_not_is_named() {
    let output = Command::new(FUZZ).arg("confg").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("'confg'") && stderr.contains("similar value exists: 'config'"), "{stderr}");
}
