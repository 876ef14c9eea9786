//! Starts the process that reads, starts it again after an input that ends it, and keeps the inputs that fail.

use crate::child::{Inputs, cpu_time, failed};
use crate::{Options, readers, samples};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// An input that takes so much of the processor's time ends its process.
const STUCK: Duration = Duration::from_secs(30);
/// And one that takes so long by the clock: it waits for something.
const WAITS: Duration = Duration::from_mins(5);
/// Inputs of one process: what they leave behind in memory stays small.
const PIECE: u64 = 50_000;
/// The most inputs that are kept of one reader; the search then goes on with the next reader.
const MOST_KEPT: usize = 50;

/// Runs the readers; fails where an input does.
pub(crate) fn run(options: &Options) -> ExitCode {
    let scratch = samples::scratch();
    let samples = scratch.path().join("samples");
    samples::make(&samples);
    let mut code = ExitCode::SUCCESS;
    for name in &options.readers {
        let begin = Instant::now();
        let workplace = scratch.path().join(name);
        fs::create_dir_all(&workplace).unwrap();
        let (inputs, accepted) = read(options, name, &samples, &workplace, begin);
        let found = failed(&workplace);
        keep(options, name, &samples, &found);
        println!(
            "{name:<10} {inputs} inputs, {accepted} accepted, {} failed, {:.0} s",
            found.len(),
            begin.elapsed().as_secs_f64()
        );
        if !found.is_empty() {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Lets a reader read all inputs; gives how many it read, and how many of those it accepted.
fn read(options: &Options, name: &str, samples: &Path, workplace: &Path, begin: Instant) -> (u64, u64) {
    let is_over = || options.seconds.is_some_and(|seconds| begin.elapsed().as_secs() >= seconds);
    // With a limit of time, pieces are small enough to end near it.
    let piece = if options.seconds.is_some() { 500 } else { PIECE };
    let (mut next, mut accepted) = (0, 0);
    while next < options.inputs && !is_over() && failed(workplace).len() < MOST_KEPT {
        let until = (next + piece).min(options.inputs);
        let _ = fs::remove_file(workplace.join("at"));
        let mut child = start(name, options.seed, next, until, samples, workplace);
        match watch(&mut child, workplace) {
            None => {
                next = until;
                let count = fs::read_to_string(workplace.join("accepted")).unwrap_or_default();
                accepted += count.parse::<u64>().unwrap_or(0);
            }
            Some(why) => {
                assert!(workplace.join("at").exists(), "`{name}` does not begin: {why}");
                let at = at(workplace);
                let line = format!("{at} {why}\n");
                let all = fs::read_to_string(workplace.join("failed")).unwrap_or_default();
                fs::write(workplace.join("failed"), all + &line).unwrap();
                next = at + 1;
            }
        }
    }
    (next, accepted)
}

fn start(name: &str, seed: u64, from: u64, until: u64, samples: &Path, workplace: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    // Where the shell knows limits, an allocation that no memory holds fails in this process alone.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 8388608 2>/dev/null; ulimit -c 0 2>/dev/null; exec \"$0\" \"$@\""]);
    shell.arg(program).args(["--child", name]);
    shell.args([seed, from, until].map(|number| number.to_string()));
    shell
        .arg(samples)
        .arg(workplace)
        .env("RAYON_NUM_THREADS", "1")
        .env("LONGWAVE_CACHE", workplace.join("cache"));
    shell.stdin(Stdio::null()).stdout(Stdio::null());
    shell.stderr(fs::File::create(workplace.join("stderr")).unwrap());
    shell.spawn().unwrap()
}

/// Waits for the end of a process; gives why it did not end by itself.
fn watch(child: &mut Child, workplace: &Path) -> Option<String> {
    let id = child.id().to_string();
    let worked = || cpu_time(&id).unwrap_or_default();
    let (mut last, mut since, mut before) = (u64::MAX, Instant::now(), worked());
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let said = fs::read_to_string(workplace.join("stderr")).unwrap_or_default();
            let said = said.lines().last().unwrap_or_default();
            return (!status.success()).then(|| format!("ends the process: {status}: {said}"));
        }
        let now = at(workplace);
        if now != last {
            (last, since, before) = (now, Instant::now(), worked());
        } else if worked().saturating_sub(before) > STUCK || since.elapsed() > WAITS {
            child.kill().unwrap();
            child.wait().unwrap();
            return Some(format!("takes more than {} s", STUCK.as_secs()));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The number of the input at hand.
fn at(workplace: &Path) -> u64 {
    let bytes = fs::read(workplace.join("at")).unwrap_or_default();
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Writes the inputs that failed to where they can be looked at, one of each kind, and says so.
fn keep(options: &Options, name: &str, samples: &Path, found: &[(u64, String)]) {
    let inputs = Inputs::new(readers::find(name).unwrap(), options.seed, samples);
    let mut kinds: BTreeMap<String, (u64, &str, usize)> = BTreeMap::new();
    for (index, why) in found {
        let kind = why.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        kinds.entry(kind).or_insert((*index, why, 0)).2 += 1;
    }
    for (index, why, count) in kinds.into_values() {
        fs::create_dir_all(&options.keep).unwrap();
        let path = options.keep.join(format!("{name}-{}-{index}", options.seed));
        fs::write(&path, inputs.get(index)).unwrap();
        println!("{name:<10} {} {why} ({count} times)", path.display());
    }
}
