//! Commands in fences marked `sh` exist, with every option that they name.

use super::markdown::pages;
use super::{program, repository};
use std::collections::HashMap;
use std::path::Path;

/// Files that readers write themselves.
const READERS_OWN: [&str; 2] = ["mine.toml", "rates.toml"];

#[test]
fn commands_of_the_documentation_exist() {
    let mut helps: HashMap<String, String> = HashMap::new();
    let mut found = 0;
    for page in pages() {
        for fence in page.fences().iter().filter(|fence| fence.language == "sh") {
            for line in fence.text.replace("\\\n", " ").lines() {
                let Some(arguments) = arguments(line) else { continue };
                found += 1;
                let at = format!("{}: {line}", page.name());
                let command = subcommand(&arguments);
                let help = helps.entry(command.join(" ")).or_insert_with(|| {
                    let mut asked = command.clone();
                    asked.push("--help");
                    program(&asked)
                });
                let options = arguments.iter().filter(|word| word.starts_with("--"));
                for option in options.map(|option| option.split('=').next().unwrap()) {
                    let known =
                        help.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|word| word == option);
                    assert!(known, "{at}: there is no option {option}");
                }
                for file in arguments
                    .iter()
                    .filter(|word| Path::new(word).extension().is_some_and(|end| end == "toml"))
                {
                    let known = ["configs", "experiments", "."]
                        .iter()
                        .any(|place| repository(place).join(file).is_file());
                    assert!(known || READERS_OWN.contains(&file.as_str()), "{at}: there is no {file}");
                }
            }
        }
    }
    assert!(found > 30, "{found} commands: the walk has missed the documentation");
}

/// What stands behind the program in a line of a shell, without quotes.
fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.split(" #").next().unwrap().trim();
    let behind = [("cargo longwave ", ""), ("longwave ", ""), ("cargo train ", "train ")]
        .iter()
        .find_map(|(start, command)| Some(format!("{command}{}", line.strip_prefix(start)?)));
    let behind = behind.or_else(|| {
        let (cargo, behind) = line.split_once(" -- ")?;
        cargo.starts_with("cargo run").then(|| behind.to_owned())
    })?;
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in behind.chars() {
        match c {
            '\'' | '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    Some(words)
}

/// `bench train`, or one word.
fn subcommand(arguments: &[String]) -> Vec<&str> {
    let nested = matches!(arguments[0].as_str(), "bench" | "runs") && arguments.len() > 1;
    let words = arguments.iter().take(if nested { 2 } else { 1 });
    words.map(String::as_str).filter(|word| !word.starts_with('-')).collect()
}
