//! Options that several commands share, and how their values are read.

use crate::interrupt;
use crate::output::status;
use clap::{Args, ValueEnum};
use longwave_core::{Error, Result};
use longwave_experiment::Machine;
use longwave_kernels::DeviceChoice;
use longwave_position::ExtensionConfig;
use longwave_train::run::CheckpointId;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::{Table, Value};

// Where and how tensors are computed; no doc comment, since clap would show it as the description of the command.
#[derive(Args, Debug)]
pub(crate) struct Compute {
    /// Device: `auto` takes a real GPU if there is one and the CPU otherwise; also `cpu`, `gpu`, `gpu:N`
    #[arg(long, default_value_t, value_name = "auto|cpu|gpu|gpu:N", value_parser = parsed::<DeviceChoice>)]
    pub(crate) device: DeviceChoice,
    /// Threads of the CPU; as many as there are cores unless given
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Kernels: `fused` where the device has them, or the plain tensor operations they are held against
    #[arg(long, value_enum, default_value_t, value_name = "KERNELS")]
    pub(crate) kernels: Kernels,
}

// A trained run, how it is computed, and what is printed: `eval` and `generate`.
#[derive(Args, Debug)]
pub(crate) struct RunOptions {
    /// A run's folder, such as `runs/rope-0`
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Which checkpoint to read, alone: `last` unless given, `previous` (the one before it), `best` (by validation), or the end of a
    /// stage: `stage-0` (`[train]`), `stage-1`, ..
    #[arg(long, value_name = "NAME", value_parser = parsed::<CheckpointId>)]
    pub(crate) checkpoint: Option<CheckpointId>,
    /// Print JSON lines with all fields
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) compute: Compute,
}

// The config of a command; no doc comment, since clap would show it as the description of the command.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgument {
    /// Config file; a bare name is also looked up in `configs/` and among the program's own. `-` reads it from stdin
    #[arg(value_name = "CONFIG")]
    file: Option<PathBuf>,
    /// The same, as an option
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

impl ConfigArgument {
    pub(crate) fn given(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }

    /// The config that is named, without which the command cannot work.
    pub(crate) fn required(&self) -> Result<&Path> {
        self.given().ok_or_else(|| {
            Error::usage("no config is named")
                .hint("name one, such as `rope.toml`; `longwave init` lists those of the program")
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kernels {
    /// Fused kernels
    #[default]
    Fused,
    /// Plain tensor operations
    Reference,
}

impl Compute {
    /// Opens the device, and listens for Ctrl-C from here on.
    pub(crate) fn open(&self) -> Result<Machine> {
        longwave_kernels::use_reference(self.kernels == Kernels::Reference);
        let machine = Machine::open_on_main_thread(self.device, self.threads)?;
        interrupt::install()?;
        Ok(machine)
    }
}

/// Shows which device was taken.
pub(crate) fn introduce(machine: &Machine) {
    status(&format!("device    {}, {} threads", machine.device_name, machine.threads));
}

/// Reads the value of an option; clap shows the message.
pub(crate) fn parsed<T: FromStr<Err = Error>>(text: &str) -> std::result::Result<T, String> {
    text.parse().map_err(|error: Error| error.message().to_owned())
}

/// Kinds and paths separated by commas, one inline TOML table, or one JSON object.
pub(crate) fn extensions(text: &str) -> Result<Vec<Value>> {
    if !text.trim_start().starts_with('{') {
        return Ok(text.split(',').map(|kind| Value::String(kind.trim().to_owned())).collect());
    }
    let parsed = format!("extend = {text}").parse::<Table>().ok();
    // A second line would be a key beside it.
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("extend"));
    if let Some(value) = parsed {
        return Ok(vec![value]);
    }
    // An object of another program's config, as it stands there.
    if serde_json::from_str::<serde_json::Value>(text).is_ok() {
        return Ok(vec![Value::String(text.to_owned())]);
    }
    Err(Error::usage(format!("`{text}` is neither a TOML table nor JSON")).hint(
        "write `{ kind = \"linear\", scale = 4.0 }`, or `{ \"rope_type\": \"linear\", \"factor\": 4.0 }`",
    ))
}

/// The one extension of a command that reads with one; as trained unless given.
pub(crate) fn one_extension(text: Option<&str>) -> Result<ExtensionConfig> {
    ExtensionConfig::from_value(&one_value("--extend", text.unwrap_or("direct"))?, "--extend")
}

/// The one kind or table that an option takes.
pub(crate) fn one_value(option: &str, text: &str) -> Result<Value> {
    let [value] = <[Value; 1]>::try_from(extensions(text)?).map_err(|_| {
        Error::usage(format!("`{option}` takes one extension here")).hint("give one at a time")
    })?;
    Ok(value)
}

/// The names in a sentence: the last after `or`.
pub(crate) fn one_of(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_kinds_or_a_table() {
        assert_eq!(extensions("direct, ntk").unwrap().len(), 2);
        assert!(extensions("{ kind = \"linear\", scale = 4.0 }").unwrap()[0].is_table());
        assert!(extensions("{ \"rope_type\": \"yarn\", \"factor\": 4.0 }").unwrap()[0].is_str());
        assert!(extensions("{ kind = ").is_err());
        assert!(extensions("{ kind = \"linear\" }\nscale = 4.0").is_err());
    }
}
