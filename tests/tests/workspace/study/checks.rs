//! What a study refuses or leaves out before anything is trained.

use super::{STUDY, project, study};
use crate::common::Project;

/// The study with another list of blocks and claims.
fn with(blocks: &str) -> Project {
    project(&(STUDY.split("[[evaluate]]").next().unwrap().to_owned() + blocks))
}

/// A dry run and a start refuse the study alike, and write nothing.
fn refused(blocks: &str, told: &[&str]) {
    let project = with(blocks);
    for more in [&["--dry-run"][..], &[]] {
        study(&project, more).refuses(2, told);
        assert!(!project.exists("runs"), "{more:?}");
    }
}

const DIRECT: &str = "[[evaluate]]\nlengths = [32, 64]\nwindows_per_document = 2\n";

#[test]
fn blocks_and_labels_that_name_nothing_are_refused() {
    refused(
        "[[evaluate]]\nlengths = [32]\nonly = { position = [] }\n",
        &["`evaluate[0].only.position = []`", "leave `only` out"],
    );
    refused(
        "[[evaluate]]\nlengths = [32]\nonly = { position = \"rope\", encoding = \"alibi\" }\n",
        &[
            "`evaluate[0].only = { encoding = [alibi], position = [rope] }`",
            "no run of the study has such labels together",
        ],
    );
    let labels = |labels: &str| {
        let head = STUDY.split("[[evaluate]]").next().unwrap();
        let text = head.replace(
            "values = [\"rope\", \"alibi\"]",
            &format!("values = [\"rope\", \"alibi\"]\nlabels = {labels}"),
        );
        let project = project(&format!("{text}{DIRECT}[[claim]]\nsays = \"x < y at 2L\"\n"));
        study(&project, &["--dry-run"]).refused(2)
    };
    assert!(labels("[\"x\", \"x at 2L\"]").contains("claims would read its end as a length"));
    assert!(labels("[\"x\", \"y, z\"]").contains("claims cannot name it: `,` has a meaning in them"));
    assert!(labels("[\"x\", \" y\"]").contains("nor begin or end with a space"));
}

#[test]
fn a_claim_about_what_no_evaluation_measures_is_refused() {
    let claim = |says: &str| format!("{DIRECT}[[claim]]\nsays = \"{says}\"\n");
    refused(
        &claim("rope < alibi at 8L"),
        &[
            "`claim[0].says = \"rope < alibi at 8L\"` is not allowed: no evaluation reads `rope` at 256 tokens",
            "hint: its lengths are 32, 64",
        ],
    );
    refused(
        &claim("rope, yarn < alibi at 2L"),
        &[
            "claim[0].says",
            "`yarn` is no extension and no label",
            "extensions are direct, window_baseline; labels are rope",
        ],
    );
    refused(
        &claim("rope < alibbi at 2L"),
        &["`alibbi` is no extension and no label", "did you mean `alibi`?"],
    );
    let only = "[[evaluate]]\nlengths = [32, 64]\nextend = [\"ntk\"]\nonly = { position = \"rope\" }\n";
    refused(
        &format!("{only}{}", claim("rope, ntk < alibi, ntk at 2L")),
        &["reads `alibi, ntk` with `ntk`", "its runs are read with direct, window_baseline"],
    );
    refused(
        &format!("{}protocol = \"sliding\"\n", claim("rope < alibi at 2L")),
        &["reads `rope` with `direct`", "not as `protocol`, `split` and `tokens` of the claim say"],
    );
    refused(&claim("rope < rope, direct at 2L"), &["both sides are the same readings", "name another label"]);
    let sliding = "[[evaluate]]\nprotocol = \"sliding\"\nlengths = [64]\nonly = { encoding = \"alibi\" }\n";
    let fixed = DIRECT.to_owned() + "only = { position = \"rope\" }\n";
    refused(
        &format!("{fixed}{sliding}[[claim]]\nsays = \"rope < alibi at 2L\""),
        &["its sides are measured differently: fixed_target, test split, and sliding, test split"],
    );
}

#[test]
fn what_does_not_apply_is_left_out_or_refused_where_it_is_asked_for() {
    let both = "[[evaluate]]\nlengths = [32, 64]\nextend = [\"direct\", \"ntk\"]\nwindows_per_document = 2\n";
    let project = with(&format!("{both}[[claim]]\nsays = \"rope, ntk < alibi at 2L\"\ntolerance = 9"));
    let left_out = "alibi: no `ntk` at 32, 64 tokens: `ntk` does not apply to `alibi`";
    let plan = study(&project, &["--dry-run"]).done();
    assert_eq!(plan.stderr.matches(left_out).count(), 1, "{}", plan.stderr);
    let outcome = study(&project, &[]).done();
    assert!(outcome.stderr.contains(&format!("left out  {left_out}")), "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains(&format!(
            "## Left out\n\nEvaluations that do not apply to these runs:\n\n- {left_out}"
        ))
    );
    for row in ["| rope | direct |", "| rope | ntk |", "| alibi | direct |", "**holds**"] {
        assert!(outcome.stdout.contains(row), "no {row} in {}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("| alibi | ntk |"), "{}", outcome.stdout);
    for only in ["position = [\"rope\", \"alibi\"]", "encoding = [\"rope\", \"alibi\"]"] {
        refused(
            &format!("{both}only = {{ {only} }}\n"),
            &[
                "`evaluate[0].extend[1] = ntk` is not allowed: it applies to no run with `",
                " = alibi`, which `only` names, at 32 tokens: `ntk` does not apply to `alibi`",
                "hint: ",
            ],
        );
    }
    // What applies to none of the runs would never be measured.
    refused(
        &format!(
            "{DIRECT}[[evaluate]]\nlengths = [32]\nextend = [\"ntk\"]\nonly = {{ encoding = \"alibi\" }}\n"
        ),
        &["`evaluate[1].extend[0] = ntk`"],
    );
    refused(
        &format!("{DIRECT}only = {{ encoding = \"ropee\" }}\n"),
        &["evaluate[0].only.encoding", "did you mean `rope`?"],
    );
}

#[test]
fn an_encoding_without_long_positions_keeps_its_short_ones() {
    let text = STUDY.split("[[evaluate]]").next().unwrap().replace("\"alibi\"", "\"learned\"");
    let project = project(&format!("{text}{DIRECT}"));
    let outcome = study(&project, &[]).done();
    assert!(outcome.stderr.contains("left out  learned: no `direct` at 64 tokens: "), "{}", outcome.stderr);
    let csv = project.text("runs/studies/two/results.csv");
    let direct: Vec<&str> = csv.lines().filter(|line| line.starts_with("learned,direct,")).collect();
    // Two seeds, at L; the windows are those of the other encoding.
    assert_eq!(direct.len(), 2, "{csv}");
    assert!(direct.iter().all(|line| line.contains(",32,32,64,64,")), "{direct:?}");
}

#[test]
fn the_folder_of_somebody_else_is_left_alone() {
    let project = project(STUDY);
    let collect = |out: &str| study(&project, &["--collect", "--out", out]);
    let strangers = [
        ("proj/results.csv", "a,b"),
        ("proj/study.md", "my study"),
        ("proj/tasks/one.toml", "a task of mine"),
        ("proj/claims.json", "my claims"),
        ("infra/plan.json", "{ \"resources\": [] }"),
        ("cloud/plan.toml", "[[entries]]\nname = \"mine\""),
    ];
    for (name, text) in &strangers {
        project.write(name, text);
    }
    for folder in ["proj", "infra", "cloud"] {
        collect(folder).refuses(2, &[&format!("`{folder}` is not empty and holds no study"), "with `--out`"]);
    }
    for (name, text) in strangers {
        assert_eq!(project.text(name), text);
    }
    // What a first start leaves that was stopped at once, and a study that lost its plan.
    project.write("stopped/claims.json", "[]");
    project.write("stopped/.plan.json.1.part", "half");
    collect("stopped").done();
    std::fs::remove_file(project.path("stopped/plan.toml")).unwrap();
    collect("stopped").done();
    assert!(project.exists("stopped/plan.toml"));
}

#[test]
fn a_study_does_not_take_the_folder_of_another() {
    let project = project(STUDY);
    study(&project, &["--collect"]).done();
    let kept = ["study.md", "plan.toml", "plan.json"].map(|name| format!("runs/studies/two/{name}"));
    let read = || kept.each_ref().map(|name| project.text(name));
    let before = read();
    project.write("other.toml", &STUDY.replace("\"two\"", "\"other\"").replace("steps = 12", "steps = 3"));
    for more in [&["--collect"][..], &["--dry-run"], &[]] {
        let arguments = [&["study", "other.toml", "--out", "runs/studies/two"], more].concat();
        project.refuses(
            2,
            &arguments,
            &[
                "`runs/studies/two` holds the study `two`, and this one is `other`",
                "another folder with `--out`",
            ],
        );
    }
    assert_eq!(read(), before);
    // Under its own name a study has its folder again, however it is changed.
    study(&project, &["--collect", "--out", "runs/studies/two", "--set", "train.steps=3"]).done();
}

#[test]
fn an_option_without_its_launcher_is_refused() {
    let project = project(STUDY);
    for (arguments, told) in [
        (&["--template", "echo {command}"][..], "`--template` has no effect without `--launcher command`"),
        (
            &["--template", "echo {command}", "--launcher", "slurm"],
            "`--template` has no effect without `--launcher command`",
        ),
        (&["--sbatch=--mem=4G"], "`--sbatch` has no effect without `--launcher slurm`"),
        (&["--wait"], "`--wait` has no effect without `--launcher slurm` or `--launcher command`"),
        (
            &["--launcher", "command", "--template", "echo {command}", "--jobs", "2"],
            "`--jobs` has no effect with `--launcher command`",
        ),
    ] {
        study(&project, arguments).refuses(2, &[told, "hint: "]);
    }
    assert!(!project.exists("runs"));
}

#[test]
fn a_text_that_is_too_short_is_refused() {
    refused(
        "[[evaluate]]\nlengths = [32, 65536]\n",
        &[
            "`evaluate[0].lengths = 32` is not allowed",
            "no document of the test split is as long as 65537 tokens",
        ],
    );
}

#[test]
fn a_claim_that_is_added_after_looking_is_marked() {
    let claim = |says: &str| format!("[[claim]]\nsays = \"{says}\"\ntolerance = 9\n");
    let first = format!("{DIRECT}{}", claim("rope = alibi at 2L"));
    let project = with(&first);
    // Before any result a claim may still be changed.
    study(&project, &["--dry-run"]).done();
    let outcome = study(&project, &[]).done();
    assert!(!outcome.stdout.contains("(added)"), "{}", outcome.stdout);
    let head = STUDY.split("[[evaluate]]").next().unwrap();
    project.write("two.toml", &format!("{head}{first}{}", claim("rope < alibi at 2L")));
    for more in [&[][..], &["--collect"]] {
        let outcome = study(&project, more).done();
        let lines: Vec<&str> = outcome.stdout.lines().filter(|line| line.contains("**holds")).collect();
        assert_eq!(lines.len(), 2, "{}", outcome.stdout);
        assert!(lines[0].starts_with("| rope = alibi") && !lines[0].contains("(added)"), "{}", lines[0]);
        assert!(lines[1].contains("| **holds (added)** |"), "{}", lines[1]);
        assert!(outcome.stdout.contains("It is corrected with the rest."), "{}", outcome.stdout);
    }
    let changed = first.replace("tolerance = 9", "tolerance = 8");
    project.write("two.toml", &format!("{head}{changed}"));
    assert!(study(&project, &[]).done().stdout.contains("**holds (added)** |"));
    // So it is where the evaluation changes with the claim, and when that is taken back.
    let both = changed.replace("windows_per_document = 2", "windows_per_document = 1");
    for text in [&both, &changed] {
        project.write("two.toml", &format!("{head}{text}"));
        assert!(study(&project, &[]).done().stdout.contains("**holds (added)** |"), "{text}");
    }
}
