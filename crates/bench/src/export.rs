//! What another program needs to train the same model on the same batches, and the losses it should see.
//!
//! A folder of `weights.safetensors` (the initial weights, as a checkpoint holds them), `batches.bin` (for
//! every step the inputs and then the targets, `[sequences, length]` each, as little-endian u32) and
//! `run.json` (sizes, schedule and our own losses, step by step).

use longwave_core::{Error, Result, file, written};
use longwave_data::{Dataset, Split};
use longwave_kernels::Precision;
use longwave_train::checkpoint::{self, Meta};
use longwave_train::schedule::Schedule;
use longwave_train::{Run, RunConfig, Trainer, fresh_model};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of an export; the last one makes it complete.
const FILES: [&str; 3] = ["weights.safetensors", "batches.bin", "run.json"];

/// Trains the first `steps` steps and writes the folder; progress is the number of steps done.
pub fn write(
    folder: &Path,
    config: &RunConfig,
    dataset: &Dataset,
    device: &burn::tensor::Device,
    steps: u64,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let train = &config.train;
    if !train.positions.is_contiguous() || config.position.memory() > 0 {
        return Err(Error::usage("`--export` has no place for drawn positions or for a memory")
            .hint("export a config without `train.positions` and `position.memory`"));
    }
    if train.precision != Precision::F32 {
        return Err(Error::usage(format!(
            "`--export` tells of f32, and `train.precision` is \"{}\"",
            train.precision
        ))
        .hint("export it with `--set train.precision=f32`"));
    }
    let resolved = config.model.resolve(dataset.tokenizer().vocab_size(), train.length)?;
    let run = Run { folder: PathBuf::new(), config: config.clone(), hash: String::new() };
    let fresh = fresh_model(config, &resolved, &device.clone().autodiff())?;
    let mut trainer = Trainer::new(&run, dataset, fresh, device, None)?;
    let [weights, batches_file, run_file] = FILES.map(|name| folder.join(name));
    let names = if run_file.exists() { &FILES[..] } else { &[] };
    file::check_new_folder(folder, names, "name a new folder, or one of an earlier export")?;
    fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, &error))?;
    let meta = Meta::new(0, "", None, Vec::new());
    checkpoint::save(&weights, trainer.model(), None, &[], &meta)?;

    let schedule = Schedule::new(train);
    let (mut batches, mut losses, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..steps {
        let mut batch = dataset.batch(train.sampling, config.seed, step, train.sequences(), train.length)?;
        if batch.scored.is_some() {
            return Err(Error::usage("`--export` has no place for which targets of a task are scored")
                .hint("export a config with a corpus"));
        }
        // Every row is a text of its own, as training reads it without a memory.
        dataset.tokens(Split::Train).begin(&mut batch.inputs, train.length);
        batches.extend(batch.inputs.iter().chain(&batch.targets).flat_map(|token| token.to_le_bytes()));
        let Some(output) = trainer.advance(&schedule, &|| false)? else { break };
        rates.push(output.learning_rate);
        losses.push(output.stats()?.loss);
        progress(step + 1)?;
    }
    file::write(&batches_file, &batches)?;
    let d = &resolved.dimensions;
    let run = json!({
        "encoding": config.position.name(),
        "layers": d.layers, "width": d.width, "heads": d.heads, "kv_heads": d.kv_heads,
        "head_dim": d.head_dim, "feed_forward_width": resolved.feed_forward_width,
        "vocab_size": d.vocab_size, "model": config.model, "position": config.position,
        "length": train.length, "sequences": train.sequences(), "steps": losses.len(),
        "learning_rates": rates, "beta1": train.beta1, "beta2": train.beta2, "eps": train.eps,
        "weight_decay": train.weight_decay, "clip": train.clip,
        "losses": losses,
    });
    let text = written::json_lines("the run", &run)?;
    file::write(&run_file, text.as_bytes())
}
