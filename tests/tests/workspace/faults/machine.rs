//! What a machine does to a run: a folder that is read-only or removed, files of the future, two processes.
//!
//! The folder is made read-only in a mount namespace of its own (`unshare --map-root-user --mount`). Where the system allows none, the
//! test says so and passes, unless `LONGWAVE_REQUIRE_MOUNTS=1`.

use super::files;
use super::training::{ARGUMENTS, ends};
use crate::common::{Outcome, PROGRAM, Project, wait_until};
use longwave_experiment::{Config, DeviceChoice, Experiment, Machine, Silent};
use std::fs::{self, File};
use std::process::{Child, Command, Output};
use std::time::{Duration, SystemTime};

/// Runs a script as root of a namespace in which it may mount; `None` where the system allows none.
pub(super) fn with_mounts(project: &Project, script: &str) -> Option<Output> {
    let shell = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-euc", script, PROGRAM]);
        command.current_dir(project.path("")).env("NO_COLOR", "1");
        command.env("LONGWAVE_CACHE", project.path(".cache")).output()
    };
    let probe = shell("mkdir -p probe && mount -t tmpfs -o size=64k none probe");
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        let required = std::env::var("LONGWAVE_REQUIRE_MOUNTS").is_ok_and(|value| value == "1");
        assert!(!required, "this system allows no mounts: {probe:?}");
        println!("left out: this system allows no mounts in a namespace of one's own: {probe:?}");
        return None;
    }
    Some(shell(script).unwrap())
}

fn trained() -> Project {
    let project = Project::new();
    project.ok(&ARGUMENTS);
    project
}

#[test]
fn a_read_only_folder_is_left_as_it_is() {
    let project = trained();
    let before = ends(&project);
    let script = "mount --bind runs runs\nmount -o remount,bind,ro runs\n\
        for arguments in 'train small.toml --device cpu --out runs/other' 'eval runs/small-0 --lengths 128' \
        'report runs/small-0' 'export runs/small-0 runs/exported'; do\n\
        \"$0\" $arguments 2>> messages && exit 9; echo \"--- $?\" >> messages; done\n\
        \"$0\" eval runs/small-0 --lengths 128 --out rows\n\"$0\" report runs/small-0 --out page";
    let Some(output) = with_mounts(&project, script) else { return };
    assert!(output.status.success(), "{output:?}");
    let messages = project.text("messages");
    let messages: Vec<&str> = messages.split_terminator("--- 1\n").collect();
    assert_eq!(messages.len(), 4, "{messages:?}");
    for message in messages {
        assert!(message.contains("its file system is read-only"), "{message}");
        assert!(message.contains("\n\nhint: ") && message.contains("`--out`"), "{message}");
    }
    assert!(project.exists("rows/results.jsonl") && project.exists("page/report.html"));
    assert!(ends(&project) == before);
    project.ok(&["report", "runs/small-0"]);
}

/// Starts a training that takes long, and waits until it has written metrics.
fn long_training(project: &Project) -> Child {
    let child = project.start(&[&ARGUMENTS[..], &["--set", "train.steps=100000"]].concat());
    let metrics = project.path("runs/small-0/metrics.jsonl");
    wait_until("a step", || fs::read(&metrics).is_ok_and(|lines| !lines.is_empty()));
    child
}

#[test]
fn a_folder_that_is_removed_under_a_training_is_named_and_not_made_again() {
    let project = Project::new();
    let child = long_training(&project);
    fs::rename(project.path("runs/small-0"), project.path("away")).unwrap();
    let Outcome { code, stderr: said, .. } = Outcome::at_end(child);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("`runs/small-0` is gone: it was removed or renamed"), "{said}");
    assert!(said.contains("\n\nhint: bring it back"), "{said}");
    assert!(!project.exists("runs/small-0"), "the folder would be no run");
    // Begun again, it ends as ever.
    project.ok(&ARGUMENTS);
    assert!(ends(&project) == ends(&trained()));
}

#[test]
fn a_run_is_trained_by_one_process_at_a_time() {
    let project = Project::new();
    let mut child = long_training(&project);
    project.refuses(
        1,
        &[&ARGUMENTS[..], &["--set", "train.steps=100000"]].concat(),
        &["another process is training `runs/small-0`", "\n\nhint: wait until it has ended"],
    );
    assert!(child.try_wait().unwrap().is_none(), "the first one goes on");
    child.kill().unwrap();
    child.wait().unwrap();
    // Of two that begin together with nothing there, one trains, and the folder ends as that of one alone.
    let project = Project::new();
    let both = [project.start(&ARGUMENTS), project.start(&ARGUMENTS)];
    let codes = both.map(|child| child.wait_with_output().unwrap().status.code());
    assert!(codes.contains(&Some(0)), "{codes:?}");
    project.ok(&ARGUMENTS);
    assert!(ends(&project) == ends(&trained()));
}

/// Opens a training of `small.toml` in this process.
fn opened<'a>(project: &Project, steps: u64, machine: &'a Machine) -> Experiment<'a> {
    let changes = ["evaluate=[]".to_owned(), format!("train.steps={steps}")];
    let mut config = Config::load(&project.path("small.toml"), &changes).unwrap();
    config.run.data.corpus = project.path("corpus").to_string_lossy().into_owned();
    config.run.data.cache = project.path(".cache").to_string_lossy().into_owned();
    Experiment::open(config, &project.path("run"), true, machine, &mut Silent).unwrap()
}

#[cfg(unix)]
#[test]
fn who_comes_second_writes_nothing() {
    let project = Project::new();
    let machine = Machine::open(DeviceChoice::Cpu, None).unwrap();
    let told = |experiment: Experiment<'_>| experiment.train(&mut Silent).unwrap_err().to_string();
    let (first, second) = (opened(&project, 6, &machine), opened(&project, 7, &machine));
    let lock = first.run.lock().unwrap();
    assert!(told(second).contains("another process is training"));
    assert!(!project.exists("run/config.toml"));
    drop(lock);
    // Looked at before the first one begins, and trained after it.
    let third = opened(&project, 7, &machine);
    first.train(&mut Silent).unwrap();
    let config = project.read("run/config.toml");
    let said = told(third);
    assert!(said.contains("run` already holds a run: another process has just begun it"), "{said}");
    assert_eq!(project.read("run/config.toml"), config);
    // So is a run that is made longer.
    let (fourth, fifth) = (opened(&project, 8, &machine), opened(&project, 9, &machine));
    fourth.train(&mut Silent).unwrap();
    let config = project.read("run/config.toml");
    let said = told(fifth);
    assert!(said.contains("another process has just changed the run in"), "{said}");
    assert_eq!(project.read("run/config.toml"), config);
}

/// After the clock jumped back, all files are of the future.
#[test]
#[expect(clippy::disallowed_methods, reason = "time stamps of files are the system's")]
fn files_of_the_future_change_nothing() {
    let whole = trained();
    fs::copy(
        whole.path("runs/small-0/checkpoints/previous.safetensors"),
        whole.path("runs/small-0/checkpoints/last.safetensors"),
    )
    .unwrap();
    fs::remove_file(whole.path("runs/small-0/results.jsonl")).unwrap();
    let future = SystemTime::now() + Duration::from_hours(24 * 365);
    for name in files(&whole.path("")) {
        File::options().append(true).open(name).unwrap().set_modified(future).unwrap();
    }
    whole.ok(&ARGUMENTS);
    assert!(ends(&whole) == ends(&trained()));
}
