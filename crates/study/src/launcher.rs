//! Hands tasks to an engine that runs them elsewhere. Results meet in the shared store.
//!
//! An engine must see the project's folder under the same path and start tasks in it.

use crate::plan::Plan;
use crate::store::Store;
use crate::task::{self, StudyTask};
use longwave_core::text::quoted;
use longwave_core::{Error, Result, file};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

/// What a launcher needs to know of a study.
#[derive(Clone, Debug)]
pub struct Submission<'a> {
    pub name: &'a str,
    /// The study's folder, for scripts and lists.
    pub folder: &'a Path,
    pub program: &'a Path,
    pub threads: usize,
    pub devices: &'a [String],
}

#[derive(Clone, Debug)]
pub struct Ready {
    pub key: String,
    pub path: PathBuf,
    /// The command line that does it, quoted for a shell.
    pub command: String,
}

impl Ready {
    /// Which run it is and what is asked of it, `KEY-EVALUATION`: the name of its file.
    fn id(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Writes the tasks of these runs, with the command line of each.
pub fn ready(study: &Submission<'_>, plan: &Plan, store: &Store, runs: &[usize]) -> Result<Vec<Ready>> {
    let mut tasks = Vec::new();
    for &index in runs {
        let run = &plan.runs[index];
        let job = run.job.as_ref().map_err(Clone::clone)?;
        let device = &study.devices[index % study.devices.len()];
        let task = StudyTask::new(run, job, store.folder(), study.threads, device)?;
        let path = task.write(&study.folder.join("tasks"))?;
        let program = std::iter::once(study.program.as_os_str().to_owned());
        let words = program.chain(task::arguments(&path)).map(|word| quoted(&word.to_string_lossy()));
        let command = words.collect::<Vec<_>>().join(" ");
        tasks.push(Ready { key: job.key.clone(), path, command });
    }
    Ok(tasks)
}

/// Runs a template's command line once for each task, one after the other, and waits for each; what it
/// starts may go on in the background. `{command}` stands for the task's command line, `{task}` for its
/// file, `{key}` for the run's identity, `{threads}` and `{name}` for the study's. `stop` is called
/// between tasks.
pub fn command(
    study: &Submission<'_>,
    tasks: &[Ready],
    template: &str,
    store: &Store,
    stop: &dyn Fn() -> bool,
) -> Result<()> {
    if !template.contains("{command}") && !template.contains("{task}") {
        return Err(Error::value(
            "--template",
            format!("\"{template}\""),
            "it must hold `{command}` or `{task}`",
        )
        .hint("such as `--template 'hq submit --cpus {threads} -- {command}'`"));
    }
    for task in tasks {
        if stop() {
            return Err(Error::interrupted("stopped between tasks")
                .hint("the same command hands over what is still missing"));
        }
        let (path, threads) = (quoted(&task.path.to_string_lossy()), study.threads.to_string());
        let line = filled(
            template,
            &[
                ("{command}", &task.command),
                ("{task}", &path),
                ("{key}", &task.key),
                ("{threads}", &threads),
                ("{name}", study.name),
            ],
        );
        let known = store.journal_lines(&task.key)?.len();
        let status = Command::new("sh").arg("-c").arg(&line).status();
        let status = status.map_err(|error| Error::failed(format!("cannot start `sh`: {error}")))?;
        // A task that fails keeps its reason in the store; one that never began has none, and neither has one that waited when it was stopped.
        if !status.success() && !stop() && store.journal_lines(&task.key)?.len() == known {
            let cannot = matches!(status.code(), Some(126 | 127));
            let what = if cannot { "cannot be run" } else { "did not begin the run" };
            return Err(Error::failed(format!("`{line}` {what} ({status})"))
                .hint("try the command of `--template` in a shell"));
        }
    }
    Ok(())
}

/// A template with values in the place of names. Names within a value stay: a quoted path is a path. A value within quotes
/// of the template, as in `ssh node '{command}'`, is quoted once more and so ends none of them.
fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let (mut line, mut rest) = (String::new(), template);
    // The quote that the template is within, and whether the sign before was a backslash.
    let (mut quote, mut escaped) = (None, false);
    while let Some(sign) = rest.chars().next() {
        if let Some((name, value)) = values.iter().find(|(name, _)| rest.starts_with(name)) {
            line += &within(quote, value);
            (rest, escaped) = (&rest[name.len()..], false);
            continue;
        }
        match (sign, quote) {
            ('\'' | '"', None) if !escaped => quote = Some(sign),
            ('\'', Some('\'')) => quote = None,
            ('"', Some('"')) if !escaped => quote = None,
            _ => {}
        }
        escaped = sign == '\\' && !escaped && quote != Some('\'');
        line.push(sign);
        rest = &rest[sign.len_utf8()..];
    }
    line
}

/// A value as it may stand within a quote of a POSIX shell.
fn within(quote: Option<char>, value: &str) -> String {
    match quote {
        Some('\'') => value.replace('\'', "'\\''"),
        Some(_) => value.chars().fold(String::new(), |mut quoted, sign| {
            if matches!(sign, '\\' | '"' | '$' | '`') {
                quoted.push('\\');
            }
            quoted.push(sign);
            quoted
        }),
        None => value.to_owned(),
    }
}

/// Job arrays that were submitted to Slurm, kept in the study's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    arrays: Vec<Array>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Array {
    job: String,
    /// The [ids](Ready::id) of its tasks; of an array that an earlier program submitted, the keys of their runs.
    keys: Vec<String>,
}

impl Submitted {
    fn path(folder: &Path) -> PathBuf {
        folder.join("slurm.json")
    }

    fn load(folder: &Path) -> Result<Self> {
        let path = Self::path(folder);
        if !path.exists() {
            return Ok(Self::default());
        }
        serde_json::from_str(&file::read_text(&path)?)
            .map_err(|error| Error::failed(format!("`{}` is damaged: {error}", path.display())))
    }

    /// The arrays that Slurm still has a task of; the others are forgotten.
    pub fn queued(folder: &Path) -> Result<Self> {
        let mut queued = Self::default();
        for array in Self::load(folder)?.arrays {
            if is_queued(&array.job)? {
                queued.arrays.push(array);
            }
        }
        queued.save(folder)?;
        Ok(queued)
    }

    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty()
    }

    /// Whether a task is in one of the arrays. The same run, measured in another way, is another task.
    pub fn has(&self, task: &Ready) -> bool {
        let id = task.id();
        self.arrays.iter().flat_map(|array| &array.keys).any(|known| *known == id || *known == task.key)
    }

    fn save(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::failed(error.to_string()))?;
        file::write(&Self::path(folder), text.as_bytes())
    }

    /// Submits tasks as job arrays, with more options for `sbatch`; gives the job ids. At most `jobs` tasks of the study run at a time: the limit of an
    /// array counts its own tasks alone, so an array waits for the end of those before.
    pub fn submit(
        &mut self,
        study: &Submission<'_>,
        tasks: &[Ready],
        jobs: Option<usize>,
        options: &[String],
    ) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        let logs = study.folder.join("slurm");
        std::fs::create_dir_all(&logs).map_err(|error| Error::io("make", &logs, &error))?;
        for (number, part) in tasks.chunks(largest_array()).enumerate() {
            let stamp = std::process::id();
            let list = study.folder.join(format!("slurm/{stamp}-{number}.txt"));
            let lines: Vec<&str> = part.iter().map(|task| task.command.as_str()).collect();
            file::write(&list, (lines.join("\n") + "\n").as_bytes())?;
            let script = study.folder.join(format!("slurm/{stamp}-{number}.sh"));
            let before: &[Array] = if jobs.is_some() { &self.arrays } else { &[] };
            let text = batch_script(study, part.len(), jobs, before, &list, options);
            file::write(&script, text.as_bytes())?;
            let id = run("sbatch", &["--parsable", &script.to_string_lossy()])?;
            let id = id.trim().split(';').next().unwrap_or_default().to_owned();
            self.arrays.push(Array { job: id.clone(), keys: part.iter().map(Ready::id).collect() });
            self.save(study.folder)?;
            ids.push(id);
        }
        Ok(ids)
    }
}

/// States of a task at its end, as `squeue` calls them.
const ENDED: [&str; 10] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
];

/// Whether a task of a job may still run. Slurm forgets a job minutes after its end, and then calls its id invalid. Any other refusal, as while its
/// controller is away, says nothing of the job: its tasks count as queued, and are not submitted twice.
fn is_queued(job: &str) -> Result<bool> {
    static TOLD: Once = Once::new();
    match ask("squeue", &["-h", "-j", job, "-t", "all", "-o", "%T"])? {
        Ok(states) => Ok(states.split_whitespace().any(|state| !ENDED.contains(&state))),
        Err(refusal) if refusal.contains("Invalid job id") => Ok(false),
        Err(refusal) => {
            TOLD.call_once(|| {
                tracing::warn!("`squeue` refused: {refusal}; what was submitted before counts as queued");
            });
            Ok(true)
        }
    }
}

/// The script of one job array: each element does one line of the list. None begins before the end of the arrays `before`.
fn batch_script(
    study: &Submission<'_>,
    tasks: usize,
    jobs: Option<usize>,
    before: &[Array],
    list: &Path,
    options: &[String],
) -> String {
    let limit = jobs.map(|jobs| format!("%{jobs}")).unwrap_or_default();
    let more: Vec<String> = options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    let more = more.concat();
    // After the user's options, of which the last of a kind counts: the first array has them all, and the others wait for it.
    let ids: Vec<&str> = before.iter().map(|array| array.job.as_str()).collect();
    let after = if ids.is_empty() {
        String::new()
    } else {
        format!("#SBATCH --dependency=afterany:{}\n", ids.join(":"))
    };
    format!(
        "#!/bin/sh\n\
         #SBATCH --job-name={}\n\
         #SBATCH --array=0-{}{limit}\n\
         #SBATCH --ntasks=1\n\
         #SBATCH --cpus-per-task={}\n\
         #SBATCH --output={}/%A_%a.txt\n\
         {more}{after}\
         set -eu\n\
         line=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" {})\n\
         eval \"exec $line\"\n",
        study.name,
        tasks - 1,
        study.threads,
        study.folder.join("slurm").display(),
        quoted(&list.to_string_lossy()),
    )
}

/// Elements that one job array may have, as Slurm is configured; its own default where it does not say.
fn largest_array() -> usize {
    const DEFAULT: usize = 1000;
    let Ok(text) = run("scontrol", &["show", "config"]) else { return DEFAULT };
    let line = text.lines().find(|line| line.starts_with("MaxArraySize"));
    let size = line.and_then(|line| line.split('=').nth(1)?.trim().parse::<usize>().ok());
    size.map_or(DEFAULT, |size| size.saturating_sub(1).max(1))
}

fn run(program: &str, arguments: &[&str]) -> Result<String> {
    ask(program, arguments)?.map_err(|refusal| {
        Error::failed(format!("`{program}` refused: {refusal}")).hint("see `sinfo`, and `--sbatch OPTION`")
    })
}

/// What a program of Slurm says, or why it refuses.
fn ask(program: &str, arguments: &[&str]) -> Result<std::result::Result<String, String>> {
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        Error::failed(format!("cannot run `{program}`: {error}"))
            .hint("`--launcher slurm` needs an existing Slurm, and its commands on the path")
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr).trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: [String; 0] = [];

    fn study(folder: &Path) -> Submission<'_> {
        Submission { name: "s", folder, program: Path::new("/bin/longwave"), threads: 2, devices: &DEVICES }
    }

    #[test]
    fn a_value_is_not_filled_in_again() {
        let values = [("{command}", "run '{task}'"), ("{task}", "x; y")];
        assert_eq!(filled("é {command} {task} {other}", &values), "é run '{task}' x; y {other}");
    }

    #[test]
    fn a_value_ends_no_quote_of_the_template() {
        let values = [("{command}", "run 'a b' \"$c\"")];
        assert_eq!(filled("ssh x '{command}'", &values), r#"ssh x 'run '\''a b'\'' "$c"'"#);
        assert_eq!(
            filled("ssh x \"{command}\" \\'{command}", &values),
            r#"ssh x "run 'a b' \"\$c\"" \'run 'a b' "$c""#
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_template_is_filled_and_run() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out put");
        let task = Ready { key: "abc".into(), path: "t.toml".into(), command: "echo done".into() };
        let template = format!(
            "echo {{key}} {{task}} {{threads}} {{name}} > {0}; {{command}} >> {0}",
            quoted(&out.to_string_lossy())
        );
        let store = Store::new(&folder.path().join("store"));
        let run = |template: &str, stop: bool| {
            command(&study(folder.path()), std::slice::from_ref(&task), template, &store, &|| stop)
        };
        run(&template, false).unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "abc t.toml 2 s\ndone\n");
        let error = |template: &str| run(template, false).unwrap_err();
        assert!(error("true").message().contains("--template"));
        assert!(error("no-such-program {command}").message().contains("cannot be run"));
        assert!(error("exit 3 # {command}").message().contains("did not begin the run (exit status: 3)"));
        let stopped = run("true {command}", true).unwrap_err();
        assert_eq!(stopped.exit_code(), 130);
    }

    #[test]
    fn the_array_has_one_element_for_each_task() {
        let folder = Path::new("runs/studies/s");
        let array = |job: &str| Array { job: job.to_owned(), keys: Vec::new() };
        let script = |before: &[Array]| {
            batch_script(&study(folder), 3, Some(2), before, Path::new("list.txt"), &["--mem=2G".to_owned()])
        };
        let first = script(&[]);
        for line in ["#SBATCH --array=0-2%2", "#SBATCH --cpus-per-task=2", "#SBATCH --mem=2G"] {
            assert!(first.lines().any(|found| found == line), "{first}");
        }
        assert!(!first.contains("\n ") && !first.contains("dependency"), "{first}");
        let third = script(&[array("7"), array("9")]);
        assert!(third.lines().any(|found| found == "#SBATCH --dependency=afterany:7:9"), "{third}");
    }
}
