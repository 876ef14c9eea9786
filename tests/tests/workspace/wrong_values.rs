//! Every key with values of every wrong kind: what the user reads is in the words of a config.

use longwave_core::Error;
use longwave_experiment::Config;
use longwave_study::Study;
use std::path::Path;
use toml::{Table, Value};

/// Values of every kind, most of which are wrong anywhere.
fn values() -> Vec<Value> {
    let text = "v = [3, -1, 1.5, true, 'word', '', [], [1, 'x'], [[1]], {}, { kind = 3 }, { kind = 'x' }, { kind = 'rope', x \
                = 1 }, { x = 1 }, 1979-05-27, nan]";
    let mut table: Table = text.parse().unwrap();
    table.remove("v").unwrap().as_array().unwrap().clone()
}

/// A way into a document: keys and places in lists.
type Steps = Vec<String>;

/// All ways into a document, also to its tables and lists.
fn ways(value: &Value, at: &Steps, all: &mut Vec<Steps>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (step, value) in below {
        let way = [at.clone(), vec![step]].concat();
        ways(value, &way, all);
        all.push(way);
    }
}

fn replaced(document: &Table, way: &Steps, value: &Value) -> Table {
    let mut whole = Value::Table(document.clone());
    let mut place = &mut whole;
    for step in way {
        place = match place {
            Value::Table(table) => table.get_mut(step).unwrap(),
            Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
            _ => unreachable!(),
        };
    }
    *place = value.clone();
    whole.as_table().unwrap().clone()
}

/// Words of the program and of its libraries that no message may hold.
const FOREIGN: [&str; 24] = [
    "struct ",
    "enum ",
    "tuple",
    "newtype",
    "unit variant",
    "unknown variant",
    "identifier",
    "invalid",
    "untagged",
    "usize",
    "u64",
    "u32",
    "u8",
    "i64",
    "f64",
    "expected",
    "must be a sequence",
    "must be a map",
    "must be an array",
    "must be option",
    "did not match",
    "missing field",
    "unknown field",
    "duplicate field",
];

/// Whether a word has the form of a type's name, as `DataConfig`; those of encodings end in a capital letter.
fn is_type_name(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && letters.next().is_some_and(|second| second.is_ascii_lowercase())
        && word.chars().skip(2).any(|letter| letter.is_ascii_uppercase())
        && word.chars().last().is_some_and(|last| last.is_ascii_lowercase())
}

/// What is wrong with a message.
fn fault(error: &Error) -> Option<String> {
    let text = error.to_string();
    let foreign = FOREIGN.iter().find(|word| text.contains(*word));
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    if foreign.is_some() || words.any(is_type_name) || error.exit_code() != 2 {
        return Some(format!("{} ({})", text.replace('\n', " "), error.exit_code()));
    }
    None
}

/// Reads a document with every value at every place, and gives the number of rejections and the faults of their messages.
fn try_all(document: &Table, read: &dyn Fn(Table) -> Result<(), Error>) -> (usize, Vec<String>) {
    let mut all = Vec::new();
    ways(&Value::Table(document.clone()), &Vec::new(), &mut all);
    let (mut rejected, mut faults) = (0, Vec::new());
    for way in all {
        for value in values() {
            if let Err(error) = read(replaced(document, &way, &value)) {
                rejected += 1;
                faults.extend(fault(&error));
            }
        }
    }
    (rejected, faults)
}

#[test]
fn no_name_of_a_type_reaches_the_user_of_a_config() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let names = [
        "rope",
        "copy",
        "rnope",
        "rope-pi",
        "kerple",
        "complex_order",
        "transformer_xl_memory",
        "pose",
        "learned",
    ];
    let (mut rejected, mut faults) = (0, Vec::new());
    for name in names {
        let path = folder.join(format!("{name}.toml"));
        let resolved = Config::load(&path, &[]).unwrap().to_table().unwrap();
        let written: Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        for document in [resolved, written] {
            let (more, found) = try_all(&document, &|document| Config::from_table(document).map(|_| ()));
            rejected += more;
            faults.extend(found);
        }
    }
    faults.sort();
    faults.dedup();
    assert_eq!(faults, [""; 0]);
    assert!(rejected > 5_000, "{rejected}");
}

#[test]
fn no_name_of_a_type_reaches_the_user_of_a_study() {
    let text = "name = 's'\nbase = 'b'\nseeds = 2\nthreads = 1\ndevices = ['cpu']\nstore = 'x'\n[set]\ntrain.accumulation = 1\n\
                [[axis]]\nkey = 'train.steps'\nvalues = [1, 2]\n[[axis]]\nname = 'e'\npoints = [{ label = 'a' }]\n\
                [[evaluate]]\nlengths = ['L']\nonly = { e = 'a' }\n[[claim]]\nsays = 'a, direct < a, ntk at L'\ntolerance = 0.1\n";
    let base: Table = "name = 'b'\nposition = 'rope'\ndata.corpus = 'c'".parse().unwrap();
    let document: Table = text.parse().unwrap();
    let read = |document: Table| Study::from_table(document, &|_| Ok(base.clone()));
    read(document.clone()).unwrap();
    let (rejected, faults) = try_all(&document, &|document| read(document).map(|_| ()));
    assert_eq!(faults, [""; 0]);
    assert!(rejected > 100, "{rejected}");
    let huge = read(replaced(&document, &vec!["seeds".to_owned()], &Value::Integer(i64::MAX))).unwrap_err();
    assert_eq!(huge.exit_code(), 2, "{huge}");
}

#[test]
fn type_names_are_told_from_names_of_encodings() {
    for name in ["DataConfig", "EvaluateConfig", "TokenizerConfig", "OneOrMany"] {
        assert!(is_type_name(name), "{name}");
    }
    for name in ["RoPE", "YaRN", "ALiBi", "PoSE", "FoX", "Written", "L", "TOML", "xPos"] {
        assert!(!is_type_name(name), "{name}");
    }
}
