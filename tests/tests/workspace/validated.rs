//! What `validate` accepts takes a step of training, and what it rejects is named by its key.
//!
//! Configs with one to three keys changed at random; `LONGWAVE_CONFIGS=10000` tries as many.

use crate::common::{CONFIG, Project};
use burn::tensor::Device;
use longwave_core::Error;
use longwave_core::random::Stream;
use longwave_experiment::{Config, DeviceChoice, Experiment, Machine, Silent, obstacles};
use longwave_train::memory_check;
use std::path::Path;
use toml::{Table, Value};

/// What configs begin with, beside the keys of the small one.
const BEGIN: [&str; 6] = [
    "position = 'rope'\n",
    "position = { kind = 'learned', table_size = '2L' }\n",
    "position = { kind = 'mixed', layers = ['alibi', { kind = 'rope', window = 'L/2' }] }\n",
    "position = 'transformer_xl'\ntrain = { positions = { kind = 'pose', max_position = '2L' } }\n",
    "position = 't5'\nstage = [{ length = 64, steps = 1 }]\n",
    "position = 'kerple'\nmodel = { norm = 'layer_norm', feed_forward = 'gelu', kv_heads = 1 }\n",
];

/// Values that are allowed somewhere, and some that are allowed nowhere.
const VALUES: &str = "v = [0, 1, 2, 3, 4, 7, 8, 16, 32, 33, 64, -1, 0.0, 0.5, 1.0, 1.5, -0.5, 1e30, true, false, 'L', '2L', 'L/2', \
    '0L', 'rope', 'alibi', 'none', 'ntk', 'direct', 'learned', 'cosine', 'wsd', 'constant', 'rms_norm', 'layer_norm', 'swiglu', 'gelu', \
    'learned', 'linear', 'softmax', 'bf16', 'f32', 'all', [], ['direct'], ['yarn', 'rerope'], ['2L'], [32, 64], [1], nan]";

fn flat(table: &Table, at: &[String], all: &mut Vec<Vec<String>>) {
    for (key, value) in table {
        let way = [at, std::slice::from_ref(key)].concat();
        match value {
            Value::Table(inner) => flat(inner, &way, all),
            Value::Array(items) if items.first().is_some_and(Value::is_table) => {
                let first = [&way[..], &["0".to_owned()]].concat();
                flat(items[0].as_table().unwrap(), &first, all);
            }
            _ => all.push(way),
        }
    }
}

fn set(table: &mut Table, way: &[String], value: Value) {
    match way {
        [last] => drop(table.insert(last.clone(), value)),
        [first, rest @ ..] => match table.get_mut(first) {
            Some(Value::Table(inner)) => set(inner, rest, value),
            Some(Value::Array(items)) => set(items[0].as_table_mut().unwrap(), &rest[1..], value),
            // An earlier change took the place of the section.
            _ => {}
        },
        [] => unreachable!(),
    }
}

/// A value like the one that stands there: half of it, or twice as much.
fn near(stream: &mut Stream, document: &Table, way: &[String]) -> Option<Value> {
    let step = |value: &Value, step: &String| match value {
        Value::Table(table) => table.get(step).cloned(),
        Value::Array(items) => items.first().cloned(),
        _ => None,
    };
    let old = way.iter().try_fold(Value::Table(document.clone()), |value, key| step(&value, key))?;
    let half = stream.below(2) == 0;
    match old {
        Value::Integer(number) => Some(Value::Integer(if half { (number / 2).max(1) } else { number * 2 })),
        Value::Float(number) => Some(Value::Float(if half { number / 2.0 } else { number * 2.0 })),
        Value::Boolean(is_on) => Some(Value::Boolean(!is_on)),
        same => half.then_some(same),
    }
}

/// What `longwave validate` checks.
fn validate(config: &Config) -> Result<(), Error> {
    let vocabulary = config.run.data.vocab_size().unwrap_or(1);
    memory_check::check(&config.run, vocabulary, &Device::flex())?;
    let found = obstacles(config)?.into_iter().flatten().flatten().next();
    found.map_or(Ok(()), |obstacle| Err(obstacle.error))
}

/// Trains a step.
fn train(config: Config, folder: &Path, machine: &Machine) -> Result<(), Error> {
    Experiment::open(config, folder, false, machine, &mut Silent)?.train(&mut Silent).map(|_| ())
}

/// What only the text, the device or the time can tell.
fn is_about_more(error: &Error) -> bool {
    [
        "no document",
        "tokens of text",
        "documents",
        "no split",
        "no file in",
        "the corpus",
        "loss NaN",
        "loss inf",
        "gradient norm",
    ]
    .iter()
    .any(|words| error.message().contains(words))
}

#[test]
fn what_validates_takes_a_step_and_what_does_not_is_named() {
    let project = Project::new();
    let machine = Machine::open(DeviceChoice::Cpu, None).unwrap();
    let count: u64 = std::env::var("LONGWAVE_CONFIGS").map_or(250, |count| count.parse().unwrap());
    let values: Table = VALUES.parse().unwrap();
    let values = values["v"].as_array().unwrap();
    let small = CONFIG
        .replace("[position]\nkind = \"rope\"\n", "")
        .replace(", \"linear\", \"ntk\"]", "]")
        .replace("\"corpus\"", &format!("{:?}", project.path("corpus")));
    let (mut trained, mut rejected) = (0, 0);
    for index in 0..count {
        let mut stream = Stream::new(3, "configs", index);
        let mut begin: Table = small.parse().unwrap();
        let more: Table = BEGIN[stream.below(BEGIN.len() as u64) as usize].parse().unwrap();
        for (section, keys) in more {
            match (begin.get_mut(&section), keys) {
                (Some(Value::Table(known)), Value::Table(keys)) => known.extend(keys),
                (_, keys) => drop(begin.insert(section, keys)),
            }
        }
        let mut document = Config::from_table(begin).unwrap().to_table().unwrap();
        let mut ways = Vec::new();
        flat(&document, &[], &mut ways);
        ways.retain(|way| {
            !["name", "corpus", "cache", "validate_every", "checkpoint_every"]
                .contains(&way.last().unwrap().as_str())
        });
        let mut changed = Vec::new();
        for _ in 0..=stream.below(3) {
            let way = ways[stream.below(ways.len() as u64) as usize].clone();
            let value = match (near(&mut stream, &document, &way), stream.below(5)) {
                (Some(value), 1..) => value,
                _ => values[stream.below(values.len() as u64) as usize].clone(),
            };
            set(&mut document, &way, value.clone());
            changed.push(format!("{} = {value}", way.join(".")));
        }
        set(&mut document, &["train".to_owned(), "steps".to_owned()], 1.into());
        let checked = Config::from_table(document).and_then(|config| validate(&config).map(|()| config));
        match checked {
            Ok(config) => {
                let folder = project.path(&format!("run-{index}"));
                match train(config, &folder, &machine) {
                    Err(error) if !is_about_more(&error) => {
                        panic!("{changed:?} validates, and then: {error}")
                    }
                    _ => trained += 1,
                }
            }
            Err(error) => {
                // A table of one key is named by its own name.
                let names = |way: &String| {
                    let way = way.split(" = ").next().unwrap();
                    way.rsplit('.').take(2).any(|key| error.to_string().contains(key))
                };
                assert!(error.exit_code() == 2 && changed.iter().any(names), "{changed:?}: {error}");
                rejected += 1;
            }
        }
    }
    assert!(trained * 5 > count && rejected * 5 > count, "{trained} {rejected}");
}

/// Checks need no drawn weights: they find the same with parameters that have shapes alone.
#[test]
fn validate_names_an_extension_that_does_not_apply() {
    let project = Project::new();
    let changes = ["--set", "position.kind=alibi", "--set", "evaluate.0.extend=[\"direct\", \"yarn\"]"];
    let validated = project.refused(2, &[&["validate", "small.toml"], &changes[..]].concat());
    assert!(validated.contains("`yarn` does not apply to `alibi`"), "{validated}");
    assert_eq!(
        validated,
        project.refused(2, &[&["train", "small.toml", "--device", "cpu"], &changes[..]].concat())
    );
}
