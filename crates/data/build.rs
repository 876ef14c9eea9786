//! Puts the vendored corpus into the program: one list of its files, with their content.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../data/sotu");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    list(&root, &mut files);
    files.sort();
    let mut code = String::from("pub(crate) const FILES: &[(&str, &[u8])] = &[\n");
    for path in files {
        let name = path.strip_prefix(&root).expect("it lies below").to_string_lossy().replace('\\', "/");
        let path = fs::canonicalize(&path).expect("the file is there");
        // Writing into a string cannot fail.
        let _ = writeln!(code, "    ({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    code += "];\n";
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("sotu.rs");
    fs::write(out, code).expect("cargo's folder can be written");
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the corpus lies beside the crates") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}
