//! How large the project is.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// Lines of Rust by what they are.
#[derive(Clone, Copy, Default)]
struct Lines {
    code: usize,
    /// `//!` and `///`.
    docs: usize,
    /// Files and modules of tests, with all that stands in them.
    tests: usize,
}

impl Lines {
    fn all(self) -> usize {
        self.code + self.docs + self.tests
    }

    fn plus(self, other: Self) -> Self {
        Self { code: self.code + other.code, docs: self.docs + other.docs, tests: self.tests + other.tests }
    }

    /// Those of a file; a module `tests` at the end of a file counts to its last line.
    fn of(path: &Path, text: &str) -> Self {
        let is_test = path.components().any(|part| part.as_os_str() == "tests")
            || path.file_name().is_some_and(|name| name == "tests.rs");
        let mut lines = Self::default();
        let mut in_tests = is_test;
        let mut rest = text.lines().peekable();
        while let Some(line) = rest.next() {
            let begins = line.trim() == "#[cfg(test)]"
                && rest.peek().is_some_and(|next| next.contains("mod ") && next.trim_end().ends_with('{'));
            in_tests |= begins;
            let line = line.trim_start();
            match () {
                () if in_tests => lines.tests += 1,
                () if line.starts_with("//!") || line.starts_with("///") => lines.docs += 1,
                () => lines.code += 1,
            }
        }
        lines
    }
}

/// The files with this ending in a folder and below, without what is built.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                files(&path, ending, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    Ok(())
}

/// The lines of an item from the one that begins with `head` to the brace that ends it.
fn item<'a>(text: &'a str, head: &str) -> impl Iterator<Item = &'a str> {
    let from = text.find(head).unwrap_or(text.len());
    text[from..].lines().take_while(|line| *line != "}")
}

/// Methods of a trait, or public fields of a struct.
fn members(root: &Path, file: &str, head: &str, begins: &str) -> io::Result<usize> {
    let text = fs::read_to_string(root.join(file))?;
    let lines = item(&text, head);
    Ok(lines.filter(|line| line.starts_with("    ") && line.trim_start().starts_with(begins)).count())
}

/// The table of counts.
pub(crate) fn table(root: &Path) -> io::Result<String> {
    let mut paths = Vec::new();
    for folder in ["crates", "tests", "examples", "xtask"] {
        files(&root.join(folder), "rs", &mut paths)?;
    }
    let (mut all, mut kernels, mut long) = (Lines::default(), Lines::default(), 0);
    for path in &paths {
        let text = fs::read_to_string(path)?;
        let lines = Lines::of(path.strip_prefix(root).unwrap_or(path), &text);
        all = all.plus(lines);
        if path.starts_with(root.join("crates/kernels")) {
            kernels = kernels.plus(lines);
        }
        long += usize::from(text.lines().count() > 400);
    }
    let mut pages = Vec::new();
    files(root, "md", &mut pages)?;
    let bytes = |path: &Path| fs::metadata(path).map(|metadata| metadata.len());
    let markdown = pages.iter().map(|page| bytes(page)).sum::<io::Result<u64>>()?;
    let hooks = members(root, "crates/position/src/encoding/mod.rs", "pub trait Position", "fn ")?;
    let capabilities =
        members(root, "crates/position/src/encoding/capabilities.rs", "pub struct Capabilities", "pub ")?;
    let kib = |bytes: u64| format!("{:.1} KiB", bytes as f64 / 1024.0);
    let shown = |lines: Lines| {
        let Lines { code, docs, tests } = lines;
        format!("{} ({code} code, {docs} doc comments, {tests} tests)", lines.all())
    };
    let rows = [
        ("lines of Rust", shown(all)),
        ("of these in `crates/kernels`", shown(kernels)),
        ("files of Rust; those above 400 lines", format!("{}; {long}", paths.len())),
        ("hooks of `Position`; capabilities", format!("{hooks}; {capabilities}")),
        ("`DESIGN.md`; all Markdown", format!("{}; {}", kib(bytes(&root.join("DESIGN.md"))?), kib(markdown))),
    ];
    let mut table = String::new();
    for [what, count] in iter::once(["what", "count"])
        .chain([["---", "---"]])
        .chain(rows.iter().map(|(what, count)| [*what, count.as_str()]))
    {
        let _ = writeln!(table, "| {what} | {count} |");
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let text =
            "//! About.\n\nuse a;\n\n/// A function.\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    // x\n}\n";
        let Lines { code, docs, tests } = Lines::of(Path::new("src/a.rs"), text);
        assert_eq!((code, docs, tests), (5, 2, 4));
        let Lines { code, docs, tests } = Lines::of(Path::new("src/tests.rs"), text);
        assert_eq!((code, docs, tests), (0, 0, 11));
    }

    #[test]
    fn members_end_with_their_item() {
        let text = "pub trait A {\n    fn a();\n    /// b\n    fn b() {\n        fn inner() {}\n    }\n}\nfn c() {}\n";
        let found = item(text, "pub trait A").filter(|line| line.trim_start().starts_with("fn ")).count();
        assert_eq!(found, 3);
    }
}
