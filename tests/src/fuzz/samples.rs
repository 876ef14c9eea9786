//! Real files that inputs begin with: a small run with everything that its folder holds, and its exports.

use burn::tensor::Device;
use longwave_experiment::{Config, DeviceChoice, Machine, Silent};
use longwave_study::{Plan, Store, Study, saved};
use longwave_train::Trained;
use longwave_train::run::CheckpointId;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use toml::Table;

/// A run of a few steps on bytes.
const RUN: &str = "
name = 'small'
data = { corpus = 'CORPUS', tokenizer = TOKENIZER }
model = { layers = 1, width = 8, heads = 2 }
position = 'rope'
train = { length = 16, steps = 4, batch_tokens = 32, validate_every = 2, validation_tokens = 32, checkpoint_every = 2 }
";

/// The same with everything that the forms of files have room for.
const MORE: &str = "
stage = [{ length = 32, steps = 2, extend = 'yarn' }]
evaluate = [
    { lengths = ['L', '2L'], extend = ['direct', 'ntk'], windows_per_document = 1 },
    { lengths = ['2L'], protocol = 'by_position', windows_per_document = 1 },
    { lengths = ['2L'], protocol = 'sliding', windows_per_document = 1 },
]
";

/// The config that studies of inputs begin with.
pub(crate) const BASE: &str = "
name = 'base'
data = { corpus = 'corpus', tokenizer = { kind = 'bytes' } }
model = { layers = 2, width = 8, heads = 2 }
position = 'rope'
train = { length = 16, steps = 4, batch_tokens = 32 }
evaluate = [{ lengths = ['L', '2L'], extend = ['direct', 'ntk'] }]
";

/// A study that has every kind of key.
pub(crate) const STUDY: &str = "
name = 's'
base = 'rope.toml'
seeds = 2
best = '2L'
threads = 1
devices = ['cpu']
[set]
train.clip = 1.0
[[axis]]
name = 'encoding'
key = 'position'
values = ['rope', 'alibi']
[[axis]]
name = 'e'
points = [{ label = 'a', train.clip = 0.5 }, { label = 'b' }]
[[claim]]
says = 'rope, a, ntk < rope, a at 2L'
tolerance = 0.1
";

/// A folder in memory where there is one: nothing of it has to last.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.unwrap()
}

/// The corpus of samples, and of the reader of token files.
pub(crate) fn corpus(folder: &Path) -> PathBuf {
    let corpus = folder.join("corpus");
    for (split, documents) in [("train", 3), ("valid", 1), ("test", 2)] {
        fs::create_dir_all(corpus.join(split)).unwrap();
        for index in 0..documents {
            let text = format!("The wave {index} is long, and its phase turns. ").repeat(12);
            fs::write(corpus.join(split).join(format!("{index}.txt")), text).unwrap();
        }
    }
    corpus
}

/// Trains the runs and exports them, below `folder`.
pub(crate) fn make(folder: &Path) {
    let corpus = corpus(folder);
    let machine = Machine::open(DeviceChoice::Cpu, None).unwrap();
    let bpe = "{ kind = 'bpe', vocab_size = 270 }";
    for (name, tokenizer, more) in [("plain", "{ kind = 'bytes' }", ""), ("staged", bpe, MORE)] {
        let text = RUN.replace("CORPUS", &corpus.to_string_lossy()).replace("TOKENIZER", tokenizer) + more;
        let mut config = Config::parse(&text).unwrap();
        config.run.data.cache = folder.join("cache").to_string_lossy().into_owned();
        let run = folder.join(name);
        longwave_experiment::run(config.clone(), &run, false, &machine, &mut Silent).unwrap();
        let trained = Trained::open(&run, CheckpointId::Last, &Device::flex()).unwrap();
        let document = config.to_table().unwrap();
        longwave_hub::export(&folder.join(format!("{name}-exported")), &run, &trained, &document, None)
            .unwrap();
    }
    let base: Table = BASE.parse().unwrap();
    let study = Study::from_table(STUDY.parse().unwrap(), &|_| Ok(base.clone())).unwrap();
    let plan = Plan::new(&study, "cpu", &mut |_| Ok("content".to_owned()));
    saved::save(&folder.join("study"), &study, &plan).unwrap();
    let store = Store::new(&folder.join("store"));
    let (index, job) = plan.jobs().next().unwrap();
    fs::create_dir_all(folder.join("store/state")).unwrap();
    for event in ["started", "trained", "finished"] {
        store.note(job, event, Some("cpu")).unwrap();
    }
    let task =
        longwave_study::StudyTask::new(&plan.runs[index], job, &folder.join("store"), 1, "cpu").unwrap();
    task.write(&folder.join("tasks")).unwrap();
}
