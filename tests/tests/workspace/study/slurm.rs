//! What the launcher asks of Slurm, and does with the answers. Slurm's programs are scripts here; `tests/slurm.sh` has a real one.

use super::{STUDY, project};
use crate::common::{Outcome, Project};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

/// Each keeps the script that it is given, and gives ids from 1 on.
const SBATCH: &str = "#!/bin/sh
here=$(dirname \"$0\")
id=1
while [ -e \"$here/job-$id\" ]; do id=$((id + 1)); done
cp \"$2\" \"$here/job-$id\"
echo \"$id;cluster\"
";

/// Says the states of `states`, or refuses for the reason in `refusal`.
const SQUEUE: &str = "#!/bin/sh
cd \"$(dirname \"$0\")\"
if [ -e refusal ]; then cat refusal >&2; exit 1; fi
cat states
";

/// Elements from 0 to 1.
const SCONTROL: &str = "#!/bin/sh
echo 'MaxArraySize            = 3'
";

fn with_slurm() -> Project {
    let project = project(STUDY);
    for (name, script) in [("sbatch", SBATCH), ("squeue", SQUEUE), ("scontrol", SCONTROL)] {
        let path = format!("slurm/{name}");
        project.write(&path, script);
        set_permissions(project.path(&path), Permissions::from_mode(0o755)).unwrap();
    }
    project
}

fn submit(project: &Project, more: &[&str]) -> Outcome {
    let path = format!("{}:{}", project.path("slurm").display(), std::env::var("PATH").unwrap());
    let arguments = [&["study", "two.toml", "--launcher", "slurm"][..], more].concat();
    project.run_with("PATH", &path, &arguments)
}

/// The lines of an array's script that say how many of its tasks run, and when.
fn limits(project: &Project, job: usize) -> Vec<String> {
    let script = project.text(&format!("slurm/job-{job}"));
    let is_limit = |line: &&str| line.contains("--array") || line.contains("--dependency");
    script.lines().filter(is_limit).map(str::to_owned).collect()
}

#[test]
fn jobs_limit_the_tasks_of_all_arrays_together() {
    let project = with_slurm();
    submit(&project, &["--jobs", "1"]).done();
    assert_eq!(limits(&project, 1), ["#SBATCH --array=0-1%1"]);
    assert_eq!(limits(&project, 2), ["#SBATCH --array=0-1%1", "#SBATCH --dependency=afterany:1"]);
    // Runs that are added wait for those that are queued.
    project.write("slurm/states", "PENDING\n");
    let more = ["--jobs", "3", "--set", "seeds=3", "--sbatch=--dependency=afterok:9"];
    let told = submit(&project, &more).done().stderr;
    assert!(told.contains("4 of 6 tasks are queued already"), "{told}");
    let after =
        ["#SBATCH --array=0-1%3", "#SBATCH --dependency=afterok:9", "#SBATCH --dependency=afterany:1:2"];
    assert_eq!(limits(&project, 3), after);
    // Without a limit all arrays run at once.
    let project = with_slurm();
    submit(&project, &[]).done();
    assert_eq!([1, 2].map(|job| limits(&project, job)), [["#SBATCH --array=0-1"], ["#SBATCH --array=0-1"]]);
}

#[test]
fn what_is_queued_is_a_run_and_what_is_asked_of_it() {
    let project = with_slurm();
    submit(&project, &[]).done();
    project.write("slurm/states", "PENDING\n");
    // Two of the four runs are to be read in another way.
    project.write("two.toml", &STUDY.replace("[\"linear\", \"ntk\"]", "[\"yarn\"]"));
    let told = submit(&project, &[]).done().stderr;
    assert!(told.contains("2 of 4 tasks are queued already") && told.contains("2 tasks submitted"), "{told}");
    assert!(submit(&project, &[]).done().stderr.contains("4 of 4 tasks are queued already"));
    // What an earlier program submitted is known by its runs alone.
    let path = "runs/studies/two/slurm.json";
    let mut list = project.json(path);
    for array in list["arrays"].as_array_mut().unwrap() {
        for key in array["keys"].as_array_mut().unwrap() {
            *key = key.as_str().unwrap()[..16].to_owned().into();
        }
    }
    project.write(path, &list.to_string());
    project.write("two.toml", STUDY);
    assert!(submit(&project, &[]).done().stderr.contains("4 of 4 tasks are queued already"));
}

#[test]
fn a_task_is_submitted_again_only_when_slurm_says_that_it_ended() {
    let project = with_slurm();
    submit(&project, &[]).done();
    let submitted = || (1..=9).take_while(|job| project.exists(&format!("slurm/job-{job}"))).count();
    for states in ["PENDING", "COMPLETED\nSUSPENDED", "REQUEUE_HOLD", "FAILED\nCOMPLETING", "RUNNING"] {
        project.write("slurm/states", states);
        let told = submit(&project, &[]).done().stderr;
        assert!(told.contains("4 of 4 tasks are queued already"), "{states}: {told}");
    }
    let away = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)";
    project.write("slurm/refusal", away);
    let told = submit(&project, &[]).done().stderr;
    assert!(told.contains("4 of 4 tasks are queued already"), "{told}");
    // Said once, though there are two arrays.
    assert_eq!(told.matches(away).count(), 1, "{told}");
    assert_eq!(submitted(), 2);
    project.write("slurm/refusal", "slurm_load_jobs error: Invalid job id specified");
    submit(&project, &[]).done();
    assert_eq!(submitted(), 4);
    std::fs::remove_file(project.path("slurm/refusal")).unwrap();
    project.write("slurm/states", "COMPLETED\nTIMEOUT\n");
    submit(&project, &[]).done();
    assert_eq!(submitted(), 6);
    // Slurm has lost them all.
    let told = submit(&project, &["--wait"]).refused(1);
    assert!(told.contains("4 runs ended without a result"), "{told}");
}
