//! What a study writes and says of what it measured: files, tables of tasks, claims on other metrics, devices.

use super::{RESULTS, STUDY, journal, project, results, study};
use crate::common::Project;
use crate::common::csv::Csv;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::ColumnDescPtr;
use std::collections::BTreeSet;

/// A small model on the task of copying.
const COPY: &str = r#"
name = "copy"
[data]
task = { kind = "copy" }
[model]
layers = 2
width = 32
heads = 2
[position]
kind = "rope"
[train]
length = 16
steps = 3
batch_tokens = 128
"#;

/// Two encodings asked the task, and what is claimed of their answers.
const TASK: &str = r#"
name = "two"
base = "copy.toml"
seeds = 2

[[axis]]
key = "position"
values = ["rope", "alibi"]

[[evaluate]]
protocol = "task"
lengths = [16, 32]
sequences = 20

[[claim]]
says = "alibi > rope at 2L"
metric = "exact_match"
tolerance = 0.99

[[claim]]
says = "alibi = rope at L"
metric = "accuracy"
tolerance = 0.99
over = "documents"
"#;

#[test]
fn parquet_holds_what_the_csv_says_with_types() {
    let axis =
        "[[axis]]\npoints = [{ label = 'a, \"b\"' }, { label = \"ALiBi\", position = { kind = \"alibi\" } }]";
    let text = STUDY
        .replace("[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]", axis)
        .replace("only = { position = \"rope\" }", "only = { point = 'a, \"b\"' }");
    let project = project(text.split("[[claim]]").next().unwrap());
    study(&project, &[]).done();
    let csv = Csv::read(&project.text(RESULTS[0]));
    let file = std::fs::File::open(project.path("runs/studies/two/results.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    // Two seeds at two lengths: one point read in three ways, the other in one, and the baseline of both.
    assert_eq!((rows.len(), csv.lines.len()), (2 * 2 * (4 + 2), rows.len()));
    let mut kinds = BTreeSet::new();
    for (row, line) in rows.iter().zip(&csv.lines) {
        let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
        assert_eq!(names, csv.names().iter().collect::<Vec<_>>());
        for ((name, field), cell) in row.get_column_iter().zip(line) {
            let (kind, same) = match field {
                Field::Null => ("null", cell.is_empty()),
                Field::Str(text) => ("text", text == cell),
                Field::Long(whole) => ("whole", whole.to_string() == *cell),
                Field::Double(number) => ("number", cell.parse() == Ok(*number)),
                Field::Bool(truth) => ("truth", truth.to_string() == *cell),
                other => panic!("`{name}` is of a kind that is never written: {other:?}"),
            };
            assert!(same, "`{name}`: {field:?} and `{cell}`");
            kinds.insert(kind);
        }
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["null", "number", "text", "truth", "whole"]);
    assert!(csv.lines.iter().any(|line| line[0] == "a, \"b\""));
}

#[test]
fn files_of_different_studies_can_be_put_together() {
    let columns = |project: &Project| {
        let file = std::fs::File::open(project.path("runs/studies/two/results.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let of = |column: &ColumnDescPtr| (column.name().to_owned(), column.physical_type());
        schema.columns().iter().map(of).collect::<Vec<_>>()
    };
    let (text, task) = (project(STUDY), project(TASK));
    task.write("copy.toml", COPY);
    study(&text, &["--set", "seeds=1"]).done();
    study(&task, &["--set", "seeds=1"]).done();
    // What one of them never measures has the type that it has in the other.
    assert_eq!(columns(&text), columns(&task));
    let header = |project: &Project| project.text(RESULTS[0]).lines().next().unwrap().to_owned();
    assert_eq!(header(&text), header(&task));
}

#[test]
fn a_study_of_tasks_tells_and_judges_what_was_answered() {
    let project = project(TASK);
    project.write("copy.toml", COPY);
    let plan = study(&project, &["--dry-run"]).done().stdout;
    let open: Vec<&str> = plan.lines().filter(|line| line.contains("  open ")).collect();
    assert_eq!(open.len(), 4);
    assert!(
        open.iter().all(|line| line.contains("e+") || line.contains("e1") || line.contains("e8")),
        "{plan}"
    );
    assert!(!plan.contains(" 0.0k read in evaluations"), "{plan}");
    let told = study(&project, &[]).done().stdout;
    for title in
        ["## Exact match in %, task, test split, L = 16", "## Accuracy in %, task, test split, L = 16"]
    {
        assert!(told.contains(title), "{told}");
    }
    assert!(!told.contains("Perplexity"), "{told}");
    // None of 20 right says that the share is at most 16.1%.
    assert!(told.contains("| 0.0 ±0.0 [0.0, 16.1] |"), "{told}");
    assert!(told.contains("in parentheses the standard error over sequences"), "{told}");
    let ranked = study(&project, &["--set", "best=2L"]).done().stdout;
    let equal = "`rope` and `alibi` have the highest exact match at 2L alike (at 5%, 2 seeds).";
    assert!(ranked.contains("| 0.0 ±0.0 [0.0, 16.1] | 0.0 | - |") && ranked.contains(equal), "{ranked}");
    let claims: Vec<&str> = told.lines().filter(|line| line.contains("| **holds** |")).collect();
    assert_eq!(claims.len(), 2, "{told}");
    assert!(claims[0].starts_with("| alibi > rope at 2L (`exact_match`) | **holds** | 0.99 |"), "{told}");
    assert!(claims.iter().all(|claim| claim.contains("| 2, 20 |")), "paired by seed and sequence: {told}");
    assert!(told.contains("`accuracy`: differences in share of the tokens, more is better."), "{told}");
    let page = project.text("runs/studies/two/report/report.html");
    for run in ["rope", "alibi"] {
        let line = format!("<tr><th scope=\"row\">{run}</th><td class=\"text\">{run}</td>");
        assert_eq!(page.matches(&line).count(), 2, "every run is listed: {run}");
    }
    // What no row will hold is refused before anything is run.
    project.write("two.toml", &TASK.replace("\"accuracy\"", "\"bits_per_byte\""));
    study(&project, &[]).refuses(2, &["will hold `bits_per_byte`"]);
}

#[test]
fn devices_share_the_runs_and_change_no_number() {
    let one = project(STUDY);
    study(&one, &[]).done();
    // Without a GPU in the build both are the CPU.
    let other = if cfg!(feature = "gpu") { "cpu" } else { "auto" };
    let devices = format!("threads = 1\ndevices = [\"cpu\", \"{other}\"]");
    let two = project(&STUDY.replace("threads = 1", &devices));
    study(&two, &["--jobs", "2"]).done();
    assert_eq!(results(&two), results(&one));
    if std::thread::available_parallelism().unwrap().get() > 1 {
        let used: BTreeSet<String> = journal(&two).into_iter().filter_map(|entry| entry.device).collect();
        assert_eq!(used, BTreeSet::from(["cpu", other].map(str::to_owned)));
    }
    let none_left = study(&two, &["--devices", "cpu"]).done();
    assert!(none_left.stderr.contains("4 finished, 0 failed, 0 to be done"), "{}", none_left.stderr);
    for (devices, told) in [("cpu,gpu:0", "round differently"), ("tpu", "it must be `auto`")] {
        study(&two, &["--devices", devices]).refuses(2, &[told]);
    }
}

#[test]
fn runs_of_different_text_are_not_compared_unless_read_on_one() {
    let project = Project::new();
    let words = "other words altogether, and more of them than before. ".repeat(40);
    for split in ["train", "valid", "test"] {
        for index in 0..3 {
            project.write(&format!("other/{split}/{index}.txt"), &words[index..]);
        }
    }
    project.train(&["--out", "a"]);
    project.train(&["--out", "b", "--set", "data.corpus=other"]);
    let refused = project.run(&["compare", "a", "b"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("read different text: `corpus` and `other`"), "{}", refused.stderr);
    for run in ["a", "b"] {
        project.ok(&["eval", run, "--corpus", "other", "--lengths", "64", "--device", "cpu"]);
    }
    let compared = project.ok(&["compare", "a", "b", "--metric", "accuracy"]).stdout;
    assert!(compared.contains("direct") && compared.contains("above 0 the first is better"), "{compared}");
    project.refused(2, &["compare", "a", "b", "--metric", "acuracy"]);
}

#[test]
fn seeds_of_a_config_are_printed_and_measured_as_it_is_asked() {
    let project = Project::new();
    let seeds = |more: &[&str]| {
        let train = ["train", "small.toml", "--seeds", "2", "--device", "cpu", "--threads", "1"];
        project.ok(&[&train[..], more].concat()).stdout
    };
    let csv = Csv::read(&seeds(&["--format", "csv"]));
    assert_eq!(csv.names()[0], "extend", "{:?}", csv.names());
    assert!(seeds(&[]).starts_with("# small-seeds\n"), "without a format it is `study.md`");
    // No evaluation is none, as without `--seeds`.
    let told = seeds(&["--set", "evaluate=[]"]);
    assert_eq!(told, "# small-seeds\n\n2 of 2 runs finished.\n");
}

#[test]
fn names_are_texts_in_tables_and_files() {
    let axis = "[[axis]]\npoints = [{ label = '=1+1' }, { label = '<script>x</script> a|b', position = { kind = \"alibi\" } }]";
    let text = STUDY
        .replace("[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]", axis)
        .replace("only = { position = \"rope\" }", "only = { encoding = \"rope\" }");
    let project = project(text.split("[[claim]]").next().unwrap());
    study(&project, &["--set", "seeds=1"]).done();
    for file in ["study.md", "report/results.md", "report/report.html"] {
        let text = project.text(&format!("runs/studies/two/{file}"));
        assert!(text.contains("&lt;script") && !text.contains("<script>x"), "{file}: {text}");
        assert!(file.ends_with("html") || text.contains("a\\|b"), "{file}: {text}");
    }
    let lines = Csv::read(&project.text(RESULTS[0])).lines;
    assert!(lines.iter().any(|line| line[0] == "'=1+1") && !lines.iter().any(|line| line[0] == "=1+1"));
}

#[test]
fn the_path_of_a_task_is_no_command() {
    let project = project(&STUDY.replace("seeds = 2", "seeds = 1"));
    let out = "x{task}; touch FILE; #";
    let template = ["--launcher", "command", "--template", "{command}", "--wait", "--out", out];
    study(&project, &template).done();
    assert!(!project.exists("FILE") && project.exists(&format!("{out}/study.md")));
}

#[test]
fn the_schema_of_a_study_has_its_keys() {
    let project = project(STUDY);
    let schema = project.ok(&["schema", "--study"]).json();
    let example: toml::Table = STUDY.parse().unwrap();
    for key in example.keys().map(String::as_str).chain(["best", "devices", "store", "stage"]) {
        let described = &schema["properties"][key];
        assert!(described["description"].is_string() || described["$ref"].is_string(), "{key}: {described}");
    }
    assert!(schema["$defs"]["EvaluateConfig"]["properties"]["only"].is_object());
    // Errors of a study name its schema.
    for wrong in
        [STUDY.replace("threads = 1", "threds_of = 1"), STUDY.replace("threads = 1", "threads = true")]
    {
        project.write("two.toml", &wrong);
        study(&project, &["--dry-run"]).refuses(2, &["`longwave schema --study`"]);
    }
}

#[test]
fn a_claim_compares_what_each_seed_chose() {
    let blocks = r#"
[[evaluate]]
lengths = [64]
extend = ["direct", { kind = "rerope", window = [4, 16] }]
windows_per_document = 2

[[claim]]
says = "rope, rerope < alibi at 2L"
tolerance = 9
"#;
    let project = project(&(STUDY.split("[[evaluate]]").next().unwrap().to_owned() + blocks));
    let told = study(&project, &["--set", "best=2L"]).done().stdout;
    assert!(told.contains("| rope, rerope < alibi at 2L | **holds** | 9 |"), "{told}");
    // One line for both seeds in each table, and places in the ranking.
    let whole = project.text(RESULTS[1]);
    let whole = whole.split_once("\n## Bits per byte").unwrap().0;
    assert_eq!(
        whole.lines().filter(|line| line.starts_with("| rope | rerope chosen |")).count(),
        1,
        "{whole}"
    );
    assert!(told.contains(" | rope, rerope chosen | "), "{told}");
}

/// A mean over the seeds that did not choose a value would depend on what they chose.
#[test]
fn a_given_value_has_all_seeds_whatever_they_chose() {
    let begin = STUDY.split("[[evaluate]]").next().unwrap();
    let of = |name: &str, extend: &str| {
        let block = format!("[[evaluate]]\nlengths = [64]\nextend = [{extend}]\nwindows_per_document = 2\n");
        begin.replace("\"two\"", &format!("{name:?}")) + &block
    };
    let list = "\"direct\", { kind = \"rerope\", window = [4, 16] }";
    let both = of(
        "two",
        &format!("{{ kind = \"rerope\", window = 4 }}, {list}, {{ kind = \"rerope\", window = 16 }}"),
    );
    let fresh = project(&both);
    study(&fresh, &[]).done();
    let csv = Csv::read(&fresh.text(RESULTS[0]));
    let read = |reading: &str| -> BTreeSet<[String; 2]> {
        let lines = csv.lines.iter().filter(|line| line[csv.place("reading")] == reading);
        lines.map(|line| ["seed", "nll"].map(|name| line[csv.place(name)].clone())).collect()
    };
    let [four, sixteen, chosen] = ["rerope window=4", "rerope window=16", "rerope chosen"].map(read);
    assert_eq!([four.len(), sixteen.len(), chosen.len()], [2; 3], "{:?}", csv.lines);
    assert!(chosen.is_subset(&(&four | &sixteen)), "{chosen:?}");
    assert_eq!(csv.lines.iter().filter(|line| line[csv.place("extend")] == "rerope").count(), 6);
    // The same where another study had asked for the list alone.
    let known = project(&of("list", list));
    study(&known, &[]).done();
    known.write("two.toml", &both);
    study(&known, &[]).done();
    assert_eq!(known.text(RESULTS[0]), fresh.text(RESULTS[0]));
}

#[test]
fn checkpoints_along_the_training_have_a_table_and_claims_of_their_own() {
    let plain = project(STUDY);
    study(&plain, &[]).done();
    let kept = project(
        &STUDY.replace("checkpoint_every = 2", "checkpoint_every = 2, keep_checkpoints = 4").replacen(
            "windows_per_document = 2",
            "windows_per_document = 2\ncheckpoints = \"all\"",
            1,
        ),
    );
    study(&kept, &[]).done();
    // The same tables and the same verdict, from the ends of the same trainings.
    let markdown = |project: &Project| project.text(RESULTS[1]);
    let (whole, expected) = (markdown(&kept), markdown(&plain));
    let (first, along) =
        whole.split_once("\n## Perplexity, fixed_target, test split, L = 32, by training step\n").unwrap();
    let (along, claims) = along.split_once("\n## Claims").unwrap();
    assert_eq!(format!("{first}\n## Claims{claims}"), expected);
    assert!(along.contains("| position | extend | length | step 4 | step 8 | step 12 |"), "{along}");
    assert!(along.contains("| rope | direct | 64 (2L) |"), "{along}");
    let lines = |project: &Project| project.text(RESULTS[0]).lines().count() - 1;
    // Four runs, two checkpoints more, direct and the baseline at two lengths.
    assert_eq!(lines(&kept), lines(&plain) + 4 * 2 * 4);
    let page = kept.text("runs/studies/two/report/report.html");
    assert!(page.contains("by training step, direct"), "no table by training step");
    // A claim that names a step is judged from what is there, and a step that nothing reads is named.
    let text = kept.text("two.toml");
    kept.write(
        "two.toml",
        &format!("{text}\n[[claim]]\nsays = \"rope, step=4 at 2L > rope, step=8 at L\"\ntolerance = 0.01\n"),
    );
    let told = study(&kept, &[]).done().stdout;
    let line = told.lines().find(|line| line.contains("rope, step=4 at 2L")).unwrap();
    assert!(line.contains("**holds (added)**"), "{line}");
    kept.write("two.toml", &format!("{text}\n[[claim]]\nsays = \"rope, step=5 > rope at L\"\n"));
    insta::assert_snapshot!("study_claim_step", study(&kept, &[]).stderr);
}

#[test]
fn another_text_of_an_evaluation_is_measured_again() {
    let with_text = STUDY.replacen("lengths = [32, 64]", "lengths = [32]\ncorpus = \"ev\"", 1);
    let claim = with_text.find("[[claim]]").unwrap();
    let project = project(&with_text[..claim]);
    project.write("ev/a.txt", &crate::common::text(600, 70));
    study(&project, &[]).done();
    let hashes = || -> BTreeSet<String> {
        let csv = Csv::read(&project.text(RESULTS[0]));
        let of_ev = csv.lines.iter().filter(|line| line.iter().any(|cell| cell == "ev"));
        of_ev.map(|line| line[csv.place("text_hash")].clone()).collect()
    };
    let before = hashes();
    assert!(study(&project, &[]).done().stderr.contains("4 finished, 0 failed, 0 to be done"));
    project.write("ev/a.txt", &crate::common::text(600, 71));
    let told = study(&project, &["--set", "seeds=3"]).done().stderr;
    assert!(told.contains("0 finished, 0 failed, 6 to be done"), "{told}");
    // Nothing was trained again, and no table holds two texts.
    let after = hashes();
    assert_eq!((before.len(), after.len(), before.intersection(&after).count()), (1, 1, 0));
}

#[test]
fn what_no_run_has_measured_is_not_left_beside_the_study() {
    let project =
        project(&format!("{STUDY}\n[[evaluate]]\nprotocol = \"non_overlapping\"\nlengths = [32, 64]\n"));
    let there =
        |names: [&str; 3]| names.map(|name| project.exists(&format!("runs/studies/two/report/{name}")));
    let charts = ["perplexity.svg", "perplexity-non_overlapping.png", "tensorboard"];
    study(&project, &[]).done();
    assert!(RESULTS.iter().all(|name| project.exists(name)));
    assert_eq!(there(charts), [true, true, true]);
    project.write("two.toml", STUDY);
    study(&project, &[]).done();
    assert_eq!(there(charts), [true, false, true]);
    study(&project, &["--collect", "--set", "train.steps=5"]).done();
    assert!(!project.exists("runs/studies/two/results.csv"));
    assert!(!project.exists("runs/studies/two/report/results.jsonl"));
    assert_eq!(there(charts), [false, false, false]);
    // A study that is only collected keeps its runs from being pruned.
    project.write("two.toml", &STUDY.replace("name = \"two\"", "name = \"only\""));
    study(&project, &["--collect"]).done();
    let kept = project.ok(&["runs", "prune", "--yes"]).stderr;
    assert!(kept.contains("every run belongs to a study"), "{kept}");
    // So does one that is asked for from within.
    let within = project.ok_in("runs/store", &["runs", "prune", "--store", "."]).stderr;
    assert!(within.contains("every run belongs to a study"), "{within}");
}
