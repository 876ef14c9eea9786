//! One measurement, as a line of JSON or of a table.

use crate::clock::Timing;
use longwave_core::{Result, written};
use serde::Serialize;
use std::fmt::Write;

/// What was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The values of an operation.
    Forward,
    /// Its gradient alone.
    Backward,
    /// A whole training step: values, gradients and the update of the weights.
    Step,
}

/// One measurement. What makes no sense for it is absent from its JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// `rope`, `attention`, `ops`, `train`, `eval`, `growth` or `scaling`.
    pub bench: &'static str,
    /// What of it: sizes, layouts, encodings.
    pub case: String,
    /// What was timed.
    pub direction: Direction,
    /// The device in words.
    pub device: String,
    /// Threads of the CPU.
    pub threads: usize,
    /// Numbers that go in, and as many that come out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
    /// The median run, in seconds.
    pub seconds: f64,
    /// The fastest run, in seconds.
    pub seconds_min: f64,
    /// The least that must be read and written, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The bytes a second over those of a copy of as many bytes, timed in turn with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_fraction: Option<f64>,
    /// What `reference_seconds` is the time of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<&'static str>,
    /// The median run of the reference, timed in turn with it, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_seconds: Option<f64>,
    /// The reference's time over this one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// The most memory held beyond what was held before, in bytes; counted on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_peak_bytes: Option<u64>,
    /// Kernels that one run launches; counted on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launches: Option<usize>,
    /// Bytes that one run copies to the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploaded: Option<u64>,
}

impl Record {
    /// A record of a time alone.
    pub fn new(
        bench: &'static str,
        case: impl Into<String>,
        direction: Direction,
        device: &str,
        timing: &Timing,
    ) -> Self {
        Self {
            bench,
            case: case.into(),
            direction,
            device: device.to_owned(),
            threads: rayon::current_num_threads(),
            elements: None,
            tokens: None,
            seconds: timing.median,
            seconds_min: timing.least,
            bytes: None,
            copy_fraction: None,
            reference: None,
            reference_seconds: None,
            speedup: None,
            tokens_per_second: None,
            peak_bytes: timing.peak_bytes,
            reference_peak_bytes: None,
            launches: None,
            uploaded: None,
        }
    }

    #[must_use]
    pub fn moving(mut self, elements: usize, bytes: u64, copy: Option<&Timing>) -> Self {
        (self.elements, self.bytes) = (Some(elements), Some(bytes));
        self.copy_fraction = copy.map(|copy| copy.median / self.seconds);
        self
    }

    #[must_use]
    pub fn reading(mut self, tokens: usize) -> Self {
        self.tokens = Some(tokens);
        self.tokens_per_second = Some(tokens as f64 / self.seconds);
        self
    }

    /// With what it is compared to.
    #[must_use]
    pub fn against(mut self, name: &'static str, reference: Option<&Timing>) -> Self {
        if let Some(reference) = reference {
            self.reference = Some(name);
            self.reference_seconds = Some(reference.median);
            self.speedup = Some(reference.median / self.seconds);
            self.reference_peak_bytes = reference.peak_bytes;
        }
        self
    }

    pub fn json(&self) -> Result<String> {
        written::json("a measurement", self)
    }
}

/// The heading of a table of records.
pub fn heading() -> String {
    format!(
        "{:34} {:8} {:>10} {:>10} {:>10} {:>7} {:>8} {:>10} {:>10} {:>10}",
        "case", "", "size", "ms", "ms least", "copy", "speedup", "tokens/s", "peak MiB", "reference"
    )
}

/// One line of a table of records, under [`heading`].
pub fn row(record: &Record) -> String {
    let direction = match record.direction {
        Direction::Forward => "forward",
        Direction::Backward => "backward",
        Direction::Step => "step",
    };
    let shown = |value: Option<String>| value.unwrap_or_default();
    let mebibytes =
        |bytes: Option<u64>| shown(bytes.map(|bytes| format!("{:.1}", bytes as f64 / 1_048_576.0)));
    format!(
        "{:34} {direction:8} {:>10} {:>10.3} {:>10.3} {:>7} {:>8} {:>10} {:>10} {:>10}",
        record.case,
        shown(record.elements.or(record.tokens).map(|size| size.to_string())),
        record.seconds * 1e3,
        record.seconds_min * 1e3,
        shown(record.copy_fraction.map(|fraction| format!("{:.0}%", 100.0 * fraction))),
        shown(record.speedup.map(|speedup| format!("{speedup:.2}x"))),
        shown(record.tokens_per_second.map(|speed| format!("{speed:.0}"))),
        mebibytes(record.peak_bytes),
        mebibytes(record.reference_peak_bytes),
    )
    .trim_end()
    .to_owned()
}

/// What the columns of a table mean, for the records shown.
pub fn legend(records: &[Record]) -> String {
    let mut text = String::from("ms: the median run, and the least one");
    if records.iter().any(|record| record.copy_fraction.is_some()) {
        text += "\ncopy: bytes a second over those of the device's own copy of as many, timed in turn";
    }
    for record in records {
        if let Some(launches) = record.launches {
            // Writing into a string cannot fail.
            let bytes = record.uploaded.unwrap_or_default();
            let _ = write!(text, "\n{}: {launches} launches of kernels, {bytes} bytes uploaded", record.case);
        }
    }
    let mut named: Vec<&str> = records.iter().filter_map(|record| record.reference).collect();
    named.sort_unstable();
    named.dedup();
    for name in named {
        let _ = write!(text, "\nspeedup: over {name}, timed in turn; `reference` is its peak memory in MiB");
    }
    text
}

pub fn table(records: &[Record]) -> String {
    let rows = records.iter().map(row).collect::<Vec<_>>().join("\n");
    format!("{}\n{rows}\n\n{}\n", heading(), legend(records))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alone;

    fn record() -> Record {
        let timing = |median, peak| Timing { median, least: 0.5 * median, peak_bytes: peak };
        Record::new("rope", "rotate, half", Direction::Backward, "CPU", &timing(2e-3, Some(3 << 20)))
            .moving(1 << 20, 8 << 20, Some(&timing(1e-3, None)))
            .against("plain operations", Some(&timing(8e-3, Some(12 << 20))))
    }

    #[test]
    fn the_fields_have_their_names_and_units() {
        let _alone = alone();
        let value: serde_json::Value = serde_json::from_str(&record().json().unwrap()).unwrap();
        let number = |key: &str| value[key].as_f64().unwrap();
        assert_eq!((value["bench"].as_str(), value["direction"].as_str()), (Some("rope"), Some("backward")));
        assert_eq!((number("seconds"), number("seconds_min")), (2e-3, 1e-3));
        assert_eq!((number("elements"), number("bytes")), (1_048_576.0, 8_388_608.0));
        // The copy takes half the time for the same bytes, the reference four times as long.
        assert_eq!((number("copy_fraction"), number("speedup")), (0.5, 4.0));
        assert_eq!((number("reference_seconds"), number("peak_bytes")), (8e-3, 3_145_728.0));
        assert!(value.get("tokens").is_none() && value.get("tokens_per_second").is_none());
    }

    #[test]
    fn tokens_give_a_speed() {
        let _alone = alone();
        let timing = Timing { median: 0.5, least: 0.4, peak_bytes: None };
        let record = Record::new("train", "rope", Direction::Step, "CPU", &timing).reading(4096);
        assert_eq!((record.tokens, record.tokens_per_second), (Some(4096), Some(8192.0)));
        let value = record.json().unwrap();
        assert!(value.contains("\"direction\":\"step\"") && !value.contains("peak_bytes"), "{value}");
    }

    #[test]
    fn the_table_shows_milliseconds_and_shares() {
        let _alone = alone();
        let text = table(&[record()]);
        let line = text.lines().nth(1).unwrap();
        for part in ["rotate, half", "backward", "1048576", "2.000", "1.000", "50%", "4.00x", "3.0", "12.0"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(text.contains("over plain operations"), "{text}");
    }
}
