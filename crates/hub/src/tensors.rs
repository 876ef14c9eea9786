//! `model.safetensors`: tensors by name, as 32-bit floats.

use crate::weights::{Piece, Source};
use burn::tensor::{Device, Tensor, TensorData, bf16, f16};
use longwave_core::{Error, Result};
use longwave_model::Gpt;
use longwave_train::checkpoint::safetensors_of;
use longwave_train::parameters;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;

/// Numbers of one tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub shape: Vec<usize>,
    pub numbers: Vec<f32>,
}

pub type Tensors = BTreeMap<String, Stored>;

const ONE_MODEL: &str = "`config.json` and the weights must be of one model";

/// Buffers that older files carry and that hold nothing trained.
const BUFFERS: [&str; 5] =
    [".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"];

/// The weights of a model by our names.
pub fn of_model(model: &Gpt) -> Result<Tensors> {
    let parameters = parameters::list(model);
    let one = |(parameter, value): (parameters::Parameter, Tensor<1>)| {
        let numbers = parameters::numbers(&format!("`{}`", parameter.name), value)?;
        Ok((parameter.name, Stored { shape: parameter.shape, numbers }))
    };
    parameters.into_iter().zip(parameters::values(model)).map(one).collect()
}

/// The model with the weights of these names.
pub fn into_model(model: Gpt, mut tensors: Tensors, device: &Device) -> Result<Gpt> {
    let mut values = Vec::new();
    for parameter in parameters::list(&model) {
        let stored = tensors.remove(&parameter.name).ok_or_else(|| {
            Error::failed(format!("the weights have no `{}`", parameter.name)).hint(ONE_MODEL)
        })?;
        if stored.shape != parameter.shape {
            return Err(wrong_shape(&parameter.name, &stored.shape, &parameter.shape));
        }
        let count = stored.numbers.len();
        values.push(Tensor::<1>::from_data(TensorData::new(stored.numbers, [count]), device));
    }
    if let Some(name) = tensors.keys().next() {
        return Err(Error::failed(format!("the model has no place for the tensor `{name}`")).hint(ONE_MODEL));
    }
    let mut values = values.into_iter();
    Ok(parameters::replace(model, |_, old| values.next().unwrap_or(old)))
}

fn wrong_shape(name: &str, found: &[usize], expected: &[usize]) -> Error {
    Error::failed(format!("the tensor `{name}` has shape {found:?}, and config.json asks for {expected:?}"))
        .hint(ONE_MODEL)
}

/// Ours -> theirs.
pub fn to_theirs(ours: &Tensors, pieces: &[Piece]) -> Result<Tensors> {
    pieces.iter().map(|piece| Ok((piece.theirs.clone(), one_of_theirs(ours, &piece.source)?))).collect()
}

fn one_of_theirs(ours: &Tensors, source: &Source) -> Result<Stored> {
    let find = |name: &String| {
        ours.get(name).ok_or_else(|| Error::failed(format!("the model has no parameter `{name}`")))
    };
    Ok(match source {
        Source::Whole { ours } => find(ours)?.clone(),
        Source::Columns { ours, columns } => {
            let Stored { shape, numbers } = find(ours)?;
            let ([rows, width], shape) = turned(shape, columns.len());
            let numbers = columns.iter().flat_map(|column| {
                (0..rows).map(move |row| row * width + column).map(|index| numbers[index])
            });
            Stored { shape, numbers: numbers.collect() }
        }
        Source::Zeros { count } => Stored { shape: vec![*count], numbers: vec![0.0; *count] },
    })
}

/// The rows and the width of a tensor of ours, and the shape of so many of its columns as rows of theirs. A vector is one
/// row, and stays a vector.
fn turned(ours: &[usize], columns: usize) -> ([usize; 2], Vec<usize>) {
    match *ours {
        [rows, width] => ([rows, width], vec![columns, rows]),
        _ => ([1, ours.iter().product()], vec![columns]),
    }
}

/// Tensors of a file that was saved without the head: it may leave out what all other names begin with, as GPT-2's does.
pub fn with_prefix(tensors: Tensors, prefix: &str, head: &str) -> Tensors {
    if tensors.keys().any(|name| name.starts_with(prefix)) {
        return tensors;
    }
    let named = |name: String| if name == head { name } else { format!("{prefix}{name}") };
    tensors.into_iter().map(|(name, stored)| (named(name), stored)).collect()
}

/// Theirs -> ours, which have these shapes.
pub fn to_ours(
    mut theirs: Tensors,
    pieces: &[Piece],
    shapes: &[parameters::Parameter],
    head: &str,
    tied: bool,
) -> Result<Tensors> {
    theirs.retain(|name, _| !BUFFERS.iter().any(|buffer| name.ends_with(buffer)));
    let mut ours: Tensors = shapes
        .iter()
        .map(|parameter| {
            let count = parameter.shape.iter().product();
            (parameter.name.clone(), Stored { shape: parameter.shape.clone(), numbers: vec![0.0; count] })
        })
        .collect();
    let embedding = pieces.first().map(|piece| piece.theirs.clone()).unwrap_or_default();
    let tied = tied.then(|| Some((theirs.remove(head)?, theirs.get(&embedding)?.clone()))).flatten();
    if let Some((head, embedding)) = tied
        && head != embedding
    {
        return Err(Error::failed("the head differs from the embedding that config.json says it is tied to")
            .hint("set `tie_word_embeddings` to false in its config.json"));
    }
    for Piece { theirs: name, source } in pieces {
        let found = theirs.remove(name).ok_or_else(|| missing(name, head))?;
        fill(&mut ours, name, source, &found)?;
    }
    match theirs.keys().next() {
        Some(name) => Err(Error::failed(format!("the model has no place for the tensor `{name}`"))
            .hint("only models that our own can compute exactly are imported")),
        None => Ok(ours),
    }
}

fn missing(name: &str, head: &str) -> Error {
    let error = Error::failed(format!("the weights have no `{name}`"));
    if name == head {
        return error.hint(
            "if the head shares the numbers of the embedding, say `\"tie_word_embeddings\": true` in config.json; else save the \
             model with its head",
        );
    }
    error.hint(ONE_MODEL)
}

/// Puts one of theirs into its place.
fn fill(ours: &mut Tensors, name: &str, source: &Source, found: &Stored) -> Result<()> {
    let expected = |shape: &[usize]| {
        if found.shape == shape { Ok(()) } else { Err(wrong_shape(name, &found.shape, shape)) }
    };
    let (Source::Whole { ours: place } | Source::Columns { ours: place, .. }) = source else {
        if found.numbers.iter().all(|number| *number == 0.0) {
            return Ok(());
        }
        return Err(Error::failed(format!("the bias `{name}` is not zero, and our model has none there"))
            .hint("only models that our own can compute exactly are imported"));
    };
    let into =
        ours.get_mut(place).ok_or_else(|| Error::failed(format!("the model has no parameter `{place}`")))?;
    match source {
        Source::Columns { columns, .. } => {
            let ([rows, width], shape) = turned(&into.shape, columns.len());
            expected(&shape)?;
            for (column, numbers) in columns.iter().zip(found.numbers.chunks(rows)) {
                for (row, number) in numbers.iter().enumerate() {
                    into.numbers[row * width + column] = *number;
                }
            }
        }
        Source::Whole { .. } | Source::Zeros { .. } => {
            expected(&into.shape.clone())?;
            into.numbers.clone_from(&found.numbers);
        }
    }
    Ok(())
}

/// The bytes of a `model.safetensors`, the same for the same tensors.
pub fn to_bytes(tensors: &Tensors) -> Result<Vec<u8>> {
    let stored = tensors.iter().map(|(name, Stored { shape, numbers })| {
        let bytes = numbers.iter().map(|number| number.to_le_bytes()).collect::<Vec<_>>().into_flattened();
        (name.clone(), shape.clone(), bytes)
    });
    // Readers of PyTorch weights ask for this entry.
    safetensors_of(&stored.collect::<Vec<_>>(), ("format", "pt".to_owned()))
        .map_err(|error| Error::failed(format!("the weights cannot be written as safetensors: {error}")))
}

/// The tensors of a `model.safetensors`; half-precision ones become 32-bit floats, exactly.
pub fn from_bytes(bytes: &[u8]) -> Result<Tensors> {
    let damaged = |error: safetensors::SafeTensorError| {
        Error::failed(format!("it is damaged, or not a whole safetensors file: {error}"))
            .hint("download or export it again: a download that was stopped leaves a part of the file")
    };
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let one = |(name, view): (String, TensorView<'_>)| {
        let halves = || view.data().as_chunks::<2>().0.iter();
        let numbers = match view.dtype() {
            Dtype::F32 => {
                view.data().as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
            }
            Dtype::F16 => halves().map(|two| f16::from_le_bytes(*two).to_f32()).collect(),
            Dtype::BF16 => halves().map(|two| bf16::from_le_bytes(*two).to_f32()).collect(),
            // Masks of older files; rejected by name unless they are known buffers.
            other if BUFFERS.iter().any(|buffer| name.ends_with(buffer)) => {
                tracing::debug!("left out `{name}` of {other:?}");
                Vec::new()
            }
            other => {
                return Err(Error::failed(format!("its tensor `{name}` is of {other:?}, not of floats"))
                    .hint("save it in float32, float16 or bfloat16"));
            }
        };
        Ok((name, Stored { shape: view.shape().to_vec(), numbers }))
    };
    file.tensors().into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_floats_exactly() {
        let read = |dtype, bytes: [u8; 4]| {
            let view = TensorView::new(dtype, vec![2], &bytes).unwrap();
            from_bytes(&safetensors::serialize([("x", view)], None).unwrap()).unwrap()["x"].numbers.clone()
        };
        assert_eq!(read(Dtype::F16, [0x01, 0x00, 0xff, 0x83]), [5.960_464_5e-8, -6.097_555e-5]);
        assert_eq!(read(Dtype::F16, [0xff, 0x7b, 0x00, 0x7c]), [65_504.0, f32::INFINITY]);
        assert_eq!(read(Dtype::BF16, [0x80, 0x3f, 0x49, 0xc0]), [1.0, -3.140_625]);
    }

    #[test]
    fn a_file_reads_back_and_is_the_same_for_the_same_tensors() {
        let tensors = Tensors::from([
            ("b".to_owned(), Stored { shape: vec![2, 1], numbers: vec![1.5, -2.0] }),
            ("a".to_owned(), Stored { shape: vec![1], numbers: vec![0.25] }),
        ]);
        let bytes = to_bytes(&tensors).unwrap();
        assert_eq!(from_bytes(&bytes).unwrap(), tensors);
        assert_eq!(to_bytes(&from_bytes(&bytes).unwrap()).unwrap(), bytes);
        for damaged in [&bytes[..20], &bytes[..bytes.len() - 1], b"not at all"] {
            let error = from_bytes(damaged).unwrap_err();
            assert!(error.message().contains("it is damaged") && error.hint_text().is_some(), "{error}");
        }
    }

    #[test]
    fn names_without_their_prefix_are_completed_but_for_the_head() {
        let tensors = |names: &[&str]| -> Tensors {
            let one = Stored { shape: vec![1], numbers: vec![1.0] };
            names.iter().map(|name| ((*name).to_owned(), one.clone())).collect()
        };
        let named = |names: &[&str]| with_prefix(tensors(names), "transformer.", "lm_head.weight");
        let whole = tensors(&["transformer.wte.weight", "lm_head.weight"]);
        assert_eq!(named(&["wte.weight", "lm_head.weight"]), whole);
        assert_eq!(named(&["transformer.wte.weight", "lm_head.weight"]), whole);
        // Some have the prefix: the others are strangers, and stay so.
        assert!(named(&["transformer.wte.weight", "wpe.weight"]).contains_key("wpe.weight"));
    }

    #[test]
    fn numbers_of_another_kind_are_refused_but_for_known_masks() {
        let file = |name: &str| {
            let view = TensorView::new(Dtype::U8, vec![2], &[0, 1]).unwrap();
            from_bytes(&safetensors::serialize([(name, view)], None).unwrap())
        };
        assert!(file("h.0.mlp.weight").unwrap_err().message().contains("`h.0.mlp.weight` is of U8"));
        assert!(file("transformer.h.0.attn.bias").is_ok());
    }
}
