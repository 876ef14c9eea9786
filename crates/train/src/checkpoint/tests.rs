//! Checkpoints are read back as they were written, and what is wrong with one is named.

use super::*;
use crate::parameters::tests::{model, model_with};

/// Of two parts, two layers and three tokens.
fn memories(device: &Device) -> Vec<SegmentMemory> {
    let layer = |add: f64| Tensor::<3>::ones([2, 3, 4], device).mul_scalar(add);
    [1.0, 5.0].map(|add| SegmentMemory::new(4).holding(vec![layer(add), layer(add + 1.0)])).to_vec()
}

fn saved(folder: &Path, name: &str) -> PathBuf {
    let device = Device::flex();
    let model = model(&device);
    let optimizer = Optimizer::new(&TrainConfig::default(), &parameters::list(&model), &device);
    let path = folder.join(name);
    let updates = optimizer.updates.clone();
    let meta = Meta { updates, ..Meta::new(7, "abc", Some(Best { step: 5, loss: 2.5 }), Vec::new()) };
    save(&path, &model, Some(&optimizer), &memories(&device), &meta).unwrap();
    path
}

#[test]
fn reads_back_what_was_written_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), "a");
    let device = Device::flex();
    let loaded = Checkpoint::load(&path).unwrap();
    assert_eq!(loaded.meta.step, 7);
    let empty = parameters::replace(model(&device), |_, old| old.zeros_like());
    let restored = loaded.weights(empty, &device).unwrap();
    let optimizer = loaded.optimizer(&TrainConfig::default(), &restored, &device).unwrap();
    let again = folder.path().join("b");
    let memories = loaded.memories(vec![SegmentMemory::new(4); 2], &device).unwrap();
    assert_eq!(memories[1].tokens(), 3);
    save(&again, &restored, Some(&optimizer), &memories, &loaded.meta).unwrap();
    assert_eq!(fs::read(path).unwrap(), fs::read(again).unwrap());
}

/// As version 0.1.0 wrote it first: with the number of steps that updated nothing in place of the updates of each parameter.
fn of_an_earlier_version(folder: &Path, stages: Vec<StageReading>) -> Checkpoint {
    let device = Device::flex();
    let (path, model) = (folder.join("earlier"), model(&device));
    let optimizer = Optimizer::new(&TrainConfig::default(), &parameters::list(&model), &device);
    save(&path, &model, Some(&optimizer), &[], &Meta::new(7, "abc", None, stages)).unwrap();
    let bytes = fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let mut meta: Value = serde_json::from_str(&header.metadata().as_ref().unwrap()[META_KEY]).unwrap();
    let fields = meta.as_object_mut().unwrap();
    fields.remove("checksums");
    fields.remove("updates").unwrap();
    fields.insert("skipped".to_owned(), 2.into());
    let tensors: Vec<Stored> = file
        .iter()
        .map(|(name, view)| (name.to_owned(), view.shape().to_vec(), view.data().to_vec()))
        .collect();
    let described =
        tensors.iter().map(|(name, shape, data)| (name.as_str(), shape.as_slice(), data.as_slice()));
    let checksums = Checksums::of(&meta, described);
    meta["checksums"] = serde_json::to_value(checksums).unwrap();
    fs::write(&path, safetensors_of(&tensors, (META_KEY, meta.to_string())).unwrap()).unwrap();
    Checkpoint::load(&path).unwrap()
}

#[test]
fn an_earlier_version_counted_the_updates_of_all_parameters_at_once() {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::flex());
    let loaded = of_an_earlier_version(folder.path(), Vec::new());
    assert!(loaded.meta.goes_on());
    let restored = loaded.weights(model(&device), &device).unwrap();
    let optimizer = loaded.optimizer(&TrainConfig::default(), &restored, &device).unwrap();
    assert_eq!(optimizer.updates, vec![5; parameters::list(&restored).len()]);
    // A stage may have reset the optimizer state of some parameters.
    let stage = StageReading { length: 16, extend: Value::Null, head_scale: None };
    let loaded = of_an_earlier_version(folder.path(), vec![stage]);
    assert!(!loaded.meta.goes_on());
    let error = loaded.optimizer(&TrainConfig::default(), &restored, &device).unwrap_err();
    assert!(error.message().contains("of a stage and of an earlier version"), "{error}");
    assert!(error.hint_text().unwrap().contains("not trained further"), "{error}");
}

#[test]
fn another_rotary_layout_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let rope = |layout: &str| model_with(&format!("kind = \"rope\"\nlayout = \"{layout}\""), &device);
    let path = folder.path().join("half");
    save(&path, &rope("half"), None, &[], &Meta::new(1, "abc", None, Vec::new())).unwrap();
    let saved = Checkpoint::load(&path).unwrap();
    assert_eq!(saved.meta.rotary_layouts, vec![Some(Layout::Half); 2]);
    assert!(saved.weights(rope("half"), &device).is_ok());
    let error = saved.weights(rope("interleaved"), &device).unwrap_err();
    assert!(
        error.message().contains("\"half\", and the config says the rotary layout \"interleaved\""),
        "{error}"
    );
    assert!(error.hint_text().is_some_and(|hint| hint.contains("position.layout")), "{error}");
    // A model that does not rotate has the same parameters too.
    let error = saved.weights(model_with("kind = \"none\"", &device), &device).unwrap_err();
    assert!(error.message().contains("and the config says no rotation"), "{error}");
}

#[test]
fn damage_and_a_newer_format_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path(), "a");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(Checkpoint::load(&path).unwrap_err().hint_text().is_some());
    let text = String::from_utf8_lossy(&bytes).find("format").unwrap();
    let mut newer = bytes.clone();
    let digit = text + bytes[text..].iter().position(|byte| *byte == b'1').unwrap();
    newer[digit] = b'9';
    fs::write(&path, newer).unwrap();
    assert!(Checkpoint::load(&path).unwrap_err().message().contains("format 9"));
    assert!(Checkpoint::load(&folder.path().join("none")).unwrap_err().message().contains("no such file"));
}
