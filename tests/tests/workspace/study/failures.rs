//! Runs of a study that fail.

use super::{STUDY, events, project, store, study};
use crate::common::{Outcome, signal, wait_until};

#[test]
fn failing_runs_stop_no_other_and_are_told() {
    let points = r#"
        { label = "good" },
        { label = "nan", train = { learning_rate = 1e30 } },
        { label = "broken", train = { steps = -1 } },
        { label = "killed", train = { steps = 1000000 } },
        { label = "huge", model = { width = 1048576 } },
    "#;
    let axis = format!("[[axis]]\npoints = [{points}]\n");
    let project = project(
        &STUDY
            .replace("[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n", &axis)
            .replace("only = { position = \"rope\" }", "")
            .replace("seeds = 2", "seeds = 1")
            .replace("says = \"rope = alibi at 64\"", "says = \"good, ntk = nan, ntk at 64\""),
    );
    let child = project.start(&["study", "two.toml"]);
    // As the kernel does when memory runs out.
    wait_until("the long run begins", || {
        let store = store(&project);
        let is_long = |key: &&String| {
            let config = std::fs::read_to_string(store.run(key).join("config.toml"));
            config.is_ok_and(|config| config.contains("steps = 1000000"))
        };
        let keys = store.keys().unwrap();
        let entry = keys.iter().find(is_long).and_then(|key| store.journal_lines(key).unwrap().pop());
        entry.map(|entry| signal("-KILL", &entry.process.to_string())).is_some()
    });
    let Outcome { code, stdout, stderr } = Outcome::at_end(child);
    assert_eq!(code, Some(1), "{stderr}");
    for told in [
        "failed    nan, seed 0: step ",
        "failed    broken, seed 0: `train.steps = -1` is not allowed",
        "failed    killed, seed 0: its process ended by signal 9: killed, perhaps because memory ran out",
        "failed    huge, seed 0: `model.width = 1048576` is not allowed: the model's weights alone take about ",
        "error: 4 of 5 runs failed",
        "hint: `--retry` tries them again",
    ] {
        assert!(stderr.contains(told), "no `{told}` in {stderr}");
    }
    assert!(stdout.contains("| good | ntk |") && !stdout.contains("| nan |"), "{stdout}");
    assert!(stdout.contains("not measured") && stdout.contains("**undecided**"), "{stdout}");
    // Without `--retry` nothing is tried again.
    let before = events(&project);
    assert_eq!(study(&project, &[]).code, Some(1));
    assert_eq!(events(&project), before);
}

#[test]
fn retry_tries_what_failed_again() {
    let text = STUDY
        .replace("steps = 12", "learning_rate = 1e30")
        .replace("[[claim]]", "[[claim]]\nover = \"seeds\"");
    let project = project(
        &text
            .replace("seeds = 2", "seeds = 1")
            .replace("[\"rope\", \"alibi\"]", "[\"rope\"]")
            .replace("alibi", "rope, ntk"),
    );
    let starts = || events(&project).into_values().flatten().filter(|event| event == "started").count();
    assert_eq!((study(&project, &[]).code, starts()), (Some(1), 1));
    // What it would take is shown before, and nothing is forgotten by that.
    for (options, left) in
        [(&["--dry-run", "--retry"][..], "1 to be done"), (&["--dry-run"][..], "0 to be done")]
    {
        let shown = study(&project, options).done().stdout;
        assert!(shown.contains(&format!("1 runs, 1 different, {left}")), "{shown}");
    }
    assert_eq!((study(&project, &["--retry"]).code, starts()), (Some(1), 2));
}
