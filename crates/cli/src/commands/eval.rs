//! `longwave eval`: evaluates a trained run again, differently.

use super::session::{Measured, Session, measure, open_data, print_tables, warn};
use crate::args;
use crate::output::data;
use burn::module::Module;
use longwave_core::config::{read, set};
use longwave_core::{Error, Result};
use longwave_eval::{Config, EvaluateConfig, Evaluation, Subject, TokenLog};
use longwave_position::{ExtensionConfig, Init};
use longwave_train::{Run, restore};
use toml::{Table, Value};

/// Runs the command.
pub(crate) fn run(arguments: &args::Eval) -> Result<()> {
    let config = Run::read(&arguments.run)?;
    let evaluations = evaluations(arguments)?;
    let session = Session::open(&arguments.compute)?;
    let dataset = open_data(&config.data)?;
    let resolved = config.model.resolve(dataset.tokenizer().vocab_size(), config.train.length)?;
    let hash = config.hash(dataset.content_hash())?;
    let run = Run { folder: arguments.run.clone(), config, hash };
    let which = arguments.checkpoint;
    let checkpoint = run.load(which)?;
    let init = Init::new(run.config.seed, &session.device);
    let model = restore(&run.config, &resolved, &init, &session.device, &checkpoint)?.valid();
    longwave_eval::check(&model.position, &resolved, &dataset, &evaluations)?;
    session.introduce();
    let subject = Subject {
        config: &run.config,
        config_hash: &run.hash,
        resolved: &resolved,
        model: &model,
        dataset: &dataset,
        device: &session.device,
        device_name: &session.device_name,
        threads: session.threads,
        checkpoint: &which.name(),
        step: checkpoint.meta.step,
        stage: checkpoint.meta.stage(),
    };
    let mut tokens = arguments.tokens.as_deref().map(TokenLog::create).transpose()?;
    let Measured { rows, tried } = measure(&subject, &evaluations, tokens.as_mut(), &run.folder)?;
    if let Some(tokens) = tokens {
        tokens.finish()?;
    }
    if !arguments.json {
        return print_tables(&rows);
    }
    let lines = tried.iter().chain(&rows).map(serde_json::to_string).collect::<serde_json::Result<Vec<_>>>();
    let lines = lines.map_err(|error| Error::failed(format!("a row cannot be written as JSON: {error}")))?;
    data(&(lines.join("\n") + "\n"))
}

/// The evaluations that the command line asks for: those of the run's config, or one of its own that
/// begins as the config's first.
fn evaluations(arguments: &args::Eval) -> Result<Vec<Evaluation>> {
    let config = Config::load(&arguments.run.join("config.toml"), &[])?;
    let asked = !arguments.lengths.is_empty()
        || !arguments.extend.is_empty()
        || arguments.against.is_some()
        || arguments.protocol.is_some()
        || arguments.corpus.is_some()
        || arguments.split.is_some()
        || !arguments.set.is_empty();
    if !asked {
        warn(&config.warnings);
        return config.evaluations();
    }
    let mut block = match config.evaluate.first().map(Table::try_from) {
        Some(Ok(block)) => block,
        _ => Table::new(),
    };
    if let Some(protocol) = &arguments.protocol {
        // Layouts belong to a protocol; another one begins with its own defaults.
        for key in ["target", "max_length", "window_stride", "stride", "bucket", "passage", "sequences"] {
            block.remove(key);
        }
        block.insert("protocol".to_owned(), Value::String(protocol.clone()));
    }
    if let Some(corpus) = &arguments.corpus {
        // A run of a task reads other text as text.
        if config.run.data.task.is_some() && arguments.protocol.is_none() {
            block.remove("protocol");
            block.remove("sequences");
        }
        block.insert("corpus".to_owned(), Value::String(corpus.clone()));
        block.remove("split");
    }
    if let Some(split) = arguments.split {
        block.insert("split".to_owned(), Value::String(split.to_string()));
    }
    if !arguments.lengths.is_empty() {
        block.remove("max_length");
        let lengths = Value::try_from(&arguments.lengths)
            .map_err(|error| Error::failed(format!("`--lengths` cannot be written as TOML: {error}")))?;
        block.insert("lengths".to_owned(), lengths);
    }
    if !arguments.extend.is_empty() {
        let extend =
            arguments.extend.iter().map(|text| extensions(text)).collect::<Result<Vec<_>>>()?.concat();
        block.insert("extend".to_owned(), Value::Array(extend));
    }
    if let Some(against) = &arguments.against {
        block.insert("against".to_owned(), one_value("--against", against)?);
    } else if !arguments.extend.is_empty() {
        // Other readings than the config's, which may lack what it compares with.
        block.remove("against");
    }
    for assignment in &arguments.set {
        set(&mut block, assignment)?;
    }
    let block: EvaluateConfig = read(&block, "eval")?;
    let evaluation = Evaluation::new(&block, "eval", config.run.train.length)?;
    warn(config.warnings.iter().chain(&evaluation.warnings));
    Ok(vec![evaluation])
}

/// Kinds separated by commas, or one inline TOML table.
pub(super) fn extensions(text: &str) -> Result<Vec<Value>> {
    if !text.trim_start().starts_with('{') {
        return Ok(text.split(',').map(|kind| Value::String(kind.trim().to_owned())).collect());
    }
    let parsed =
        format!("extend = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("extend"));
    parsed.map(|value| vec![value]).ok_or_else(|| {
        Error::usage(format!("`{text}` is no TOML table")).hint("write `{ kind = \"linear\", scale = 4.0 }`")
    })
}

/// The one extension of a command that reads with one; as trained unless given.
pub(super) fn one_extension(text: Option<&str>) -> Result<ExtensionConfig> {
    ExtensionConfig::from_value(&one_value("--extend", text.unwrap_or("direct"))?, "--extend")
}

/// The one kind or table that an option takes.
pub(super) fn one_value(option: &str, text: &str) -> Result<Value> {
    let [value] = <[Value; 1]>::try_from(extensions(text)?).map_err(|_| {
        Error::usage(format!("`{option}` takes one extension here")).hint("give one at a time")
    })?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_kinds_or_a_table() {
        assert_eq!(extensions("direct, ntk").unwrap().len(), 2);
        assert!(extensions("{ kind = \"linear\", scale = 4.0 }").unwrap()[0].is_table());
        assert!(extensions("{ kind = ").is_err());
    }
}
