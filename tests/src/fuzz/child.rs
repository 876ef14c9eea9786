//! The process in which a reader reads: it counts time and memory of each input, and catches panics.

use crate::mutate::{Dictionary, mutate};
use crate::readers::{self, Reader, Workplace};
use longwave_bench::peak_memory::peak;
use longwave_core::Result;
use longwave_core::random::Stream;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest that an input may take.
const LONGEST: Duration = Duration::from_secs(1);
/// The most bytes that an input may hold at once.
const MOST: u64 = 512 << 20;

/// What the last panic said.
static SAID: Mutex<String> = Mutex::new(String::new());

/// The inputs of a reader by their numbers: first the real ones, then changed ones.
pub(crate) struct Inputs {
    reader: &'static Reader,
    seed: u64,
    seeds: Vec<Vec<u8>>,
    words: Dictionary,
}

impl Inputs {
    pub(crate) fn new(reader: &'static Reader, seed: u64, samples: &Path) -> Self {
        let seeds = readers::seeds(reader, samples);
        assert!(!seeds.is_empty(), "`{}` has nothing to begin with", reader.name);
        let words = Dictionary::of(&seeds);
        Self { reader, seed, seeds, words }
    }

    pub(crate) fn get(&self, index: u64) -> Vec<u8> {
        if let Some(seed) = self.seeds.get(index as usize) {
            return seed.clone();
        }
        let mut stream = Stream::new(self.seed, self.reader.name, index);
        mutate(&mut stream, &self.seeds, &self.words, self.reader.is_text)
    }
}

/// `READER SEED FROM UNTIL SAMPLES WORKPLACE`: reads inputs, and writes the number of the one at hand into `at` and those
/// that fail into `failed`.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let [reader, seed, from, until, samples, workplace] = arguments else { return ExitCode::from(2) };
    let number = |text: &String| text.parse::<u64>().unwrap();
    let reader = readers::find(reader).unwrap();
    let (samples, folder) = (PathBuf::from(samples), PathBuf::from(workplace));
    let inputs = Inputs::new(reader, number(seed), &samples);
    let mut place = Workplace::new(&samples, &folder);
    panic::set_hook(Box::new(|panic| {
        let mut said = SAID.lock().unwrap();
        *said = panic.to_string().replace('\n', " ");
    }));
    let at = File::create(folder.join("at")).unwrap();
    let mut failed = File::options().append(true).create(true).open(folder.join("failed")).unwrap();
    let mut accepted = File::create(folder.join("accepted")).unwrap();
    let mut count = 0;
    for index in number(from)..number(until) {
        at.write_all_at(&index.to_le_bytes(), 0).unwrap();
        let input = inputs.get(index);
        match fault(reader, &mut place, &input) {
            Ok(is_accepted) => count += u64::from(is_accepted),
            Err(what) => writeln!(failed, "{index} {what}").unwrap(),
        }
    }
    write!(accepted, "{count}").unwrap();
    ExitCode::SUCCESS
}

/// Reads an input; gives whether the reader accepts it.
fn fault(reader: &Reader, place: &mut Workplace, input: &[u8]) -> Result<bool, String> {
    let mut fastest = Duration::MAX;
    // The machine may be at other work: only an input that is slow three times is slow, and from the second time on the
    // processor's time counts, not the clock's.
    for again in [false, true, true] {
        let (begin, worked) = (Instant::now(), again.then(|| cpu_time("self")).flatten());
        let (result, held) = peak(|| panic::catch_unwind(AssertUnwindSafe(|| (reader.read)(place, input))));
        let worked = worked.and_then(|before| cpu_time("self").map(|now| now.saturating_sub(before)));
        fastest = fastest.min(worked.unwrap_or_else(|| begin.elapsed()));
        let Ok(result) = result else {
            return Err(format!("panics: {}", SAID.lock().unwrap()));
        };
        if let Some(held) = held.filter(|held| *held > MOST) {
            return Err(format!("holds {} MiB", held >> 20));
        }
        if let Err(error) = &result
            && (error.message().trim().is_empty() || !matches!(error.exit_code(), 1 | 2))
        {
            return Err(format!("has no message: {error:?}"));
        }
        if fastest <= LONGEST {
            return Ok(result.is_ok());
        }
    }
    Err(format!("takes {:.1} s", fastest.as_secs_f64()))
}

/// The processor's time that a process has taken, in its own code and in the kernel; `None` where the system does not tell.
pub(crate) fn cpu_time(process: &str) -> Option<Duration> {
    // Ticks of user and system time are the 12th and 13th field behind the name, in parentheses; a second has 100 of them.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let [user, system] = [fields.get(11)?, fields.get(12)?].map(|ticks| ticks.parse::<u64>().ok());
    Some(Duration::from_millis(10 * (user? + system?)))
}

/// The inputs that failed so far, and why.
pub(crate) fn failed(workplace: &Path) -> Vec<(u64, String)> {
    let text = fs::read_to_string(workplace.join("failed")).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(index, what)| (index.parse().unwrap(), what.to_owned()))
        .collect()
}
