//! `longwave init`: writes a config to begin with, or lists those there are.

use crate::configs::stem;
use crate::output::{data, status};
use crate::shipped::{FileKind, purpose};
use clap::Args;
use longwave_core::error::nearest;
use longwave_core::text::quoted;
use longwave_core::{Error, Result, file};
use std::fs;
use std::path::{Path, PathBuf};

/// List the configs and studies that the program carries, or write one to begin with
#[derive(Args, Debug)]
#[command(visible_alias = "new")]
pub(crate) struct Arguments {
    /// The config or study to write, such as `rope.toml`; all are listed unless given
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The file to write; NAME in the current folder unless given
    #[arg(long, value_name = "FILE", requires = "name")]
    out: Option<PathBuf>,
    /// Overwrite the file if it is there
    #[arg(long, requires = "name")]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Some(name) = &arguments.name else { return data(&list()) };
    let (kind, name, text) = find(name)?;
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from(name));
    let shown = out.display();
    if out.is_dir() {
        return Err(Error::usage(format!("`{shown}` is a folder"))
            .hint(format!("name the file in it: `--out {}`", quoted(&out.join(name).to_string_lossy()))));
    }
    // The new file would stand in the place of the link or the device itself.
    if fs::symlink_metadata(&out).is_ok_and(|there| !there.is_file()) {
        return Err(Error::usage(format!("`{shown}` is a link, a pipe or a device, and no regular file"))
            .hint("choose another file with `--out`; of a link, the one that it leads to"));
    }
    if out.exists() && !arguments.force {
        return Err(Error::usage(format!("`{shown}` is there already"))
            .hint("choose another file with `--out`, or overwrite it with `--force`"));
    }
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    let name = file::folder_name(&stem);
    file::write(&out, named(text, &name).as_bytes())?;
    let word = quoted(&out.to_string_lossy());
    // Another file may get the same name in this way, and with it the same folder.
    let called = if name == stem { String::new() } else { format!(", named `{name}`") };
    status(&match kind {
        FileKind::Config => format!("wrote {shown}{called}; `longwave train --config {word}` trains it"),
        FileKind::Study => format!("wrote {shown}{called}; `longwave study {word}` runs it"),
    });
    Ok(())
}

/// The text with a `name` after that of its file, so that its runs have a folder of their own.
fn named(text: &str, name: &str) -> String {
    let is_name = |line: &&str| line.starts_with("name = \"");
    match text.lines().find(is_name) {
        Some(line) => text.replacen(line, &format!("name = \"{name}\""), 1),
        None => text.to_owned(),
    }
}

/// A config or a study of the program; `.toml` may be left out.
fn find(name: &str) -> Result<(FileKind, &'static str, &'static str)> {
    let wanted = if Path::new(name).extension().is_some() { name.to_owned() } else { format!("{name}.toml") };
    let all = || {
        [FileKind::Config, FileKind::Study]
            .into_iter()
            .flat_map(|kind| kind.shipped().iter().map(move |(name, text)| (kind, *name, *text)))
    };
    all().find(|(_, known, _)| *known == wanted).ok_or_else(|| {
        let error = Error::usage(format!("the program carries no `{name}`"));
        match nearest(stem(&wanted), all().map(|(_, known, _)| stem(known))) {
            Some(near) => error.hint(format!("did you mean `{near}.toml`?")),
            None => error.hint("`longwave init` lists what there is"),
        }
    })
}

fn list() -> String {
    let section = |kind: FileKind, title: &str| {
        let files = kind.shipped();
        let wide = files.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines = files.iter().map(|(name, text)| format!("  {name:<wide$}  {}\n", purpose(text)));
        format!("{title}\n\n{}", lines.collect::<String>())
    };
    section(FileKind::Config, "Configs (`longwave train --config NAME`):")
        + "\n"
        + &section(FileKind::Study, "Studies (`longwave study NAME`):")
        + "\n`longwave init NAME` writes one to a file.\n"
}
