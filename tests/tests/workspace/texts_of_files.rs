//! What a user's files hold: paths, texts that are missing or too short, and characters that are not shown.

use crate::common::{CONFIG, Outcome, Project, text};
use std::fs;

#[test]
fn validate_opens_the_corpus_and_the_tokenizer() {
    let project = Project::new();
    assert!(project.ok(&["validate", "small.toml"]).stdout.contains("steps = 6"));
    let refused = |code, set: &str| project.refused(code, &["validate", "small.toml", "--set", set]);
    insta::assert_snapshot!("validate_without_a_corpus", refused(2, "data.corpus=nowhere"));
    let tokenizer = "data.tokenizer={ kind = \"file\", path = \"tokenizer.json\" }";
    insta::assert_snapshot!("validate_without_a_tokenizer", refused(2, tokenizer));
    project.write("tokenizer.json", "{}");
    insta::assert_snapshot!("validate_of_a_damaged_tokenizer", refused(1, tokenizer));
    insta::assert_snapshot!("validate_of_lengths_that_no_text_has", refused(1, "evaluate.lengths=[1048576]"));
    assert!(!project.exists("runs"));
}

#[test]
fn a_validation_split_that_is_too_short_turns_validation_off() {
    let project = Project::new();
    // 32 bytes, of which a window of 32 tokens and their targets takes 33.
    fs::remove_file(project.path("corpus/valid/1.txt")).unwrap();
    project.write("corpus/valid/0.txt", &"a".repeat(32));
    let off = "the validation split is too short: a window takes 33 tokens at `train.length = 32`, and its longest document \
               has 32; validation is off: no validation loss is measured, and no checkpoint `best` is kept";
    for arguments in [&["validate", "small.toml"][..], &["train", "small.toml", "--device", "cpu"]] {
        let told = project.ok(arguments).stderr;
        assert_eq!(told.matches(off).count(), 1, "{told}");
    }
    assert!(!project.exists("runs/small-0/checkpoints/best.safetensors"));
    assert!(!project.text("runs/small-0/metrics.jsonl").contains("\"valid_loss\":0"));
    // One byte more is a window.
    project.write("corpus/valid/0.txt", &"a".repeat(33));
    let told = project.train(&["--out", "longer"]).stderr;
    assert!(
        !told.contains("validation is off") && project.exists("longer/checkpoints/best.safetensors"),
        "{told}"
    );
    // A stage at twice the length has no window.
    let stage = ["--set", "stage=[{ length = 64, steps = 2, warmup = 0 }]", "--out", "staged"];
    let told = project.train(&stage).stderr;
    assert!(
        told.contains("`stage[0].length = 64`") && told.contains("validation is off in `stage[0]`"),
        "{told}"
    );
}

#[test]
fn a_path_of_windows_gets_a_hint_about_quotes() {
    let project = Project::new();
    let refused = |corpus: &str| {
        project.write("windows.toml", &CONFIG.replace("\"corpus\"", corpus));
        project.refused(2, &["validate", "windows.toml"])
    };
    insta::assert_snapshot!("an_escape_that_there_is_not", refused(r#""C:\data\corpus""#));
    insta::assert_snapshot!("a_short_unicode_escape", refused(r#""C:\Users\me""#));
    insta::assert_snapshot!("a_path_with_a_tab", refused(r#""C:\texts""#));
    insta::assert_snapshot!("a_quote_that_never_ends", refused(r#""C:\texts\""#));
    // In single quotes it is a path, which leads nowhere here.
    let told = refused(r"'C:\texts\new'");
    assert!(told.contains(r"C:\texts\new") && !told.contains("begins an escape"), "{told}");
    let set = |set: &str| project.refused(2, &["validate", "small.toml", "--set", set]);
    insta::assert_snapshot!("an_escape_on_the_command_line", set(r#"data.corpus="C:\data\corpus""#));
    assert!(set(r"data.corpus=C:\texts\new").contains(r"C:\texts\new"));
}

#[test]
fn nothing_is_left_in_the_temporary_folder() {
    let project = Project::new();
    project.write("s.toml", "name = \"s\"\nbase = \"small.toml\"\nthreads = \"auto\"\n");
    let temporary = project.path("temporary");
    fs::create_dir(&temporary).unwrap();
    for arguments in
        [&["study", "s.toml", "--dry-run"][..], &["study", "s.toml"], &["report", "runs/studies/s"]]
    {
        let mut command = project.command("", arguments);
        command.envs(["TMPDIR", "TEMP", "TMP"].map(|name| (name, &temporary)));
        let outcome = Outcome::of(&mut command);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "{arguments:?}");
    }
}

/// Escape codes as a terminal reads them: of one byte, of two, and a change of the direction of writing.
const CODES: &str = "\\u001b[31m\\u009b1m\\u202ered\\u0007";

fn harmless(outcome: &Outcome, what: &str) {
    let hidden =
        |character: &char| (character.is_control() && *character != '\n') || *character == '\u{202e}';
    let found = |text: &str| text.chars().find(hidden);
    let Outcome { stdout, stderr, .. } = outcome;
    assert_eq!([found(stdout), found(stderr)], [None; 2], "{what}: {stdout}{stderr}");
}

/// Rows may come from elsewhere, and folders have names.
#[test]
fn no_character_that_is_not_shown_reaches_the_terminal() {
    let project = Project::new();
    let (run, other) = ("a\u{1b}[31m\u{202e}", "b");
    project.train(&["--out", run]);
    project.train(&["--out", other, "--set", "seed=1"]);
    let codes: String = serde_json::from_str(&format!("\"{CODES}\"")).unwrap();
    for folder in [run, other] {
        let rows = project.text(&format!("{folder}/results.jsonl"));
        let rows = rows.lines().map(|line| {
            let mut row: serde_json::Value = serde_json::from_str(line).unwrap();
            row.as_object_mut().unwrap().remove("checksum");
            (row["run"], row["encoding"]) =
                (format!("{codes}<script>").into(), format!("rope{codes}").into());
            row.to_string() + "\n"
        });
        project.write(&format!("{folder}/results.jsonl"), &rows.collect::<String>());
    }
    // The page has one script, its own. In CSV it is a word like others.
    let files = [
        ("report.html", Some(1)),
        ("results.md", Some(0)),
        ("results.csv", None),
        ("perplexity.svg", Some(0)),
    ];
    for arguments in [
        &["report", run][..],
        &["report", run, "--format", "text"],
        &["report", run, "--format", "markdown"],
        &["report", run, "--format", "latex"],
        &["report", run, "--format", "csv"],
        &["report", "."],
        &["compare", run, other],
        &["compare", run, other, "--json"],
        &["eval", run, "--lengths", "32"],
        &["eval", run, "--lengths", "64", "--json"],
        &["export", run, "exported"],
    ] {
        harmless(&project.ok(arguments), &format!("{arguments:?}"));
        for (file, scripts) in files {
            let text = project.text(&format!("{run}/{file}"));
            assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7}']), "{arguments:?}: {file}");
            let found = text.matches("<script>").count();
            assert_eq!(found, scripts.unwrap_or(found), "{arguments:?}: {file}");
        }
    }
}

#[test]
fn no_message_repeats_a_character_that_is_not_shown() {
    let project = Project::new();
    let quoted = format!("\"{CODES}\"");
    for (from, to) in [
        ("\"small\"", &*quoted),
        ("\"corpus\"", &quoted),
        ("\"rope\"", &quoted),
        ("\"direct\"", &quoted),
        ("[32, 64]", &quoted),
        ("layers = 2", &format!("layers = {quoted}")),
        ("layers = 2", &format!("{quoted} = 2")),
        ("[train]", &format!("[{quoted}]")),
        ("steps = 6", &format!("steps = 6\nschedule = {quoted}")),
        ("steps = 6", "steps = 6 \u{1b}[31m"),
        ("steps = 6", "steps = 6 # \u{1b}[31m\u{9b}1m\nsteps = 7"),
    ] {
        project.write("codes.toml", &CONFIG.replace(from, to));
        let outcome = project.run(&["validate", "codes.toml"]);
        assert!(matches!(outcome.code, Some(1 | 2)), "{to}: {}", outcome.stderr);
        harmless(&outcome, to);
    }
    project.write("s.toml", &format!("name = {quoted}\nbase = \"small.toml\"\n"));
    harmless(&project.run(&["study", "s.toml", "--dry-run"]), "the name of a study");
    // Names of files are the user's too.
    project.write("a\u{1b}[31m.toml", &CONFIG.replace("steps = 6", "step = 6"));
    harmless(&project.run(&["validate", "a\u{1b}[31m.toml"]), "the name of a config");
    project.write("corpus/test/b\u{1b}[31m.txt", &text(40, 1));
    fs::write(project.path("corpus/test/c\u{1b}[31m.txt"), [0xff, 0xfe, 0xfd]).unwrap();
    harmless(&project.run(&["validate", "small.toml"]), "the name of a text");
}
