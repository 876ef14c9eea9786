//! Does the runs of a plan that are missing, each in a process of its own.
//!
//! Each run has its own process, so that a run that is killed or aborts ends no other run, and so that its threads and
//! its numbers do not depend on the runs beside it.
//!
//! A child holds its run's lock while it works and writes the rows, or the reason of a failure, itself.
//! Its stdin is a pipe from here: when this process ends, however it ends, the child reads the end of
//! the pipe, writes a checkpoint and stops. It reports its progress on stdout, one JSON line at a time.

use crate::plan::{Job, Plan};
use crate::store::{Failure, Store, Work};
use crate::task::{self, StudyTask};
use longwave_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt::{Display, Formatter};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The exit code of a task whose run another process is working on.
pub const BUSY: u8 = 75;

const PAUSE: Duration = Duration::from_millis(20);
/// Time between two checks of the runs that another process works on.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub struct Options {
    pub program: PathBuf,
    pub jobs: usize,
    pub tasks: PathBuf,
    pub threads: usize,
    /// Devices; each run goes to the one that fewest runs are at work on.
    pub devices: Vec<String>,
}

/// What a task is at work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its text becomes tokens.
    Data,
    /// Training: `[train]` is 0, the first `[[stage]]` 1.
    Training(usize),
    /// The validation split decides what an evaluation leaves open.
    Choosing,
    Evaluating,
}

impl Display for Phase {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Data => formatter.write_str("data"),
            Self::Training(0) => formatter.write_str("training"),
            Self::Training(stage) => write!(formatter, "stage {stage}"),
            Self::Choosing => formatter.write_str("choosing"),
            Self::Evaluating => formatter.write_str("evaluating"),
        }
    }
}

/// How far a task has come with what it is at work on; a line of its stdout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sign {
    pub what: Phase,
    pub done: u64,
    pub total: u64,
    pub message: String,
}

/// What happens, for the caller to show. A run is named by its index in the plan.
#[derive(Clone, Debug)]
pub enum Event {
    Started(usize),
    Sign(usize, Sign),
    Finished(usize, Duration),
    Failed(usize, Failure),
    Elsewhere(usize),
}

struct Worker {
    index: usize,
    /// Place of its device among the options'.
    device: usize,
    /// Bytes that the log had before it.
    log: u64,
    child: Child,
    /// Closing it asks the child to stop.
    stdin: Option<ChildStdin>,
    start: Instant,
}

struct Execution<'a> {
    plan: &'a Plan,
    store: &'a Store,
    options: &'a Options,
    waiting: VecDeque<usize>,
    elsewhere: Vec<usize>,
    looked: Instant,
    workers: Vec<Worker>,
    sender: Sender<(usize, Sign)>,
    signs: Receiver<(usize, Sign)>,
    stop: &'a dyn Fn() -> bool,
    show: &'a mut dyn FnMut(Event),
}

/// The places of the runs that are neither finished nor failed, each work once.
pub fn missing(plan: &Plan, store: &Store) -> Vec<usize> {
    let open = plan.distinct().into_iter().filter(|(_, job)| store.work(job) == Work::Open);
    open.map(|(index, _)| index).collect()
}

/// Does the runs in `wanted`, as many at a time as `options.jobs`, until all are finished or failed,
/// here or by another process. `stop` is called all the time, `show` for each event.
pub fn execute(
    plan: &Plan,
    store: &Store,
    options: &Options,
    wanted: &[usize],
    stop: &dyn Fn() -> bool,
    show: &mut dyn FnMut(Event),
) -> Result<()> {
    let (sender, signs) = channel();
    let mut execution = Execution {
        plan,
        store,
        options,
        waiting: wanted.iter().copied().collect(),
        elsewhere: Vec::new(),
        looked: Instant::now(),
        workers: Vec::new(),
        sender,
        signs,
        stop,
        show,
    };
    let done = execution.run();
    // Whatever happened here, no child is left alone.
    for worker in &mut execution.workers {
        worker.stdin = None;
    }
    for worker in &mut execution.workers {
        if let Err(error) = worker.child.wait() {
            tracing::warn!("a run's process cannot be waited for: {error}");
        }
    }
    done
}

impl<'a> Execution<'a> {
    fn run(&mut self) -> Result<()> {
        loop {
            if (self.stop)() {
                return Err(Error::interrupted(
                    "stopped; what was measured is kept, and runs have checkpoints",
                )
                .hint("the same command goes on where this one stopped"));
            }
            self.look_elsewhere()?;
            while self.workers.len() < self.options.jobs
                && let Some(index) = self.waiting.pop_front()
            {
                self.begin(index)?;
            }
            if self.workers.is_empty() && self.waiting.is_empty() && self.elsewhere.is_empty() {
                return Ok(());
            }
            if let Ok((index, sign)) = self.signs.recv_timeout(PAUSE) {
                (self.show)(Event::Sign(index, sign));
            }
            while let Ok((index, sign)) = self.signs.try_recv() {
                (self.show)(Event::Sign(index, sign));
            }
            self.reap()?;
        }
    }

    fn job(&self, index: usize) -> Result<&'a Job> {
        self.plan.runs[index].job.as_ref().map_err(Clone::clone)
    }

    /// Starts a run, unless it is done or another process has it.
    fn begin(&mut self, index: usize) -> Result<()> {
        if self.settled(index)? {
            return Ok(());
        }
        let job = self.job(index)?;
        // Released at once, and taken by the child. If another process is faster, the child ends with `BUSY`.
        if self.store.try_lock(&job.key)?.is_none() {
            (self.show)(Event::Elsewhere(index));
            self.elsewhere.push(index);
            return Ok(());
        }
        let device = &self.options.devices[index % self.options.devices.len()];
        let task =
            StudyTask::new(&self.plan.runs[index], job, self.store.folder(), self.options.threads, device)?;
        let path = task.write(&self.options.tasks)?;
        let at_work: Vec<usize> = self.workers.iter().map(|worker| worker.device).collect();
        let free = free_device(self.options.devices.len(), &at_work);
        let log = std::fs::metadata(self.store.log(&job.key)).map_or(0, |about| about.len());
        let (child, stdin) = self.spawn(index, &path, &job.key, &self.options.devices[free])?;
        self.workers.push(Worker { index, device: free, log, child, stdin, start: Instant::now() });
        (self.show)(Event::Started(index));
        Ok(())
    }

    /// Shows a run that another process has finished, or that failed there; false if it is open.
    fn settled(&mut self, index: usize) -> Result<bool> {
        let job = self.job(index)?;
        match self.store.work(job) {
            Work::Open => return Ok(false),
            Work::Finished => (self.show)(Event::Finished(index, Duration::ZERO)),
            Work::Failed => {
                if let Some(failure) = self.store.failure(job)? {
                    (self.show)(Event::Failed(index, failure));
                }
            }
        }
        Ok(true)
    }

    fn spawn(
        &self,
        index: usize,
        file: &Path,
        key: &str,
        device: &str,
    ) -> Result<(Child, Option<ChildStdin>)> {
        let log = self.store.log(key);
        let failed = |error: std::io::Error| Error::io("write", &log, &error);
        let stderr = OpenOptions::new().create(true).append(true).open(&log).map_err(failed)?;
        let mut child = Command::new(&self.options.program)
            .args(task::arguments(file))
            .args(["--follow", "--device", device])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .map_err(|error| Error::io("start", &self.options.program, &error))?;
        if let Some(stdout) = child.stdout.take() {
            let signs = self.sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
                    // Other lines are for people, and nobody reads them here.
                    let Ok(sign) = serde_json::from_str(&line) else { continue };
                    if signs.send((index, sign)).is_err() {
                        return;
                    }
                }
            });
        }
        let stdin = child.stdin.take();
        Ok((child, stdin))
    }

    fn reap(&mut self) -> Result<()> {
        let mut place = 0;
        while place < self.workers.len() {
            let ended = self.workers[place].child.try_wait();
            let ended = ended.map_err(|error| Error::failed(format!("a run cannot be watched: {error}")))?;
            let Some(status) = ended else {
                place += 1;
                continue;
            };
            let worker = self.workers.remove(place);
            self.ended(&worker, status)?;
        }
        Ok(())
    }

    fn ended(&mut self, worker: &Worker, status: ExitStatus) -> Result<()> {
        let index = worker.index;
        let job = self.job(index)?;
        match self.store.work(job) {
            Work::Finished => (self.show)(Event::Finished(index, worker.start.elapsed())),
            Work::Failed => {
                self.settled(index)?;
            }
            Work::Open if status.code() == Some(i32::from(BUSY)) => {
                (self.show)(Event::Elsewhere(index));
                self.elsewhere.push(index);
            }
            // Ctrl-C reaches the children at the same time as this process.
            Work::Open if (self.stop)() || status.code() == Some(130) => self.elsewhere.push(index),
            Work::Open => {
                let failure = unexplained(status, &self.store.log(&job.key), worker.log);
                self.store.fail(job, &failure)?;
                (self.show)(Event::Failed(index, failure));
            }
        }
        Ok(())
    }

    /// Checks from time to time the runs that another process has: they may be done, or free again.
    fn look_elsewhere(&mut self) -> Result<()> {
        if self.elsewhere.is_empty() || self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        for index in std::mem::take(&mut self.elsewhere) {
            if self.settled(index)? {
                continue;
            }
            if self.store.try_lock(&self.job(index)?.key)?.is_some() {
                self.waiting.push_back(index);
            } else {
                self.elsewhere.push(index);
            }
        }
        Ok(())
    }
}

/// The device out of `count` that fewest runs are at work on, the first of several; `at_work` holds the
/// device of each run.
fn free_device(count: usize, at_work: &[usize]) -> usize {
    let runs = |device: &usize| at_work.iter().filter(|taken| *taken == device).count();
    (0..count).min_by_key(runs).unwrap_or(0)
}

/// The failure of a process that wrote no reason. Its own output begins at byte `from` of the log.
fn unexplained(status: ExitStatus, log: &Path, from: u64) -> Failure {
    let hint = Some(format!("what it wrote is in `{}`", log.display()));
    let words = last_words(log, from).map_or(String::new(), |words| format!(": {words}"));
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            // The kernel ends what takes too much memory with SIGKILL.
            let why = if signal == 9 { ": killed, perhaps because memory ran out" } else { words.as_str() };
            return Failure { reason: format!("its process ended by signal {signal}{why}"), hint };
        }
    }
    Failure { reason: format!("its process ended without a message ({status}){words}"), hint }
}

/// The message of Rust where a process ends by a panic or without memory.
fn last_words(log: &Path, from: u64) -> Option<String> {
    let bytes = std::fs::read(log).ok()?;
    let text = String::from_utf8_lossy(bytes.get(usize::try_from(from).ok()?..)?).into_owned();
    let mut lines = text.lines();
    let found =
        lines.find(|line| line.starts_with("memory allocation of") || line.contains("' panicked at "))?;
    // The message of a panic follows the line that says where.
    let said = if found.contains("panicked at") { lines.next().unwrap_or(found) } else { found };
    Some(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_go_to_the_device_that_is_free() {
        assert_eq!([free_device(1, &[0, 0]), free_device(3, &[]), free_device(3, &[0])], [0, 0, 1]);
        // The second one's run has ended.
        assert_eq!([free_device(3, &[0, 2]), free_device(2, &[0, 1, 1])], [1, 0]);
    }

    #[test]
    fn a_sign_is_read_back_and_its_phase_has_a_name() {
        let phases =
            [Phase::Data, Phase::Training(0), Phase::Training(2), Phase::Choosing, Phase::Evaluating];
        for what in phases {
            let sign = Sign { what, done: 1, total: 2, message: "x".to_owned() };
            assert_eq!(serde_json::from_str::<Sign>(&serde_json::to_string(&sign).unwrap()).unwrap(), sign);
        }
        assert_eq!(
            phases.map(|it| it.to_string()),
            ["data", "training", "stage 2", "choosing", "evaluating"]
        );
    }

    #[test]
    fn the_last_words_are_those_of_this_process() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let earlier = "memory allocation of 1 bytes failed\n";
        let panic = "thread 'main' panicked at a.rs:1:2:\nno such thing\nstack backtrace:\n";
        std::fs::write(&log, format!("{earlier}task x\n{panic}")).unwrap();
        assert_eq!(last_words(&log, earlier.len() as u64).unwrap(), "no such thing");
        assert_eq!(last_words(&log, 0).unwrap(), earlier.trim());
        assert_eq!(last_words(&log, 1000), None);
    }
}
