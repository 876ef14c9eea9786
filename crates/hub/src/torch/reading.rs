//! How a model reads texts, as the numbers of `config.json`: for each length that an extension reads otherwise, every encoding and every
//! layer.

use super::encoding::Written;
use super::{Extended, at, lengths};
use longwave_core::{Error, Result};
use longwave_position::PositionConfig;
use longwave_position::encoding::{Dimensions, Geometry, PositionMap, Selector};
use longwave_position::encodings::Encoding;
use longwave_position::layout::TextLayout;
use longwave_position::reading::{LayerReading, LogN, Reading, Temperature};
use longwave_train::Trained;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What `config.json` says under `torch`, and what of the template it needs.
pub(super) struct Torch {
    pub(super) config: Value,
    /// The Python classes of encodings, each once.
    pub(super) classes: Vec<&'static str>,
    pub(super) parts: BTreeSet<&'static str>,
    /// The kinds of its encodings, each once.
    pub(super) kinds: Vec<&'static str>,
    /// The extension that reads it.
    pub(super) extension: &'static str,
}

pub(super) fn described(trained: &Trained, extended: &Extended) -> Result<Torch> {
    let Trained { config, resolved, model, .. } = trained;
    let (d, base) = (resolved.dimensions, &model.position);
    let encodings = encodings(trained, extended.longest)?;
    let train = config.train.length;
    let mut readings: Vec<(usize, Value)> = Vec::new();
    for length in lengths(train, extended.longest) {
        let reading = extended.extend.apply(base, at(train, length)).map_err(|error| {
            if length > train {
                error.context(format!("`--length`: a text of {length} tokens"))
            } else {
                error
            }
        })?;
        let written = written(&reading, base, &encodings, length)?;
        // Of texts that are read alike, the longest says it.
        readings.pop_if(|(_, before)| *before == written);
        readings.push((length, written));
    }
    let mut parts = parts(base, &readings, trained);
    let longest_only = ["table", "linear", "vectors", "positions"].iter().any(|part| parts.contains(part));
    if readings.len() > 1 || longest_only {
        parts.insert("readings");
    }
    let readings: Vec<Value> =
        readings.into_iter().map(|(length, reading)| with_length(length, reading, &parts)).collect();
    let names = |list: &[(String, Vec<usize>)]| -> Map<String, Value> {
        list.iter().map(|(name, shape)| (name.clone(), json!(shape))).collect()
    };
    let mut factors = Map::new();
    for (name, shapes) in base.factors() {
        factors.insert(name.to_owned(), Value::Object(names(&shapes)));
    }
    let model = &resolved.config;
    let mut written = json!({
        "layers": d.layers, "width": d.width, "heads": d.heads, "kv_heads": d.kv_heads, "head_dim": d.head_dim,
        "vocab_size": d.vocab_size, "feed_forward_width": resolved.feed_forward_width, "train_length": d.train_length,
        "norm_eps": model.norm_eps, "encodings": encodings.iter().map(Written::module).collect::<Vec<_>>(), "readings": readings,
    });
    let optional = [
        ("qk_rms", "qk_norm_eps", json!(model.qk_norm_eps)),
        ("dropout", "dropout", json!(model.dropout)),
        ("memory", "memory", json!(base.memory())),
        ("gate", "gate_columns", json!(resolved.gate_columns())),
        ("factors", "factors", Value::Object(factors)),
    ];
    for (part, key, value) in optional {
        if parts.contains(part) {
            written[key] = value;
        }
    }
    if encodings.iter().any(|encoding| {
        encoding.module()["shapes"]
            .as_object()
            .is_some_and(|shapes| shapes.keys().any(|name| name.contains('.')))
    }) {
        parts.insert("nested");
    }
    let mut classes: Vec<&str> = encodings.iter().filter_map(|encoding| encoding.class).collect();
    let mut kinds: Vec<&str> = base.encodings().iter().map(Encoding::kind).collect();
    for list in [&mut classes, &mut kinds] {
        let mut seen = BTreeSet::new();
        list.retain(|one| seen.insert(*one));
    }
    Ok(Torch { config: written, classes, parts, kinds, extension: extended.extend.kind() })
}

/// Every encoding of the model, with the keys and the number of layers that the config gives it.
fn encodings(trained: &Trained, longest: usize) -> Result<Vec<Written<'_>>> {
    let Trained { config, resolved, model, .. } = trained;
    let (d, base) = (resolved.dimensions, &model.position);
    let none = PositionConfig::from_value(&"none".into(), "position")?;
    let mut encodings = Vec::new();
    for (index, encoding) in base.encodings().iter().enumerate() {
        // A stage may have given some layers a copy, which stands behind all encodings of the config. A layer that reads it says what it is
        // a copy of; its hooks still count the layers of the config.
        let read = |(layer, reading): (usize, &LayerReading)| {
            let place = reading.encodings.iter().position(|place| place.encoding == index)?;
            let (configs, layers) = config.position.of_layer(layer, d.layers);
            Some((configs.get(place)?, layers))
        };
        let read = base.layers().iter().enumerate().find_map(read);
        // A stage may have dropped it.
        let dropped = || none.encodings().find(|config| config.kind() == encoding.kind());
        let written = read.and_then(|(own, layers)| {
            let of_kind = Some(own).filter(|own| own.kind() == encoding.kind());
            Some((of_kind.or_else(dropped)?, layers))
        });
        let (config, layers) = written.ok_or_else(|| Error::failed("an encoding without its config"))?;
        encodings.push(Written::new(encoding, config, Dimensions { layers, ..d }, longest)?);
    }
    Ok(encodings)
}

/// One reading, without its length.
fn written(reading: &Reading, base: &Reading, encodings: &[Written<'_>], length: usize) -> Result<Value> {
    let mut entries: Vec<Value> = Vec::new();
    let mut layers = Vec::new();
    for (layer, trained) in reading.layers().iter().zip(base.layers()) {
        let mut places = Vec::new();
        for (place, of) in layer.encodings.iter().zip(&trained.encodings) {
            let mut entry =
                encodings[of.encoding].entry(&reading.encodings()[place.encoding], place.layer)?;
            entry.insert("of".to_owned(), json!(of.encoding));
            let entry = Value::Object(entry);
            let known = entries.iter().position(|other| *other == entry);
            let index = known.unwrap_or_else(|| {
                entries.push(entry);
                entries.len() - 1
            });
            places.push(json!([index, place.layer]));
        }
        layers.push(of_layer(layer, places)?);
    }
    let mut written = json!({ "encodings": entries, "layers": layers });
    match reading.layout() {
        TextLayout::Contiguous => {}
        layout @ (TextLayout::Drawn { .. } | TextLayout::Cells { .. }) => {
            written["positions"] = json!(layout.positions(length).values());
        }
        TextLayout::Segments { length } | TextLayout::Recurrent { length, .. } => {
            written["segment"] = json!(length);
        }
    }
    Ok(written)
}

fn of_layer(layer: &LayerReading, encodings: Vec<Value>) -> Result<Value> {
    let no_python = |what: &str| {
        Error::usage(format!("a model whose {what} cannot be written for PyTorch"))
            .hint("model.py scales queries by log-n alone; export the run without `torch`")
    };
    let (log_n, train_length, row) = match layer.log_n {
        LogN::Off => ("off", None, None),
        LogN::Trained { train_length } => ("trained", Some(train_length), None),
        LogN::PostHoc { train_length } => ("post_hoc", Some(train_length), None),
        LogN::Learned { row, scale_bias: false, .. } => ("learned", None, Some(row)),
        LogN::Learned { .. } => return Err(no_python("learned log-n scales biases too")),
        LogN::Adaptive { .. } => return Err(no_python("log-n is adaptive, or a power")),
        LogN::Shifted { train_length, .. } => ("shifted", Some(train_length), None),
        LogN::Info { train_length, .. } => ("info", Some(train_length), None),
        LogN::ByEntropy => return Err(no_python("temperature law goes by the entropy of a query")),
    };
    let geometry = layer.geometry.as_ref().filter(|geometry| !geometry.is_plain());
    let maps = geometry
        .map(|Geometry { maps, .. }| maps.iter().map(|(q, k)| [map(*q), map(*k)]).collect::<Vec<_>>());
    let (near, chunk) = match geometry.map(|geometry| &geometry.selector) {
        Some(Selector::Distance { near }) => (Some(near.min(f64::MAX)), None),
        Some(Selector::Chunk { chunk }) => (None, Some(*chunk)),
        None => (None, None),
    };
    let temperature = match &layer.temperature {
        Temperature::All(temperature) => json!(temperature),
        Temperature::Heads(heads) => json!(heads),
    };
    let a = if let LogN::Shifted { a, .. } = layer.log_n { Some(a) } else { None };
    Ok(json!({
        "encodings": encodings, "a": a, "logit_scale": layer.logit_scale, "temperature": temperature, "head_scale": layer.head_scale,
        "window": layer.mask.window, "sinks": layer.mask.sinks, "log_n": log_n, "train_length": train_length, "row": row,
        "maps": maps, "near": near, "chunk": chunk,
    }))
}

fn map(map: PositionMap) -> Value {
    match map {
        PositionMap::Identity => json!({}),
        PositionMap::Constant(value) => json!({ "scale": 0.0, "offset": value }),
        PositionMap::Affine { scale, offset } => json!({ "scale": scale, "offset": offset }),
        PositionMap::AtMost(limit) => json!({ "limit": limit }),
        PositionMap::Grouped { group, offset } => json!({ "group": group, "offset": offset }),
        PositionMap::Chunked { chunk, offset, limit } if limit.is_finite() => {
            json!({ "chunk": chunk, "offset": offset, "limit": limit })
        }
        PositionMap::Chunked { chunk, offset, .. } => json!({ "chunk": chunk, "offset": offset }),
    }
}

/// What of the template the readings need.
fn parts(base: &Reading, readings: &[(usize, Value)], trained: &Trained) -> BTreeSet<&'static str> {
    let mut parts = BTreeSet::new();
    let mut need = |part, holds: bool| {
        if holds {
            parts.insert(part);
        }
    };
    for (_, reading) in readings {
        let entries = reading["encodings"].as_array().into_iter().flatten();
        for entry in entries {
            for part in ["rotation", "start", "slopes", "table", "linear", "vectors"] {
                need(part, entry.get(part).is_some());
            }
            need("decay", entry["rotation"].get("zeta").is_some());
        }
        for layer in reading["layers"].as_array().into_iter().flatten() {
            need("geometry", !layer["maps"].is_null());
            need("window", !layer["window"].is_null());
            need("log_n", !layer["train_length"].is_null());
            need("log_n_law", ["shifted", "info"].map(Value::from).contains(&layer["log_n"]));
            need("log_n_learned", !layer["row"].is_null());
            need("temperature", layer["temperature"] != json!(1.0));
            need("head_scale", !layer["head_scale"].is_null());
        }
        need("positions", reading.get("positions").is_some());
        need("segments", reading.get("segment").is_some() && base.memory() == 0);
    }
    need("memory", base.memory() > 0);
    need("gate", trained.resolved.gate_columns() > 0);
    need("dropout", trained.resolved.config.dropout > 0.0);
    need("qk_rms", trained.resolved.config.qk_norm == longwave_model::config::QkNorm::Rms);
    let factors = base.factors();
    need("factors", !factors.is_empty());
    need("log_n_bias", factors.iter().any(|(_, shapes)| shapes.iter().any(|(name, _)| name == "b")));
    parts
}

/// A reading with the length that it is for, without the keys that nothing reads.
fn with_length(length: usize, mut reading: Value, parts: &BTreeSet<&'static str>) -> Value {
    reading["length"] = if parts.contains("readings") { json!(length) } else { Value::Null };
    let unread = [
        ("geometry", &["maps", "near", "chunk"][..]),
        ("window", &["window", "sinks"]),
        ("temperature", &["temperature"]),
        ("head_scale", &["head_scale"]),
        ("log_n_learned", &["row"]),
        ("log_n", &["train_length"]),
        ("log_n_law", &["a"]),
    ];
    for layer in reading["layers"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        for (_, keys) in unread.iter().filter(|(part, _)| !parts.contains(part)) {
            layer.retain(|key, _| !keys.contains(&key.as_str()));
        }
        if !parts.contains("log_n") && !parts.contains("log_n_learned") {
            layer.remove("log_n");
        }
    }
    if parts.contains("segments") && reading.get("segment").is_none() {
        reading["segment"] = Value::Null;
    }
    reading
}
