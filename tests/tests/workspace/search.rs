//! Searches for the factors of an extension: what they find, what they refuse, and how they go on after an interruption.

use crate::common::{Project, RUN};
use serde_json::Value;

#[test]
fn an_interrupted_search_goes_on_to_the_same_end() {
    goes_on("");
}

#[test]
fn so_does_one_for_a_critical_band_by_needles() {
    goes_on("method = \"longrope2\", metric = \"needle\", ");
}

/// The real critical band and its factors, as a row holds them, obey the paper's bounds; needles decide otherwise than the
/// loss of all tokens does, and a task's answers are its needles.
#[test]
fn a_search_finds_a_critical_band() {
    let project = Project::new();
    project.train(&["--set", "evaluate=[]"]);
    let found = |keys: &str| -> Vec<f64> {
        let search = format!(
            "{{ kind = \"longrope\", search = {{ {keys}budget = 12, population = 6, parents = 3 }} }}"
        );
        let outcome = project.ok(&["eval", RUN, "--json", "--lengths", "32,64", "--extend", &search]);
        let factors = outcome.rows::<Value>()[0]["extend_config"]["long_factor"].clone();
        factors.as_array().unwrap().iter().map(|factor| factor.as_f64().unwrap()).collect()
    };
    let loss = found("method = \"longrope2\", ");
    let needle = found("method = \"longrope2\", metric = \"needle\", ");
    assert_ne!(loss, needle);
    // Of 8 bands at L = 32, all make at most ten turns, and band 2 is the first that makes less than one.
    for factors in [loss, needle] {
        assert_eq!(factors.len(), 8, "{factors:?}");
        assert!((factors[0] - 1.0).abs() < 1e-12 || factors[0] >= 2.0, "{factors:?}");
        assert!(
            factors.is_sorted() && factors[2..].iter().all(|factor| (2.0..=4.0).contains(factor)),
            "{factors:?}"
        );
        let below = factors[2].sqrt();
        assert!((factors[1] - below).abs() < 1e-12 || factors[1] >= 2.0, "{factors:?}");
    }
    let refused = |search: &str| {
        let search = format!("{{ kind = \"longrope\", search = {{ {search} }} }}");
        let outcome = project.refused(2, &["eval", RUN, "--lengths", "32,64", "--extend", &search]);
        assert!(outcome.contains("hint:"), "{outcome}");
        outcome
    };
    assert!(refused("method = \"longrope3\"").contains("extend[0].search.method"));
    assert!(refused("metric = \"accuracy\"").contains("extend[0].search.metric"));
    // It would be reported on the text that it was chosen by.
    let arguments = ["eval", RUN, "--lengths", "64", "--split", "validation", "--extend"];
    project.refuses(
        2,
        &[&arguments[..], &["{ kind = \"longrope\", search = {} }"]].concat(),
        &["extend[0].search", "a search reads the validation split", "hint:"],
    );
}

/// Kills a search with these keys, goes on, and compares with one that was never stopped.
fn goes_on(keys: &str) {
    let project = Project::new();
    for folder in ["runs/whole", "runs/stopped"] {
        project.train(&["--set", "evaluate=[]", "--out", folder]);
    }
    let arguments = |folder: &str, budget: usize| -> Vec<String> {
        let search = format!("search = {{ {keys}budget = {budget}, population = 4, parents = 2 }}");
        let extend = format!("{{ kind = \"longrope\", {search} }}");
        ["eval", folder, "--device", "cpu", "--lengths", "32,64", "--extend", &extend]
            .map(str::to_owned)
            .to_vec()
    };
    let run = |folder: &str, budget: usize| {
        let arguments = arguments(folder, budget);
        project.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let tried = |folder: &str| -> Vec<String> {
        let files = std::fs::read_dir(project.path(&format!("{folder}/searches")));
        let mut files: Vec<_> = files.into_iter().flatten().map(|file| file.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        let text = files.first().map(|path| std::fs::read_to_string(path).unwrap()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    // It cannot end by itself while we look, and dies without a chance to tidy up.
    let endless = arguments("runs/stopped", 100_000);
    let mut child = project.start(&endless.iter().map(String::as_str).collect::<Vec<_>>());
    while tried("runs/stopped").len() < 5 {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = tried("runs/stopped");
    assert!(!project.exists("runs/stopped/results.jsonl"), "nothing is chosen yet");

    for folder in ["runs/stopped", "runs/whole"] {
        run(folder, 12).done();
    }
    assert_eq!(project.read("runs/stopped/results.jsonl"), project.read("runs/whole/results.jsonl"));
    // The readings tried before are still there, and none was tried twice.
    let (after, whole) = (tried("runs/stopped"), tried("runs/whole"));
    assert_eq!((after[..before.len()].to_vec(), after.len()), (before.clone(), before.len().max(13)));
    assert_eq!(whole[..], after[..13]);
    // A longer search begins with what a shorter one tried.
    assert_eq!(run("runs/whole", 20).code, Some(0));
    assert_eq!((tried("runs/whole")[..13].to_vec(), tried("runs/whole").len()), (whole, 21));
}
