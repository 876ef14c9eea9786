//! A study with more steps goes on from what is stored, and one that reads the best step trains nothing again.

use super::{RESULTS, STUDY, done, events, finished, project, results, store, study};
use crate::common::{Project, same};
use crate::patience::validate_otherwise;
use longwave_study::Store;
use longwave_train::Checkpoint;
use std::collections::BTreeMap;
use std::path::Path;

const LAST: &str = "checkpoints/last.safetensors";

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
    done(study(&grown, &[]));
    let (before, files, short) = (results(&grown), finished(&grown), keys(&grown));
    let more = ["--set", "train.steps=18"];
    let told = done(study(&grown, &[&more[..], &["--dry-run"]].concat())).stdout;
    let from = planned(&told);
    assert_eq!(from.len(), 4, "{told}");
    // 12 steps, of which the last 3 decay: both are at the peak until step 9.
    assert!(from.values().all(|(stored, step)| short.contains(stored) && *step == 9), "{told}");
    // Nine steps of four runs are left, of 256 tokens.
    assert!(told.contains(" 9.2k training tokens"), "{told}");
    let told = done(study(&grown, &more)).stderr;
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
    done(study(&whole, &more));
    assert_eq!(results(&grown), results(&whole));
    for key in keys(&whole) {
        let [a, b] = [&grown, &whole].map(|it| store(it).run(&key).join(LAST));
        assert!(same(&a, &b), "{key}");
    }
    // The study as it was is still there.
    let again = done(study(&grown, &[]));
    assert!(again.stderr.contains("4 finished, 0 failed, 0 to be done"), "{}", again.stderr);
    assert_eq!(results(&grown), before);
    let now = finished(&grown);
    assert!(files.iter().all(|(path, time)| now[path] == *time), "a stored run was changed");
}

#[test]
fn the_best_step_is_not_read_among_validations_of_another_run() {
    let grown = project(&wsd());
    done(study(&grown, &["--set", "train.validate_every=2"]));
    // Reads the last step, and goes on from runs that were validated at 2, 4, 6 and 8.
    let more = ["--set", "train.steps=18", "--set", "train.validate_every=3"];
    assert!(done(study(&grown, &more)).stderr.contains("4 runs go on from stored runs"));
    let best = wsd().replace("[[evaluate]]", "[[evaluate]]\ncheckpoints = \"best\"");
    grown.write("two.toml", &best);
    let refused = study(&grown, &more);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    for said in
        ["went on from a run that was validated at other steps", "`train.validate_every` of the shorter run"]
    {
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
    // With validations of its own there is an answer, in this store as in an empty one.
    let alike = ["--set", "train.steps=18", "--set", "train.validate_every=2"];
    done(study(&grown, &alike));
    let whole = project(&best);
    done(study(&whole, &alike));
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
    done(study(&project, &[]));
    for key in keys(&project) {
        let folder = store(&project).run(&key);
        std::fs::copy(folder.join("checkpoints/stable.safetensors"), folder.join(LAST)).unwrap();
        remove_rows(&folder);
    }
    // Three of twelve steps of four runs are left, of 256 tokens.
    let told = done(study(&project, &["--dry-run"])).stdout;
    assert!(told.contains(" 3.1k training tokens"), "{told}");
}

#[test]
fn a_task_that_is_stopped_goes_on_from_its_own_steps() {
    let grown = project(&wsd());
    done(study(&grown, &[]));
    let more = ["--set", "train.steps=18"];
    done(study(&grown, &more));
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
    let told = done(study(&grown, &more)).stderr;
    assert!(told.contains("stored    4 runs go on from stored runs"), "{told}");
    assert_eq!(self::results(&grown), results);
}

#[test]
fn what_was_trained_otherwise_is_not_gone_on_from() {
    let project = project(STUDY);
    done(study(&project, &[]));
    let dry = |more: &[&str]| done(study(&project, &[more, &["--dry-run"]].concat())).stdout;
    // A cosine of more steps has other rates from its first steps on, unless it is that of the stored run.
    let with = |more: &[&str]| {
        let set: Vec<&str> = more.iter().flat_map(|change| ["--set", change]).collect();
        planned(&dry(&set)).into_values().map(|(_, step)| step).collect::<Vec<_>>()
    };
    assert_eq!(with(&["train.steps=18"]), [0; 0]);
    let told = done(study(&project, &["--set", "train.steps=18", "--dry-run"])).stderr;
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
    done(study(&project, &["--set", "train.validate_every=2"]));
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
    done(study(&project, &[]));
    let keys = keys(&project);
    let trained = finished(&project);
    project.write("two.toml", &worse(&best));
    done(study(&project, &[]));
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
        let files = std::fs::read_dir(store(&project).run(key)).unwrap().map(|entry| entry.unwrap().path());
        let files = files
            .filter(|path| path.to_string_lossy().contains("rows-") && path.extension().unwrap() == "jsonl");
        let text: String = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let best: Vec<_> = rows.iter().filter(|row| row["checkpoint"] == "best").collect();
        assert!(!best.is_empty() && best.iter().all(|row| row["step"] == least(key)), "{best:?}");
        assert_eq!(rows.len(), 2 * best.len(), "as many are of the end, of the study before");
        earlier += usize::from(least(key) != 60);
    }
    assert!(earlier > 0, "every run was best at its end");
    let csv = String::from_utf8(project.read(RESULTS[0])).unwrap();
    assert!(csv.contains(",best,") && !csv.contains(",last,"), "{csv}");
    // How often a run validates decides which step is the best: such runs are others.
    project.write("two.toml", &worse(&best).replace("validate_every = 5", "validate_every = 4"));
    done(study(&project, &[]));
    assert_eq!(Store::new(&project.path("runs/store")).keys().unwrap().len(), 8);
    // One table has no room for both.
    project.write("two.toml", &STUDY.replacen("[[evaluate]]", "[[evaluate]]\ncheckpoints = \"best\"", 1));
    let outcome = study(&project, &["--dry-run"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    insta::assert_snapshot!("the_best_step_beside_the_end", outcome.stderr);
}

#[test]
fn a_study_without_validation_is_refused_before_its_first_run() {
    let project = project(&STUDY.replace("[[evaluate]]", "[[evaluate]]\ncheckpoints = \"best\""));
    std::fs::remove_dir_all(project.path("corpus/valid")).unwrap();
    let outcome = study(&project, &[]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    insta::assert_snapshot!("a_study_of_best_steps_without_validation", outcome.stderr);
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
    let told = done(study(&project, &[])).stdout;
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
