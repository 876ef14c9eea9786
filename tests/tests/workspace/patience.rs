//! The step of the best validation: it is named where it was better than the end, read in its place, and waited for.

use crate::common::trainer::{metrics, train_until};
use crate::common::{BEST, CONFIG, LAST, Project, same, set, text};
use longwave_train::{Checkpoint, Outcome};
use serde_json::Value;

/// The words of the training text in another order: what a model learns of that order beyond single words makes it worse here.
fn project() -> Project {
    let project = Project::new();
    validate_otherwise(&project);
    project
}

/// Gives a project such validation texts.
pub fn validate_otherwise(project: &Project) {
    let words: Vec<&str> = "turns phase its and long is wave the".split(' ').collect();
    for index in 0..2 {
        let text: Vec<&str> = (0..600).map(|word| words[word % words.len()]).collect();
        project.write(&format!("corpus/valid/{index}.txt"), &text.join(" "));
    }
}

/// Sixty steps of which one in the middle validates best.
const OVERFITS: [&str; 3] = ["train.steps=60", "train.validate_every=5", "train.learning_rate=0.01"];

fn train(project: &Project, changes: &[&str], more: &[&str]) -> String {
    project.train(&[&set(&[&OVERFITS, changes].concat())[..], more].concat()).stderr
}

/// Trains in this process, and stops when asked so often.
fn until(project: &Project, folder: &str, asked: usize, changes: &[&str]) -> Outcome {
    train_until(project, folder, asked, &[&OVERFITS, changes].concat())
}

/// The validations of a run: steps and losses.
fn validations(project: &Project, folder: &str) -> Vec<(u64, f64)> {
    let metrics = metrics(project, folder);
    assert!(metrics.iter().zip(1..).all(|(metric, step)| metric.step == step));
    metrics.iter().filter_map(|metric| Some((metric.step, metric.valid_loss?))).collect()
}

/// The first of the least losses.
fn best(validations: &[(u64, f64)]) -> (u64, f64) {
    validations.iter().copied().reduce(|best, next| if next.1 < best.1 { next } else { best }).unwrap()
}

/// The step of the first validation that is the `patience`th in a row without a loss below all before.
fn stop(validations: &[(u64, f64)], patience: usize) -> u64 {
    let improves = |place: usize| validations[..place].iter().all(|(_, loss)| validations[place].1 < *loss);
    let waits = |place: &usize| *place >= patience && (place + 1 - patience..=*place).all(|it| !improves(it));
    validations[(0..validations.len()).find(waits).unwrap()].0
}

fn rows(project: &Project, arguments: &[&str]) -> Vec<Value> {
    project.ok(&[&["eval"], arguments, &["--json", "--device", "cpu"]].concat()).rows()
}

/// What rows are of, and their losses.
fn read(rows: &[Value]) -> Vec<(&str, u64, f64)> {
    let of = |row| -> Option<_> {
        let row: &Value = row;
        Some((row["checkpoint"].as_str()?, row["step"].as_u64()?, row["nll"].as_f64()?))
    };
    rows.iter().map(|row| of(row).unwrap()).collect()
}

#[test]
fn an_overfitted_run_names_its_best_step_and_reads_it() {
    let project = project();
    let told = train(&project, &[], &["--out", "end"]);
    let (step, loss) = best(&validations(&project, "end"));
    let last = validations(&project, "end").last().unwrap().1;
    assert!(step < 60 && last > loss + 0.01, "{loss} at step {step}, {last} at the end");
    let sentence =
        format!("step {step} was better on validation: loss {loss:.2} against {last:.2} at the end");
    assert!(
        told.contains(&format!("{sentence}; hint: `evaluate.checkpoints = \"best\"` reads it")),
        "{told}"
    );
    let page = project.text("end/report.html");
    assert!(page.contains(&sentence[1..]), "the page names it");
    let told = project.run(&["report", "end"]).stderr;
    assert!(told.contains(&sentence[1..]), "{told}");
    assert!(project.text("end/results.md").contains(&sentence[1..]));
    let of_end = rows(&project, &["end"]);
    assert!(read(&of_end).iter().all(|row| (row.0, row.1) == ("last", 60)));
    // The same numbers, whoever asks for them.
    let of_best = rows(&project, &["end", "--checkpoints", "best"]);
    assert!(read(&of_best).iter().all(|row| (row.0, row.1) == ("best", step)), "{:?}", read(&of_best));
    assert_ne!(of_best[0]["nll"], of_end[0]["nll"]);
    let told = train(&project, &["evaluate.0.checkpoints=best"], &["--out", "chosen"]);
    assert!(told.contains(&format!("{sentence}; the evaluations read it")), "{told}");
    assert_eq!(read(&rows(&project, &["chosen"])), read(&of_best));
    assert_eq!(read(&rows(&project, &["end", "--checkpoint", "best"])), read(&of_best));
    let page = project.text("chosen/report.html");
    assert!(!page.contains("was better on validation") && page.contains("best checkpoint"));
    // A checkpoint that is named is read alone.
    assert_eq!(read(&rows(&project, &["chosen", "--checkpoint", "last"])), read(&of_end));
    // A training that does not overfit says nothing.
    let told = Project::new().train(&[]).stderr;
    assert!(!told.contains("was better on validation"), "{told}");
}

#[test]
fn patience_ends_a_training_and_however_it_is_stopped_it_ends_alike() {
    let project = project();
    train(&project, &["evaluate=[]"], &["--out", "whole"]);
    let validated = validations(&project, "whole");
    let end = stop(&validated, 2);
    let best = best(&validated[..=validated.iter().position(|(step, _)| *step == end).unwrap()]);
    assert!(best.0 < end && end < 60, "{best:?} and {end} of {validated:?}");
    let patient = ["train.patience=2", "evaluate.0.checkpoints=best"];
    let told = train(&project, &patient, &["--out", "patient"]);
    let sentence = format!(
        "stopped early at step {end} of 60: no validation after step {} was better than its loss of {:.3} \
         (`train.patience = 2`)",
        best.0, best.1
    );
    assert!(told.contains(&sentence), "{told}");
    // Until there it is the training without it.
    let of_patient = validations(&project, "patient");
    assert!(of_patient.last().unwrap().0 == end && validated.starts_with(&of_patient));
    let of_best = rows(&project, &["patient"]);
    assert!(read(&of_best).iter().all(|row| (row.0, row.1) == ("best", best.0)), "{:?}", read(&of_best));
    // The stop is recorded: the same command trains nothing more, and says why.
    let told = train(&project, &patient, &["--out", "patient", "--resume"]);
    assert!(told.contains(&sentence) && !told.contains("resuming"), "{told}");
    let last = rows(&project, &["patient", "--checkpoint", "last", "--lengths", "L", "--extend", "direct"]);
    assert!(read(&last).iter().all(|row| (row.0, row.1) == ("last", end)));
    // Stopped after any pass, and killed between the best weights and the state.
    for asked in [1, 21, 49, 2 * end as usize - 1] {
        let folder = format!("stopped-{asked}");
        assert_eq!(until(&project, &folder, asked, &patient), Outcome::Interrupted);
        until(&project, &folder, 7, &patient);
        assert_eq!(until(&project, &folder, usize::MAX, &patient), Outcome::Done);
        for name in [LAST, BEST] {
            assert!(same(&project.path("patient").join(name), &project.path(&folder).join(name)), "{asked}");
        }
    }
    // More patience goes on from there, as if it had been there from the first step.
    assert!(stop(&validated, 3) > end);
    let more = ["train.patience=3", "evaluate.0.checkpoints=best"];
    let told = train(&project, &more, &["--out", "patient", "--resume"]);
    assert!(told.contains("`train.patience`: a patience of 3 validations in the place of"), "{told}");
    assert!(told.contains(&format!("resuming after step {end}")), "{told}");
    train(&project, &more, &["--out", "more"]);
    assert_eq!(validations(&project, "patient").last().unwrap().0, stop(&validated, 3));
    assert!(same(&project.path("patient").join(LAST), &project.path("more").join(LAST)));
    let [grown, planned] =
        ["patient", "more"].map(|folder| Checkpoint::load(&project.path(folder).join(BEST)).unwrap());
    assert!(grown.meta.best == planned.meta.best && grown.parameters() == planned.parameters());
}

#[test]
fn weights_of_a_later_best_step_are_never_taken_for_those_of_an_earlier_one() {
    let project = project();
    assert_eq!(until(&project, "run", 40, &[]), Outcome::Interrupted);
    // As if it had been killed when the best weights of a later step were written, and its state was not.
    let copy = project.copied();
    assert_eq!(until(&copy, "run", usize::MAX, &[]), Outcome::Done);
    std::fs::copy(copy.path("run").join(BEST), project.path("run").join(BEST)).unwrap();
    assert_eq!(until(&project, "run", usize::MAX, &["train.validate_every=7"]), Outcome::Done);
    let (step, _) =
        best(&validations(&project, "run").into_iter().filter(|it| it.0 > 20).collect::<Vec<_>>());
    let meta = |name: &str| Checkpoint::load(&project.path("run").join(name)).unwrap().meta;
    assert_eq!((meta(BEST).step, meta(LAST).best.map(|best| best.step)), (step, Some(step)));
}

#[test]
fn what_has_no_validation_or_no_end_is_refused() {
    let project = project();
    let refused = |name: &str, changes: &[&str]| {
        let arguments = [&["train", "small.toml", "--device", "cpu"], &set(changes)[..]].concat();
        insta::assert_snapshot!(name, project.refused(2, &arguments));
    };
    refused("a_patience_of_nothing", &["train.patience=0"]);
    refused("a_patience_before_a_stage", &["train.patience=2", "stage=[{ length = 64, steps = 3 }]"]);
    let steps = ["train.patience=2", "train.keep_checkpoints=2", "evaluate.0.checkpoints=[2, 4]"];
    refused("steps_that_a_patience_may_not_reach", &steps);
    std::fs::remove_dir_all(project.path("corpus/valid")).unwrap();
    refused("a_patience_without_validation", &["train.patience=2"]);
    refused("the_best_step_without_validation", &["evaluate.0.checkpoints=best"]);
    assert!(!project.exists("runs"), "nothing is written");
    let project = self::project();
    train(&project, &["train.patience=3"], &["--out", "run"]);
    let arguments = ["train", "small.toml", "--device", "cpu", "--out", "run", "--resume"];
    let less = set(&[&OVERFITS[..], &["train.patience=2"]].concat());
    insta::assert_snapshot!(
        "less_patience_than_before",
        project.refused(2, &[&arguments, &less[..]].concat())
    );
    let often = ["train.steps=60", "train.validate_every=4", "train.learning_rate=0.01", "train.patience=3"];
    insta::assert_snapshot!(
        "other_validations_for_a_patience",
        project.refused(2, &[&arguments, &set(&often)[..]].concat())
    );
}

#[test]
fn a_run_does_not_go_on_with_another_text() {
    let project = project();
    train(&project, &["evaluate=[]", "train.patience=2"], &["--out", "run"]);
    let before = project.read("run/config.toml");
    project.write("corpus/train/0.txt", &text(700, 9));
    let arguments = ["train", "small.toml", "--device", "cpu", "--out", "run", "--resume"];
    for changes in [["train.patience=4", "train.steps=60"], ["train.patience=2", "train.steps=80"]] {
        let keys = [&["evaluate=[]"][..], &OVERFITS, &changes].concat();
        project.refuses(
            2,
            &[&arguments[..], &set(&keys)[..]].concat(),
            &[
                "`run` was trained on other text: `data.corpus` has changed since",
                "hint: bring the old text back",
            ],
        );
    }
    assert_eq!(project.read("run/config.toml"), before);
}

/// However `validate_every` is written: what counts is at which steps a run is validated.
#[test]
fn a_patient_run_is_made_longer_and_found_again() {
    let project = project();
    project.write("small.toml", &CONFIG.replace("validate_every = 3\n", ""));
    let patient = ["evaluate=[]", "train.patience=9", "train.steps=10"];
    let trained = |steps: &str, more: &[&str]| {
        let changes = [&patient[..2], &[steps], more].concat();
        project.train(&[&set(&changes)[..], &["--resume"]].concat()).stderr
    };
    project.train(&set(&patient));
    assert!(
        trained("train.steps=10", &["train.validate_every=1"]).contains("training is finished at step 10")
    );
    assert!(trained("train.steps=15", &[]).contains("resuming after step 10"));
    for more in [&[][..], &["train.validate_every=1"]] {
        assert!(trained("train.steps=15", more).contains("training is finished at step 15"), "{more:?}");
    }
}

/// The validation at the end of a run is none of a longer one, unless it has a validation there.
#[test]
fn a_patient_run_that_is_made_longer_waits_as_one_of_that_length() {
    let project = project();
    let keys = ["evaluate=[]", "train.patience=20", "train.validate_every=8", "train.schedule_steps=50"];
    let train = |folder: &str, steps: &str, more: &[&str]| {
        let changes = [&keys[..], &["train.learning_rate=0.01", steps]].concat();
        project.train(&[&set(&changes)[..], &["--out", folder], more].concat()).stderr
    };
    train("whole", "train.steps=70", &[]);
    train("grown", "train.steps=50", &[]);
    let validated = validations(&project, "grown");
    assert!(validated.last().unwrap().0 == 50 && best(&validated).0 < 50, "{validated:?}");
    let told = train("grown", "train.steps=70", &["--resume"]);
    assert!(told.contains("resuming after step 48"), "{told}");
    assert_eq!(validations(&project, "grown"), validations(&project, "whole"));
    assert!(same(&project.path("grown").join(LAST), &project.path("whole").join(LAST)));
}

#[test]
fn the_best_of_validations_at_other_steps_is_called_so() {
    let project = project();
    let best = ["evaluate.0.checkpoints=best", "train.validate_every=5"];
    train(&project, &best, &[]);
    let told = train(&project, &["evaluate.0.checkpoints=best", "train.validate_every=20"], &["--resume"]);
    assert!(
        told.contains("the run was validated at other steps than its `validate_every` says now"),
        "{told}"
    );
    let told = train(&project, &best, &["--resume"]);
    assert!(!told.contains("validated at other steps"), "{told}");
}
