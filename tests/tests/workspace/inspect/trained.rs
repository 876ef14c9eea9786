//! `longwave inspect --trained`: what training made of a run, and where it attends.

use crate::common::{Project, set};
use serde_json::Value;

/// What training made of a learned table is not what it began as.
#[test]
fn a_trained_run_shows_its_parameters() {
    let project = Project::new();
    let train = ["train", "small.toml", "--set", "position={ kind = \"learned\" }", "--set", "evaluate=[]"];
    project.ok(&train);
    let shown = |arguments: &[&str]| {
        let outcome = project.ok(&[&["inspect", "runs/small-0", "--json"], arguments].concat());
        outcome.json()[0]["matrix"]["values"].clone()
    };
    let [fresh, trained] = [shown(&[]), shown(&["--trained"])];
    assert_ne!(fresh, trained);
    assert_eq!(fresh[0].as_array().unwrap().len(), trained[0].as_array().unwrap().len());
    assert_ne!(shown(&["--trained", "--checkpoint", "previous"]), trained);
    project.ok(&["inspect", "runs/small-0", "--trained", "--out", "pictures"]);
    let page = project.text("pictures/index.html");
    assert!(page.contains("<h1>small: learned after 6 steps</h1>"), "{page}");
    project.refuses(2, &["inspect", "small.toml", "--trained"], &["is a file, and not the folder of a run"]);
}

/// A small run that was trained, with keys of its config.
fn trained(changes: &[&str]) -> Project {
    let project = Project::new();
    project.train(&set(&[&["evaluate=[]"], changes].concat()));
    project
}

/// Where the run attends, as the picture of its first encoding has it.
fn attention(project: &Project, arguments: &[&str]) -> Value {
    let arguments = [&["inspect", "runs/small-0", "--trained", "--json"], arguments].concat();
    project.ok(&arguments).json()[0]["attention"].clone()
}

/// A number of a head, or of all heads of a layer.
fn share(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap()
}

/// The mean probabilities of a head by distance, with the first distance of each bin.
fn by_distance(attention: &Value, layer: usize, head: usize) -> Vec<(u64, f64)> {
    let bins = attention["distances"].as_array().unwrap();
    let given = attention["layers"][layer]["heads"][head]["probability"].as_array().unwrap();
    assert_eq!(bins.len(), given.len());
    bins.iter().zip(given).map(|(bin, p)| (bin[0].as_u64().unwrap(), p.as_f64().unwrap())).collect()
}

#[test]
fn a_trained_run_shows_where_it_attends() {
    let project = trained(&[]);
    let direct = attention(&project, &["--length", "4L"]);
    assert_eq!((&direct["split"], &direct["windows"]), (&"valid".into(), &8.into()));
    assert_eq!((&direct["tokens"], &direct["documents"]), (&serde_json::json!([128, 128]), &2.into()));
    let layers = direct["layers"].as_array().unwrap();
    assert_eq!((layers.len(), layers[0]["heads"].as_array().unwrap().len()), (2, 2));
    for layer in layers {
        let mean = &layer["mean"];
        let [within, beyond] = ["within_train_length", "beyond_train_length"].map(|name| share(mean, name));
        assert!((within + beyond - 1.0).abs() < 1e-5 && beyond > 0.2, "{mean}");
        // So soon after its beginning a model attends to everything alike: queries 64 to 127 see half of their text back.
        assert!((share(mean, "mean_distance") - 47.75).abs() < 8.0, "{mean}");
    }
    assert_eq!(direct, attention(&project, &["--length", "4L"]), "the same text each time");
    assert_ne!(direct, attention(&project, &["--length", "4L", "--extend", "ntk"]));
    // Nothing but the window: later bins are exactly empty.
    let window = attention(&project, &["--length", "4L", "--extend", "window"]);
    for (layer, head) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for (distance, given) in by_distance(&window, layer, head) {
            assert_eq!(given == 0.0, distance >= 32, "{distance}: {given}");
        }
        assert_eq!(window["layers"][layer]["heads"][head]["beyond_train_length"], 0.0);
    }
    let outcome = project.run(&["inspect", "runs/small-0", "--trained", "--length", "4L"]);
    let said = "attention by distance: mean over the queries in the second half of 8 windows of 128 tokens, from 2 documents of the \
                split `valid`\nlayer  head  mean distance  first token    last 8  within L  beyond L\n    0   all ";
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
    let outcome = project.run(&["inspect", "runs/small-0", "--trained", "--out", "pictures"]);
    assert!(outcome.code == Some(0) && project.exists("pictures/attention.svg"), "{}", outcome.stderr);
    // The config alone has attended to nothing.
    let outcome = project.run(&["inspect", "runs/small-0", "--json"]);
    assert!(outcome.code == Some(0) && !outcome.stdout.contains("\"attention\""), "{}", outcome.stdout);
    // Without the text the pictures stay.
    let why = |project: &Project, arguments: &[&str]| {
        attention(project, arguments)["why_not"].as_str().unwrap().to_owned()
    };
    let long = why(&project, &["--length", "99999"]);
    assert!(long.contains("no document of the split `valid` of `corpus` has 99999 tokens"), "{long}");
    std::fs::rename(project.path("corpus"), project.path("elsewhere")).unwrap();
    let gone = why(&project, &[]);
    assert!(gone.contains("the text that `runs/small-0` was trained on is not found"), "{gone}");
}

#[test]
fn a_penalty_bends_the_attention() {
    let project = trained(&["position=alibi"]);
    let attention = attention(&project, &["--length", "4L"]);
    // Slopes of 1/16 and 1/256, and logits of nearly 0 so soon. All queries have keys at these distances.
    for (head, slope) in [(0, 0.0625_f64), (1, 0.003_906_25)] {
        let given = by_distance(&attention, 0, head);
        for (near, far) in [(1, 9), (9, 25), (9, 60)] {
            let expected = (slope * (far - near) as f64).exp();
            let found = given[near].1 / given[far].1;
            assert!((found / expected - 1.0).abs() < 0.15, "head {head}: {near} to {far}: {found}");
        }
    }
    let means = [0, 1].map(|head| share(&attention["layers"][0]["heads"][head], "mean_distance"));
    assert!(means[0] < 0.8 * means[1], "{means:?}");
}

#[test]
fn attention_without_a_softmax_says_what_it_is() {
    let why = attention(&trained(&["model.attention=linear"]), &[])["why_not"].as_str().unwrap().to_owned();
    assert!(why.starts_with("`model.attention = \"linear\"` has no attention probabilities"), "{why}");
    let stick = attention(&trained(&["model.attention=stick_breaking", "position=none"]), &[]);
    for layer in [0, 1] {
        let mean = &stick["layers"][layer]["mean"];
        assert_eq!(mean["probability"][0], 0.0, "a query does not see its own key");
        // Shares of nearly one half: 2^-16 and less is left after 16 keys and more.
        assert!((share(mean, "nearest") - (1.0 - 0.5_f64.powi(7))).abs() < 0.02, "{mean}");
        assert!((share(mean, "mean_distance") - 2.0).abs() < 0.2, "{mean}");
    }
}

/// Each picture has the layers that read its encoding.
#[test]
fn a_stack_attends_layer_by_layer() {
    let project = trained(&["position={ kind = \"mixed\", layers = [\"rope\", \"none\"] }"]);
    let pictures = project.ok(&["inspect", "runs/small-0", "--trained", "--json"]).json();
    for (picture, kind) in [(0, "rope"), (1, "none")] {
        assert_eq!(pictures[picture]["encoding"], kind);
        let layers = pictures[picture]["attention"]["layers"].as_array().unwrap();
        assert_eq!((layers.len(), &layers[0]["index"]), (1, &picture.into()));
    }
}

#[test]
fn a_task_and_a_memory_are_read_too() {
    let task = ["data={ task = { kind = \"copy\" } }", "position=[\"rope\", \"sink_logit\"]"];
    let attention_of_task = attention(&trained(&task), &["--length", "2L"]);
    assert_eq!((&attention_of_task["unit"], &attention_of_task["windows"]), (&"sequence".into(), &8.into()));
    // Logits of nearly 0, that of the sink among them: one of 49 keys on average goes to none.
    let to_none = share(&attention_of_task["layers"][0]["mean"], "to_no_key");
    assert!((0.01..0.04).contains(&to_none), "{to_none}");
    let memory =
        trained(&["position={ kind = \"transformer_xl\", memory = 8 }", "train.sampling=sequential"]);
    for (distance, given) in by_distance(&attention(&memory, &["--length", "4L"]), 1, 0) {
        assert_eq!(given == 0.0, distance >= 40, "a segment of 32 and 8 tokens before: {distance}: {given}");
    }
}
