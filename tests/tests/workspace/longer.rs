//! Runs that are made longer: from where they go on, what becomes of their learning rate, and that they end as a run that was
//! planned so.

use crate::common::trainer::{metrics, train_until};
use crate::common::{BEST, LAST, Project, RUN, same, set};
use longwave_train::{Checkpoint, Outcome};
use std::collections::BTreeMap;

const PEAK: f64 = 3e-3;

fn close(is: f64, expected: f64, step: usize) {
    assert!((is - expected).abs() < 1e-15, "step {step}: {is}, and not {expected}");
}

/// The learning rates of all steps, from the first.
fn rates(project: &Project, folder: &str) -> Vec<f64> {
    let metrics = metrics(project, folder);
    assert!(metrics.iter().zip(1..).all(|(metric, step)| metric.step == step));
    metrics.into_iter().map(|metric| metric.learning_rate).collect()
}

fn checkpoint(project: &Project, folder: &str, name: &str) -> Checkpoint {
    Checkpoint::load(&project.path(folder).join(name)).unwrap()
}

/// The weights by name, to the bit.
fn weights(checkpoint: &Checkpoint) -> BTreeMap<String, Vec<u32>> {
    let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect();
    checkpoint.parameters().into_iter().map(|(name, numbers)| (name.to_owned(), bits(numbers))).collect()
}

fn whole(project: &Project, folder: &str, changes: &[&str]) {
    assert_eq!(train_until(project, folder, usize::MAX, changes), Outcome::Done);
}

#[test]
fn wsd_with_its_default_warm_up_goes_on_from_before_its_decay() {
    let project = Project::new();
    let train = |steps: &str, more: &[&str]| {
        project.train(&[&set(&["evaluate=[]", "train.schedule=wsd", steps]), more].concat()).stderr
    };
    train("train.steps=40", &[]);
    let told = train("train.steps=60", &["--resume"]);
    let how = "`train` has 60 steps in the place of 40: it goes on from step 32, before its decay; the learning rate stays at \
               its peak until step 48, and then falls to 3.000e-4; the warm-up stays at 2 steps";
    assert!(told.contains(how) && told.contains("resuming after step 32"), "{told}");
    // 5% of 40 steps warm up, and 20% of 60 decay.
    for (step, rate) in rates(&project, RUN).into_iter().enumerate() {
        let expected = match step {
            0 => PEAK / 2.0,
            1..48 => PEAK,
            _ => PEAK - 0.9 * PEAK * (step - 47) as f64 / 12.0,
        };
        close(rate, expected, step);
    }
    // The same command again finds the run finished, and more steps keep the first warm-up.
    assert!(train("train.steps=60", &["--resume"]).contains("training is finished at step 60"));
    let told = train("train.steps=80", &["--resume"]);
    assert!(
        told.contains("resuming after step 48") && told.contains("the warm-up stays at 2 steps"),
        "{told}"
    );
    assert_eq!(rates(&project, RUN)[1..64], [PEAK; 63]);
    train("train.steps=80", &["--set", "train.schedule_steps=40", "--out", "planned"]);
    train("train.steps=80", &["--set", "train.warmup=2", "--out", "counted"]);
    assert!(same(&project.path(RUN).join(LAST), &project.path("planned").join(LAST)));
    let [grown, counted] = [RUN, "counted"].map(|folder| weights(&checkpoint(&project, folder, LAST)));
    assert!(!grown.is_empty() && grown == counted);
}

#[test]
fn a_cosine_stays_at_its_last_rate() {
    let project = Project::new();
    let train = |steps: &str, more: &[&str]| {
        project.train(&[&set(&["evaluate=[]", "train.warmup=2", steps]), more].concat()).stderr
    };
    let told = train("train.steps=10", &[]) + &train("train.steps=10", &["--resume"]);
    assert!(told.contains("a larger `train.steps` goes on at its last learning rate"), "{told}");
    let told = train("train.steps=14", &["--resume"]);
    let how = "`train` has 14 steps in the place of 10: its cosine ends at step 10 as before, and the learning rate stays at \
               3.000e-4 from there";
    assert!(told.contains(how) && told.contains("resuming after step 10"), "{told}");
    for (step, rate) in rates(&project, RUN).into_iter().enumerate() {
        let turned = std::f64::consts::PI * (step as f64 - 1.0) / 8.0;
        let expected = match step {
            0 => PEAK / 2.0,
            1..9 => PEAK * (0.1 + 0.45 * (1.0 + turned.cos())),
            _ => 0.1 * PEAK,
        };
        close(rate, expected, step);
    }
    train("train.steps=17", &["--resume"]);
    train("train.steps=17", &["--set", "train.schedule_steps=10", "--out", "planned"]);
    assert_eq!(rates(&project, RUN), rates(&project, "planned"));
    assert!(same(&project.path(RUN).join(LAST), &project.path("planned").join(LAST)));
}

#[test]
fn the_last_step_has_the_final_ratio_of_the_peak() {
    let project = Project::new();
    for (schedule, ratio) in [("cosine", 0.25), ("wsd", 0.25), ("cosine", 0.0), ("wsd", 1.0)] {
        let folder = format!("{schedule}-{ratio}");
        let changes = [format!("train.schedule={schedule}"), format!("train.final_ratio={ratio}")];
        whole(&project, &folder, &[&changes[0], &changes[1]]);
        let rates = rates(&project, &folder);
        assert_eq!((rates[0], rates[5]), (PEAK, PEAK * ratio), "{folder}");
    }
}

/// A schedule of as many steps as there are is the schedule as it is, and part of the config all the same.
#[test]
fn a_run_whose_schedule_has_all_of_its_steps_is_resumed() {
    let project = Project::new();
    for (folder, changes) in [
        ("cosine", ["train.steps=6", "train.schedule_steps=6", "train.warmup=1"]),
        ("wsd", ["train.schedule=wsd", "train.schedule_steps=4", "train.warmup=1"]),
    ] {
        whole(&project, &format!("{folder}-whole"), &changes);
        assert_eq!(train_until(&project, folder, 3, &changes), Outcome::Interrupted);
        whole(&project, folder, &changes);
        assert!(same(&project.path(folder).join(LAST), &project.path(&format!("{folder}-whole")).join(LAST)));
        let again = [&set(&changes)[..], &["--out", folder, "--resume"]].concat();
        assert!(project.train(&again).stderr.contains("training is finished at step 6"), "{folder}");
    }
}

/// Wherever a longer run is stopped or killed, it goes on to the same bits.
#[test]
fn a_longer_run_is_resumed_as_any_other() {
    let project = Project::new();
    for schedule in ["train.schedule=cosine", "train.schedule=wsd"] {
        let (shorter, longer) = ([schedule, "train.steps=20"], [schedule, "train.steps=30"]);
        let (grown, planned) = (format!("{schedule}-grown"), format!("{schedule}-planned"));
        whole(&project, &planned, &[schedule, "train.steps=30", "train.schedule_steps=20"]);
        whole(&project, &grown, &shorter);
        let before = project.read(&format!("{grown}/config.toml"));
        assert_eq!(train_until(&project, &grown, 1, &longer), Outcome::Interrupted);
        // As if the process had been killed just before it wrote the config.
        project.write(&format!("{grown}/config.toml"), &String::from_utf8(before).unwrap());
        assert_eq!(train_until(&project, &grown, 6, &longer), Outcome::Interrupted);
        whole(&project, &grown, &longer);
        assert!(same(&project.path(&planned).join(LAST), &project.path(&grown).join(LAST)), "{schedule}");
        assert_eq!(rates(&project, &planned), rates(&project, &grown));
    }
}

#[test]
fn so_is_a_run_whose_stage_is_longer_or_new() {
    let project = Project::new();
    let stage =
        |steps: u64, more: &str| format!("stage=[{{ length = 64, steps = {steps}, warmup = 1{more} }}]");
    let train = ["train.steps=4", "train.warmup=0"];
    let run = |folder: &str, asked: usize, stage: &str| {
        train_until(&project, folder, asked, &[train[0], train[1], stage])
    };
    assert_eq!(run("planned", usize::MAX, &stage(7, ", schedule_steps = 4")), Outcome::Done);
    whole(&project, "grown", &train);
    // The stage is new here: stopped in its first step, it goes on.
    assert_eq!(run("grown", 1, &stage(4, "")), Outcome::Interrupted);
    assert_eq!(run("grown", usize::MAX, &stage(4, "")), Outcome::Done);
    assert_eq!(run("grown", 1, &stage(7, "")), Outcome::Interrupted);
    assert_eq!(run("grown", usize::MAX, &stage(7, "")), Outcome::Done);
    assert_eq!(rates(&project, "planned"), rates(&project, "grown"));
    let [planned, grown] = ["planned", "grown"].map(|folder| weights(&checkpoint(&project, folder, LAST)));
    assert!(planned == grown);
    // What was kept before is read after.
    for name in ["stage-0", "stage-1", "last", "best"] {
        project.ok(&["eval", "grown", "--checkpoint", name, "--extend", "direct", "--lengths", "L"]);
    }
}

#[test]
fn how_often_a_run_validates_and_saves_may_change() {
    let project = Project::new();
    let stage = |more: &str| format!("stage=[{{ length = 64, steps = 4{more} }}]");
    let often = [
        &*stage(", validate_every = 1, checkpoint_every = 1"),
        "train.validate_every=1",
        "train.checkpoint_every=2",
    ];
    whole(&project, "whole", &[&stage("")]);
    assert_eq!(train_until(&project, "changed", 7, &[&stage("")]), Outcome::Interrupted);
    assert_eq!(train_until(&project, "changed", 7, &often), Outcome::Interrupted);
    whole(&project, "changed", &[&stage(", validate_every = 3")]);
    let losses =
        |folder: &str| metrics(&project, folder).into_iter().map(|it| it.loss.to_bits()).collect::<Vec<_>>();
    assert_eq!(losses("whole"), losses("changed"));
    let [all, changed] = ["whole", "changed"].map(|folder| checkpoint(&project, folder, LAST));
    assert!(weights(&all) == weights(&changed) && all.meta.config_hash == changed.meta.config_hash);
    let validated: Vec<u64> =
        metrics(&project, "changed").iter().filter(|it| it.valid_loss.is_some()).map(|it| it.step).collect();
    assert_eq!(validated, [3, 4, 5, 6, 9, 10]);
}

/// The best weights of a run that goes on from before its decay are not those of a decay that it never had.
#[test]
fn the_best_weights_are_those_of_the_longer_run() {
    let project = Project::new();
    let wsd = [
        "train.schedule=wsd",
        "train.warmup=1",
        "train.decay=6",
        "train.validate_every=1",
        "train.learning_rate=0.3",
    ];
    let run = |folder: &str, steps: &str| whole(&project, folder, &[&wsd[..], &[steps]].concat());
    run("grown", "train.steps=12");
    let decayed = checkpoint(&project, "grown", BEST).meta.step;
    assert!(decayed > 6, "the decay finds better weights: {decayed}");
    let changes = [&wsd[..], &["train.steps=24"]].concat();
    assert_eq!(train_until(&project, "grown", 2, &changes), Outcome::Interrupted);
    let [last, best] = [LAST, BEST].map(|name| checkpoint(&project, "grown", name).meta);
    assert_eq!((last.step, Some(best.step)), (7, last.best.map(|best| best.step)));
    run("grown", "train.steps=24");
    run("planned", "train.steps=24");
    let [grown, planned] = ["grown", "planned"].map(|folder| checkpoint(&project, folder, BEST));
    assert!(grown.meta.step == planned.meta.step && weights(&grown) == weights(&planned));
    // A count of steps warms up alike in both: the run is the one that was planned so, its hash included.
    assert!(same(&project.path("grown").join(LAST), &project.path("planned").join(LAST)));
}

#[test]
fn the_best_weights_of_before_are_read_after() {
    let project = Project::new();
    let train = |steps: &str, more: &[&str]| {
        let rate = ["train.learning_rate=3.0", "train.final_ratio=1.0", "train.clip=1000.0"];
        let changes = [&rate[..], &["train.validate_every=1", "evaluate=[]", steps]].concat();
        project.train(&[&set(&changes), more].concat());
    };
    train("train.steps=6", &[]);
    let best = checkpoint(&project, RUN, BEST).meta.step;
    assert!(best < 6, "so large a rate makes the model worse: {best}");
    train("train.steps=8", &["--resume"]);
    assert_eq!(checkpoint(&project, RUN, BEST).meta.step, best);
    let outcome =
        project.ok(&["eval", RUN, "--checkpoint", "best", "--lengths", "L", "--extend", "direct", "--json"]);
    assert!(outcome.stdout.contains(&format!("\"step\":{best}")), "{}", outcome.stdout);
}

/// Step 10 of 8 steps and a stage is a step of the stage; of 12 steps it is one of the first, which nothing kept.
#[test]
fn kept_steps_that_are_of_another_stage_now_are_not_read() {
    let project = Project::new();
    let stage = "stage=[{ length = 64, steps = 4, keep_checkpoints = [2] }]";
    let changes = |steps| set(&[steps, "train.keep_checkpoints=[4]", stage, "evaluate=[]"]);
    project.train(&changes("train.steps=8"));
    let read = |step: &str| {
        project.run(&["eval", RUN, "--checkpoint", step, "--lengths", "L", "--extend", "direct"])
    };
    read("step-10").done();
    project.train(&[&changes("train.steps=12")[..], &["--resume"]].concat());
    read("step-4").done();
    read("step-10").refuses(1, &["step-10.safetensors` was trained as "]);
}

/// Tables and differences are of one model: rows of the end that a run had before stay in its files alone.
#[test]
fn what_was_measured_before_a_run_was_made_longer_is_left_out_and_named() {
    let project = Project::new();
    let yarn = ["eval", RUN, "--extend", "yarn", "--lengths", "L,2L"];
    let reported = || project.ok(&["report", RUN]).stderr;
    let is_shown = || project.text(&format!("{RUN}/results.md")).contains("| yarn |");
    project.train(&set(&["train.steps=4"]));
    project.ok(&yarn);
    assert!(!reported().contains("trained further") && is_shown());
    project.train(&[&set(&["train.steps=8"])[..], &["--resume"]].concat());
    let said = reported();
    let note = "`small-0` was trained further: tables and charts by length show step 8, and leave out what was measured only \
                before, at step 4 (2 rows). `longwave eval runs/small-0 --protocol fixed_target --split test --lengths 32,64 --extend ";
    assert!(said.contains(note) && !is_shown(), "{said}");
    project.refuses(
        2,
        &["compare", &format!("{RUN}:yarn"), &format!("{RUN}:direct")],
        &[
            "`runs/small-0:yarn` was measured so at step 4 alone, and was trained to step 8 since",
            "hint: measure it again: `longwave eval RUN --lengths 32,64 --extend yarn`",
        ],
    );
    // At L `yarn` reads as trained.
    project.ok(&yarn);
    assert!(!reported().contains("trained further") && is_shown());
    let compared = project.ok(&[
        "compare",
        &format!("{RUN}:yarn"),
        &format!("{RUN}:direct"),
        "--lengths",
        "L",
        "--json",
    ]);
    assert!(compared.stdout.contains("\"difference\":0.0"), "{}", compared.stdout);
}

/// Without `--resume` the hint says whether it would help; with it, no step that is trained is taken back.
#[test]
fn a_run_is_made_longer_and_not_shorter() {
    let project = Project::new();
    project.train(&set(&["evaluate=[]", "train.steps=4"]));
    project.train(&[&set(&["evaluate=[]", "train.steps=8"])[..], &["--resume"]].concat());
    let said = |changes: &[&str], more: &[&str]| {
        project.refused(2, &[&["train", "small.toml", "--device", "cpu"], &set(changes)[..], more].concat())
    };
    let stage = "stage=[{ length = 64, steps = 3 }]";
    for (changes, differing, hint) in [
        (
            &["train.steps=12"][..],
            "`train.steps` is 8 there and 12 here",
            "`--resume` goes on to step 12, or choose",
        ),
        (&["train.steps=8", stage], "`stage[0].", "`--resume` goes on to step 11, or choose"),
        (&["train.steps=7"], "`train.steps` is 8 there and 7 here", "choose"),
        (&["train.steps=12", "train.clip=0.5"], "`train.clip` is 1.0 there and 0.5 here", "choose"),
    ] {
        let said = said(&[&["evaluate=[]"][..], changes].concat(), &[]);
        assert!(said.contains(differing) && said.contains(": `runs/small-0` already holds a run"), "{said}");
        assert!(said.contains(&format!("\n\nhint: {hint} another folder with `--out`")), "{said}");
    }
    let said = said(&["evaluate=[]", "train.steps=7"], &["--resume"]);
    let why = "`train` of 8 steps cannot go on to 7: 8 of them are trained already";
    let hint = "hint: a run can be made longer; for a shorter one, train from the first step into another folder, with `--out`";
    assert!(said.contains(why) && said.contains(hint), "{said}");
    assert_eq!(checkpoint(&project, RUN, LAST).meta.step, 8);
}

#[test]
fn what_cannot_be_made_longer_or_is_no_schedule_is_refused() {
    let project = Project::new();
    project.train(&set(&["evaluate=[]", "train.steps=4", "train.final_ratio=0.0"]));
    project.train(&[&set(&["evaluate=[]", "train.steps=8"])[..], &["--out", "short"]].concat());
    let ended = ["--resume", "--out", "short"];
    let cases: [(&str, &[&str], &[&str]); 7] = [
        (
            "a_cosine_that_has_come_to_nothing",
            &["evaluate=[]", "train.steps=8", "train.final_ratio=0.0"],
            &["--resume"],
        ),
        ("a_cosine_that_would_be_cut_off", &["evaluate=[]", "train.steps=6"], &ended),
        ("a_schedule_of_other_steps", &["evaluate=[]", "train.steps=12", "train.schedule_steps=10"], &ended),
        ("a_warm_up_above_the_steps", &["train.warmup=7"], &["--out", "new"]),
        (
            "a_warm_up_above_the_steps_of_a_stage",
            &["train.warmup=4", "stage=[{ length = 64, steps = 3 }]"],
            &["--out", "new"],
        ),
        (
            "a_decay_without_room",
            &["train.schedule=wsd", "train.warmup=3", "train.decay=4"],
            &["--out", "new"],
        ),
        ("a_schedule_longer_than_the_run", &["train.schedule_steps=7"], &["--out", "new"]),
    ];
    for (name, changes, more) in cases {
        let arguments = [&["train", "small.toml", "--device", "cpu"], &set(changes)[..], more].concat();
        insta::assert_snapshot!(name, project.refused(2, &arguments));
    }
    assert!(!project.exists("new"));
}
