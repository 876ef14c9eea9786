//! Whether a training fits in memory, before any weight is drawn.

use crate::run_config::RunConfig;
use burn::tensor::Device;
use longwave_core::memory_check::{available, shortage};
use longwave_core::{Error, Result};
use longwave_model::resolved::Resolved;
use longwave_model::{Gpt, Size};
use longwave_position::Init;

/// Bytes of a trained number: itself, its gradient and two moments.
const TRAINED: u64 = 16;

/// Rejects a training that does not fit into the free memory of the CPU. The memory of a GPU is not checked.
///
/// # Errors
/// It does not fit, or no model can be made of the config.
pub fn check(config: &RunConfig, vocab_size: usize, device: &Device) -> Result<()> {
    if *device == Device::flex() { lack(config, vocab_size)?.map_or(Ok(()), Err) } else { Ok(()) }
}

/// What a training lacks on the CPU, if it does not fit into the free memory.
///
/// It counts weights, gradients and moments of every parameter, and estimates what the backward pass keeps of the
/// largest batch that is computed at once. Nothing is allocated for it.
///
/// # Errors
/// No model can be made of the config.
pub fn lack(config: &RunConfig, vocab_size: usize) -> Result<Option<Error>> {
    let resolved = config.model.resolve(vocab_size, config.train.length)?;
    let counted = |init: &Init| init.counted().unwrap_or_default();
    let all = Init::counting(&Device::flex());
    let model = Gpt::new(&resolved, &config.position, &all)?;
    let parameters = counted(&all);
    if let Some(shortage) = shortage(parameters.saturating_mul(TRAINED), available()) {
        let encoding = Init::counting(&Device::flex());
        config.position.build("position", &resolved.dimensions, &encoding, resolved.log_n())?;
        let own = config.position.largest("position").filter(|_| counted(&encoding) > parameters / 2);
        let (model, size) = resolved.largest();
        let hint = match own {
            Some(_) => "take a smaller one: `longwave schema` prints the default of every key",
            None => "take a smaller one: `model.size` names sizes that fit together",
        };
        let (key, size) = own.unwrap_or_else(|| (model.to_owned(), size as u64));
        let needed = format!("{parameters} parameters, their gradients and two moments take {shortage}");
        return Ok(Some(Error::value(&key, size, needed).hint(hint)));
    }
    Ok((0..=config.last_stage()).find_map(|stage| {
        let (train, section) = (config.stage(stage), RunConfig::section(stage));
        let (rows, length) = (train.micro_batch(), train.length);
        let needed = Size::of(&model, &resolved, rows, length).training_bytes;
        let shortage = shortage(needed, available())?;
        let needed = format!("training on {rows} x {length} tokens at once takes {shortage}");
        Some(if rows > 1 {
            Error::value(&format!("{section}.batch_tokens"), train.batch_tokens, needed)
                .hint(format!("`{section}.accumulation` computes a batch in parts"))
        } else {
            Error::value(&format!("{section}.length"), length, needed)
                .hint("train on shorter sequences, or take a smaller model or vocabulary")
        })
    }))
}

/// The number of parameters of a model, before any weight is drawn.
///
/// # Errors
/// There is no such model, or what its file says of its positions does not go with it.
pub fn parameters(config: &RunConfig, resolved: &Resolved) -> Result<u64> {
    let all = Init::counting(&Device::flex());
    let model = Gpt::new(resolved, &config.position, &all)?;
    config.as_published(model.position)?;
    Ok(all.counted().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(keys: &str) -> Option<Error> {
        let mut table: toml::Table = format!("name = 'x'\ndata.corpus = 'c'\n{keys}").parse().unwrap();
        if !table.contains_key("position") {
            table.insert("position".to_owned(), "rope".into());
        }
        RunConfig::from_table(table).and_then(|config| check(&config, 512, &Device::flex())).err()
    }

    #[test]
    fn what_fits_is_taken() {
        let main = rejection("");
        assert!(main.is_none(), "{main:?}");
        assert!(rejection("position = 'causal_conv'").is_none());
        assert!(rejection("train.batch_tokens = 1048576\ntrain.accumulation = 256").is_none());
    }

    #[test]
    fn absurd_sizes_are_named_and_nothing_is_allocated() {
        for (keys, start, part) in [
            ("model.width = 1000000000", "`model.width = 1000000000`", "at most 16777216"),
            ("model.width = 16777216", "`model.width = 16777216`", "weights alone"),
            ("model.layers = 9000000", "`model.layers = 9000000`", "at most 8192"),
            (
                "model.layers = 8000\nmodel.width = 4096\nmodel.heads = 32",
                "`model.layers = 8000`",
                "weights alone",
            ),
            (
                "model.feed_forward_width = 16000000\nmodel.width = 16000",
                "`model.feed_forward_width = 1",
                "take",
            ),
            ("train.steps = 9000000000000000000", "`train.steps = 9000000000000000000`", "2^53 tokens"),
            (
                "train.batch_tokens = 1280000000000",
                "`train.batch_tokens = 1280000000000`",
                "10000000000 x 128",
            ),
            (
                "train.length = 9000000000000000\ntrain.batch_tokens = 9000000000000000\ntrain.steps = 1",
                "`train.length = 9000000000000000`",
                "1 x 9000000000000000 tokens at once",
            ),
            (
                "position = { kind = 'causal_conv', kernel = 4000000000 }",
                "`position.kernel = 4000000000`",
                "at most",
            ),
            (
                "position = { kind = 'causal_conv', kernel = 16000000 }\nmodel.width = 10240\nmodel.heads = 8",
                "`position.kernel = 16000000`",
                "take about",
            ),
            (
                "position = { kind = 'cope', npos = 16777216 }\nmodel.layers = 1000",
                "`position.npos = 16777216`",
                "take about",
            ),
            ("position = { kind = 'cpb', depth = 16777216 }", "`position.depth = 16777216`", "at most 64"),
            ("position = { kind = 'shaw', p_max = 2000000000 }", "`position.p_max = 2000000000`", "at most"),
            (
                "position = { kind = 'deberta', absolute = { table_size = 4000000000 } }",
                "`position.absolute.table_size = 4",
                "at most",
            ),
            (
                "position = { kind = 'transformer_xl', memory = 16777216 }\ntrain.sampling = 'sequential'",
                "`train.batch_tokens",
                "at once takes about",
            ),
        ] {
            let error = rejection(keys).unwrap();
            assert!(error.message().starts_with(start) && error.message().contains(part), "{keys}: {error}");
            assert!(error.hint_text().is_some() && error.exit_code() == 2, "{keys}: {error}");
        }
        for kind in ["fire", "dape", "floater"] {
            let error = rejection(&format!("position = {{ kind = '{kind}', hidden = 16777216 }}")).unwrap();
            let start = "`position.hidden = 16777216` is not allowed: it must be at most 16384";
            assert!(error.message().starts_with(start) && error.hint_text().is_some(), "{error}");
        }
    }
}
