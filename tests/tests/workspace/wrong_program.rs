//! `selfcheck` holds what a program registers to the laws: it passes the examples, and names each law that the wrong
//! program breaks.

use std::process::{Command, Output};

const WRONG: &str = env!("CARGO_BIN_EXE_longwave-wrong");

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).env("NO_COLOR", "1").output().unwrap()
}

#[test]
fn the_examples_pass() {
    let programs = [
        (
            env!("CARGO_BIN_EXE_longwave-own-encoding"),
            ["law: log_distance: attention is causal", "law: sharpen: bands"],
        ),
        (
            env!("CARGO_BIN_EXE_longwave-own-measures"),
            ["law: opening: plans keep", "law: sure: values follow"],
        ),
    ];
    for (program, laws) in programs {
        let output = run(program, &["selfcheck", "--device", "cpu"]);
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stdout}");
        for law in laws {
            assert!(stdout.lines().any(|line| line.starts_with(&format!("pass  {law}"))), "{law}: {stdout}");
        }
    }
}

#[test]
fn each_broken_law_is_named() {
    let output = run(WRONG, &["selfcheck", "--device", "cpu"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    let failed: Vec<&str> = stdout.lines().filter(|line| line.starts_with("FAIL")).collect();
    let broken = [
        ["law: looks_ahead: attention is causal  ", "`kind = 'looks_ahead'`: rows before 1 change by"],
        ["law: looks_ahead: attention is causal under every extension", "earlier rows change by"],
        ["encoding: looks_ahead  ", "losses before a changed token"],
        [
            "law: slow: short texts are read as promised",
            "with its default keys: short texts are read as trained: false",
        ],
        ["law: slow: bands change as promised", "band 0 is slowed by 2"],
        ["law: again: plans keep what they say", "token 1 of document 2 is scored twice"],
        ["law: loss_share: values follow from sums", "a share is"],
    ];
    for [law, found] in broken {
        assert!(failed.iter().any(|line| line.contains(law) && line.contains(found)), "{law}: {failed:#?}");
    }
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("checks failed"), "{stderr}");
    // Nothing of this workspace fails beside it.
    let own = ["looks_ahead", "slow", "again", "loss_share"];
    assert!(failed.iter().all(|line| own.iter().any(|name| line.contains(name))), "{failed:#?}");
}

#[test]
fn an_encoding_is_registered_once() {
    let output = Command::new(WRONG).arg("schema").env("LONGWAVE_TWICE", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = "the encoding `looks_ahead` cannot be registered: there is one of this name";
    assert!(stderr.contains(expected) && stderr.contains("hint: ") && output.stdout.is_empty(), "{stderr}");
}
