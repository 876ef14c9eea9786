//! `threads = "auto"`: whether many runs with a thread each, or few with several, are faster on this machine.

use super::{Launcher, Options, cores, program};
use crate::output::status;
use longwave_core::{Error, Result, written};
use longwave_study::Study;
use serde_json::Value;
use std::io::Write;
use std::process::{Child, Command, Stdio};

const SECONDS: &str = "1";

/// The threads of a run: those of the study, or the number with which all cores train most tokens a second.
pub(super) fn of_a_run(study: &Study, kind: &str, options: &Options) -> Result<usize> {
    match study.threads {
        Some(threads) => Ok(threads),
        None if options.collect || kind != "cpu" => Ok(1),
        None if options.launcher != Launcher::Local => Err(Error::value(
            "threads",
            "\"auto\"",
            "it is measured here, and the launcher has other machines",
        )
        .hint("write a number, such as `--set threads=4`")),
        None => fastest(study),
    }
}

/// Measures training steps with 1, 2, 4, .. threads a process, each time with as many processes as the cores hold.
fn fastest(study: &Study) -> Result<usize> {
    let config = written::toml("the config", &study.first_config())?;
    let candidates = std::iter::successors(Some(1), |threads| Some(threads * 2));
    let candidates = candidates.take_while(|threads| *threads < cores()).chain([cores()]);
    let mut best: Option<(usize, f64)> = None;
    for threads in candidates {
        let processes = cores() / threads;
        let speed = speed(&config, threads, processes)?;
        let runs = if processes == 1 { "1 run".to_owned() } else { format!("{processes} runs at a time") };
        status(&format!("probe     {runs} with {threads} threads: {speed:.0} tokens/s in all"));
        // Of equal ones the fewer threads: a process waits for its slowest.
        if best.is_none_or(|(_, fastest)| speed > fastest) {
            best = Some((threads, speed));
        }
    }
    Ok(best.map_or(1, |(threads, _)| threads))
}

/// Tokens a second of so many processes together.
fn speed(config: &str, threads: usize, processes: usize) -> Result<f64> {
    let program = program()?;
    let start = |_| -> Result<Child> {
        let mut child = Command::new(&program)
            .args(["bench", "train", "--alone", "--json", "--seconds", SECONDS, "--device", "cpu"])
            .args(["--threads", &threads.to_string(), "--config", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Error::io("start", &program, &error))?;
        // A child that reads nothing ends, and says why.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(config.as_bytes()));
        Ok(child)
    };
    let children: Vec<Child> = (0..processes).map(start).collect::<Result<_>>()?;
    let mut sum = 0.0;
    for child in children {
        let output = child
            .wait_with_output()
            .map_err(|error| Error::failed(format!("a probe cannot be watched: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let record = text.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let Some(speed) = record.and_then(|record| record["tokens_per_second"].as_f64()) else {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.lines().find(|line| line.starts_with("error")).unwrap_or("no reason was given");
            return Err(Error::failed(format!("`threads = \"auto\"` cannot be measured: {why}"))
                .hint("write a number, such as `threads = 1`"));
        };
        sum += speed;
    }
    Ok(sum)
}
