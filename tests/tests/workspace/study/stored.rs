//! A study with more steps goes on from what is stored, and one that reads the best step trains nothing again.

use super::{RESULTS, STUDY, events, finished, project, results, store, study};
use crate::common::{LAST, Project, json_lines, rows_files, same, set};
use crate::patience::validate_otherwise;
use longwave_study::Store;
use longwave_train::Checkpoint;
use std::collections::BTreeMap;
use std::path::Path;

/// The study on a schedule of which nothing but the decay moves with the steps.
fn wsd() -> String {
    STUDY.replace("checkpoint_every = 2", "checkpoint_every = 2, schedule = \"wsd\", warmup = 2, decay = 3")
}

fn lines(project: &Project, key: &str) -> Vec<String> {
    let path = store(project).run(key).join("metrics.jsonl");
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn keys(project: &Project) -> Vec<String> {
    store(project).keys().unwrap()
}

/// The key of the longer run, and the stored one and the step that it goes on from, of each line of a dry run.
fn planned(told: &str) -> BTreeMap<String, (String, usize)> {
    let line = |line: &str| -> Option<_> {
        let (run, source) = line.split_once(": goes on from step ")?;
        let (step, stored) = source.split_once(" of ")?;
        let key = run.split(' ').next()?;
        Some((key.to_owned(), (stored.to_owned(), step.parse().ok()?)))
    };
    told.lines().filter_map(line).collect()
}

#[test]
fn more_steps_go_on_from_the_stored_ones_to_the_same_bits() {
    let grown = project(&wsd());
    study(&grown, &[]).done();
    let (before, files, short) = (results(&grown), finished(&grown), keys(&grown));
    let more = ["--set", "train.steps=18"];
    let told = study(&grown, &[&more[..], &["--dry-run"]].concat()).done().stdout;
    let from = planned(&told);
    assert_eq!(from.len(), 4, "{told}");
    // 12 steps, of which the last 3 decay: both are at the peak until step 9.
    assert!(from.values().all(|(stored, step)| short.contains(stored) && *step == 9), "{told}");
    // Nine steps of four runs are left, of 256 tokens.
    assert!(told.contains(" 9.2k training tokens"), "{told}");
    let told = study(&grown, &more).done().stderr;
    assert!(
        told.contains("stored    4 runs go on from stored runs that were trained alike until there: rope, seed 0 from step 9 of"),
        "{told}"
    );
    for (key, (stored, step)) in &from {
        let (long, short) = (lines(&grown, key), lines(&grown, stored));
        assert_eq!((long.len(), short.len()), (18, 12));
        // Seconds and all: these steps were not trained again.
        assert_eq!(long[..*step], short[..*step]);
        assert_ne!(long[*step], short[*step]);
    }
    let whole = project(&wsd());
    study(&whole, &more).done();
    assert_eq!(results(&grown), results(&whole));
    for key in keys(&whole) {
        let [a, b] = [&grown, &whole].map(|it| store(it).run(&key).join(LAST));
        assert!(same(&a, &b), "{key}");
    }
    // The study as it was is still there.
    let again = study(&grown, &[]).done();
    assert!(again.stderr.contains("4 finished, 0 failed, 0 to be done"), "{}", again.stderr);
    assert_eq!(results(&grown), before);
    let now = finished(&grown);
    assert!(files.iter().all(|(path, time)| now[path] == *time), "a stored run was changed");
}

#[test]
fn the_best_step_is_not_read_among_validations_of_another_run() {
    let grown = project(&wsd());
    study(&grown, &["--set", "train.validate_every=2"]).done();
    // Reads the last step, and goes on from runs that were validated at 2, 4, 6 and 8.
    let more = ["--set", "train.steps=18", "--set", "train.validate_every=3"];
    assert!(study(&grown, &more).done().stderr.contains("4 runs go on from stored runs"));
    let best = wsd().replace("[[evaluate]]", "[[evaluate]]\ncheckpoints = \"best\"");
    grown.write("two.toml", &best);
    let refused = study(&grown, &more).refused(1);
    for said in
        ["went on from a run that was validated at other steps", "`train.validate_every` of the shorter run"]
    {
        assert!(refused.contains(said), "{refused}");
    }
    // With validations of its own there is an answer, in this store as in an empty one.
    let alike = ["--set", "train.steps=18", "--set", "train.validate_every=2"];
    study(&grown, &alike).done();
    let whole = project(&best);
    study(&whole, &alike).done();
    assert_eq!(results(&grown), results(&whole));
}

fn remove_rows(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("rows-") || name.starts_with("results") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn a_dry_run_counts_what_is_left_of_a_run_that_was_stopped() {
    let project = project(&wsd());
    study(&project, &[]).done();
    for key in keys(&project) {
        let folder = store(&project).run(&key);
        std::fs::copy(folder.join("checkpoints/stable.safetensors"), folder.join(LAST)).unwrap();
        remove_rows(&folder);
    }
    // Three of twelve steps of four runs are left, of 256 tokens.
    let told = study(&project, &["--dry-run"]).done().stdout;
    assert!(told.contains(" 3.1k training tokens"), "{told}");
}

#[test]
fn a_task_that_is_stopped_goes_on_from_its_own_steps() {
    let grown = project(&wsd());
    study(&grown, &[]).done();
    let more = ["--set", "train.steps=18"];
    study(&grown, &more).done();
    let results = results(&grown);
    let short: Vec<String> =
        events(&grown).into_keys().filter(|key| lines(&grown, key).len() == 12).collect();
    for key in keys(&grown).into_iter().filter(|key| !short.contains(key)) {
        let folder = store(&grown).run(&key);
        // As if it had been killed when its folder was there and its first checkpoint was not.
        for name in ["last", "previous", "stable"] {
            let _ = std::fs::remove_file(folder.join(format!("checkpoints/{name}.safetensors")));
        }
        remove_rows(&folder);
    }
    let told = study(&grown, &more).done().stderr;
    assert!(told.contains("stored    4 runs go on from stored runs"), "{told}");
    assert_eq!(self::results(&grown), results);
}

#[test]
fn what_was_trained_otherwise_is_not_gone_on_from() {
    let project = project(STUDY);
    study(&project, &[]).done();
    let dry = |more: &[&str]| study(&project, &[more, &["--dry-run"]].concat()).done().stdout;
    // A cosine of more steps has other rates from its first steps on, unless it is that of the stored run.
    let with =
        |more: &[&str]| planned(&dry(&set(more))).into_values().map(|(_, step)| step).collect::<Vec<_>>();
    assert_eq!(with(&["train.steps=18"]), [0; 0]);
    let told = study(&project, &["--set", "train.steps=18", "--dry-run"]).done().stderr;
    assert!(
        told.contains("hint      with `train.schedule_steps = 12` runs would go on from stored ones"),
        "{told}"
    );
    assert_eq!(with(&["train.steps=18", "train.schedule_steps=12"]), [12; 4]);
    let longer = ["train.steps=18", "train.schedule_steps=12"];
    for other in
        ["train.clip=0.5", "train.batch_tokens=512", "model.width=64", "data.separator='x'", "seeds=[5]"]
    {
        assert_eq!(with(&[&longer[..], &[other]].concat()), [0; 0], "{other}");
    }
    // Of steps that were not kept nothing can be read.
    assert_eq!(with(&[&longer[..], &["train.keep_checkpoints=[4]"]].concat()), [0; 0]);
    assert_eq!(with(&[&longer[..], &["train.keep_checkpoints=[14]"]].concat()), [12; 4]);
    // The best of other validations may be another one.
    let best = ["train.steps=18", "train.schedule_steps=12", "train.patience=9"];
    assert_eq!(with(&best), [0; 0], "a run without patience might have gone on where this one stops");
    // Runs that only validate more often have all their steps already, and are whole all the same.
    assert_eq!(with(&["train.validate_every=2"]), [12; 4]);
    study(&project, &["--set", "train.validate_every=2"]).done();
    let keys = keys(&project);
    assert_eq!(keys.len(), 8);
    for key in keys {
        assert_eq!(lines(&project, &key).len(), 12);
        assert_eq!(Checkpoint::load(&store(&project).run(&key).join(LAST)).unwrap().meta.step, 12);
    }
    assert_eq!(with(&["train.validate_every=2"]), [0; 0], "they are finished");
}

#[test]
fn a_study_reads_the_best_step_of_each_run() {
    let best = STUDY.replace("[[evaluate]]", "[[evaluate]]\ncheckpoints = \"best\"");
    let worse =
        |text: &str| text.replace("steps = 12", "steps = 60, validate_every = 5, learning_rate = 0.01");
    let project = project(&worse(STUDY));
    validate_otherwise(&project);
    study(&project, &[]).done();
    let keys = keys(&project);
    let trained = finished(&project);
    project.write("two.toml", &worse(&best));
    study(&project, &[]).done();
    // The runs are those of before, read at another step.
    assert_eq!(self::keys(&project), keys);
    let now = finished(&project);
    assert!(trained.iter().all(|(path, time)| now[path] == *time), "a run was trained again");
    let least = |key: &str| {
        let lines = lines(&project, key).into_iter().map(|line| serde_json::from_str(&line).unwrap());
        let loss = |line: serde_json::Value| Some((line["step"].as_u64()?, line["valid_loss"].as_f64()?));
        lines.filter_map(loss).reduce(|best, next| if next.1 < best.1 { next } else { best }).unwrap().0
    };
    let mut earlier = 0;
    for key in &keys {
        let files = rows_files(&store(&project).run(key)).into_iter();
        let text: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let rows: Vec<serde_json::Value> = json_lines(&text);
        let best: Vec<_> = rows.iter().filter(|row| row["checkpoint"] == "best").collect();
        assert!(!best.is_empty() && best.iter().all(|row| row["step"] == least(key)), "{best:?}");
        assert_eq!(rows.len(), 2 * best.len(), "as many are of the end, of the study before");
        earlier += usize::from(least(key) != 60);
    }
    assert!(earlier > 0, "every run was best at its end");
    let csv = project.text(RESULTS[0]);
    assert!(csv.contains(",best,") && !csv.contains(",last,"), "{csv}");
    // How often a run validates decides which step is the best: such runs are others.
    project.write("two.toml", &worse(&best).replace("validate_every = 5", "validate_every = 4"));
    study(&project, &[]).done();
    assert_eq!(Store::new(&project.path("runs/store")).keys().unwrap().len(), 8);
    // One table has no room for both.
    project.write("two.toml", &STUDY.replacen("[[evaluate]]", "[[evaluate]]\ncheckpoints = \"best\"", 1));
    let outcome = study(&project, &["--dry-run"]).refused(2);
    insta::assert_snapshot!("the_best_step_beside_the_end", outcome);
}

#[test]
fn a_study_without_validation_is_refused_before_its_first_run() {
    let project = project(&STUDY.replace("[[evaluate]]", "[[evaluate]]\ncheckpoints = \"best\""));
    std::fs::remove_dir_all(project.path("corpus/valid")).unwrap();
    let outcome = study(&project, &[]).refused(2);
    insta::assert_snapshot!("a_study_of_best_steps_without_validation", outcome);
    assert!(!project.exists("runs/store") && !project.exists("runs/studies"));
}

#[test]
fn the_best_rate_is_that_of_the_steps_that_are_read() {
    let axis =
        "[[axis]]\nkey = \"train.learning_rate\"\nvalues = [0.01, 0.02]\n\n[[axis]]\nkey = \"position\"";
    let study_file = STUDY
        .replace("steps = 12", "steps = 60, validate_every = 5")
        .replace("seeds = 2", "seeds = 1")
        .replace("[[axis]]\nkey = \"position\"", axis)
        .replace("[[evaluate]]", "[[evaluate]]\ncheckpoints = \"best\"");
    let claim = study_file.find("[[claim]]").unwrap();
    let project = project(&study_file[..claim]);
    validate_otherwise(&project);
    let told = study(&project, &[]).done().stdout;
    let key = |rate: &str, position: &str| {
        let of = |key: &String| {
            let text = std::fs::read_to_string(store(&project).run(key).join("config.toml")).unwrap();
            let config: toml::Table = text.parse().unwrap();
            let kind = config["position"]["kind"].as_str().unwrap().to_owned();
            kind == position && config["train"]["learning_rate"].to_string() == rate
        };
        keys(&project).into_iter().find(of).unwrap()
    };
    for position in ["rope", "alibi"] {
        let least = |rate: &'static str| {
            let losses = lines(&project, &key(rate, position)).into_iter().filter_map(|line| {
                serde_json::from_str::<serde_json::Value>(&line).unwrap()["valid_loss"].as_f64()
            });
            (rate, losses.fold(f64::INFINITY, f64::min))
        };
        let [a, b] = ["0.01", "0.02"].map(least);
        let (rate, loss) = if b.1 < a.1 { b } else { a };
        let line = format!("| {position} | direct | {rate} | {loss:.4} |");
        assert!(told.contains(&line), "no `{line}` in {told}");
    }
    assert!(told.contains("on the validation split at the best step of each run"), "{told}");
}
