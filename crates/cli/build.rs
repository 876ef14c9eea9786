//! Puts the configs and studies into the program, so that it runs them without a checkout.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let mut code = String::new();
    for (list, folder) in [("CONFIGS", "configs"), ("STUDIES", "experiments")] {
        let folder = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = fs::read_dir(&folder).expect("the folder lies beside the crates");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
        paths.sort();
        // Writing into a string cannot fail.
        let _ = writeln!(code, "const {list}: &[(&str, &str)] = &[");
        for path in paths {
            let name = path.file_name().expect("a file has a name").to_string_lossy();
            let path = fs::canonicalize(&path).expect("the file is there");
            let _ = writeln!(code, "    ({name:?}, include_str!({:?})),", path.display().to_string());
        }
        code += "];\n";
    }
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("shipped.rs");
    fs::write(out, code).expect("cargo's folder can be written");
}
