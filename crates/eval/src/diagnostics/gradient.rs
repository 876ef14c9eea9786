//! How far back the loss of the last token depends on the text: the gradient by the embedding of each token.
//!
//! ```text
//! g_n = mean over texts of |d loss_last / d e_(last - n)|_2, divided by its sum
//! ```
//!
//! The receptive field is the number of last tokens that have 99% of it.
//!
//! Source: Chi et al. 2022 (arXiv:2212.10356, section 4).

use burn::module::Param;
use burn::tensor::Tensor;
use longwave_core::{Error, Result};
use longwave_model::{Gpt, Pass, upload};
use longwave_position::Reading;
use longwave_position::reading::LogN;
use longwave_train::parameters::numbers;
use std::collections::BTreeSet;

/// The part of the gradient that the receptive field has.
const PART: f64 = 0.99;

/// The loss of the text with rows of their own for its tokens may differ by rounding alone, in nats.
const ROUNDING: f64 = 1e-3;

/// The norm of the gradient of the last loss by the embedding of each token, from the last token back: `[tokens]`.
///
/// `traced` is the model that tracks gradients, and `reading` is of it. Tokens stand in rows of their own here. `Ok(Err(reason))` where that changes the
/// last loss, `known`, and where that loss is so low that nothing changes it.
pub(super) fn by_distance(
    model: &Gpt,
    traced: &Gpt,
    reading: &Reading,
    tokens: &[u32],
    target: u32,
    known: f64,
) -> Result<Result<Vec<f64>, &'static str>> {
    let (length, table) = (tokens.len(), model.embedding.val());
    let ids = upload(tokens, [1, length], &table.device()).reshape([length]);
    let device = traced.embedding.device();
    let mut traced = traced.clone();
    if traced.head.is_none() {
        traced.head = Some(Param::from_tensor(Tensor::from_inner(table.clone().transpose())));
    }
    // A row of its own for each token of the text: its gradient is that of one place.
    traced.embedding = Param::from_tensor(Tensor::from_inner(table.select(0, ids)));
    let places: Vec<u32> = (0..length as u32).collect();
    let positions = reading.layout().positions(length);
    let pass =
        Pass { tokens: upload(&places, [1, length], &device), positions: &positions, reading, dropout: None };
    let loss = traced.nll(&pass, upload(&[target], [1, 1], &device), length - 1..length).sum();
    let found = numbers("the loss", loss.clone())?[0];
    if (f64::from(found) - known).abs() > ROUNDING * known.max(1.0) {
        return Ok(Err("the encoding looks at the tokens themselves"));
    }
    let gradients = loss.backward();
    let gradient = traced.embedding.val().grad(&gradients);
    let gradient = gradient.ok_or_else(|| Error::failed("the loss does not depend on the text"))?;
    let norms = (gradient.clone() * gradient).sum_dim(1); // [tokens, 1]
    let mut norms: Vec<f64> =
        numbers("the gradient", norms)?.into_iter().map(|x| f64::from(x).sqrt()).collect();
    norms.reverse();
    let sum: f64 = norms.iter().sum();
    if !(sum > 0.0 && sum.is_finite()) {
        return Ok(Err("the gradient of the last loss of a text is 0 or no number"));
    }
    Ok(Ok(norms))
}

/// Why the receptive field of a reading is not measured; none where it is.
///
/// A gradient that the model cuts off, or that leaves a part of its way out, says nothing about how far the loss depends on the text.
pub(super) fn refused(reading: &Reading) -> Option<String> {
    if reading.memory() > 0 {
        let memory = "no gradient flows into the memory of earlier segments, although tokens there are read";
        return Some(format!("the receptive field is not measured: {memory}"));
    }
    let by_entropy = reading.layers().iter().any(|layer| layer.log_n == LogN::ByEntropy);
    by_entropy.then(|| {
        "the receptive field is not measured: no gradient flows through the temperature by entropy, which all keys decide".to_owned()
    })
}

/// The receptive field of the mean of some gradients `[texts][tokens]`, its jackknife error over the documents of these texts, and how many there are.
pub(super) fn receptive_field(
    gradients: &[Vec<f64>],
    documents: &[usize],
) -> Option<(f64, Option<f64>, usize)> {
    let of = |left_out: Option<usize>| {
        let mut mean = vec![0.0; gradients.iter().map(Vec::len).max()?];
        for (gradient, _) in
            gradients.iter().zip(documents).filter(|(_, document)| Some(**document) != left_out)
        {
            mean.iter_mut().zip(gradient).for_each(|(sum, part)| *sum += part);
        }
        let total: f64 = mean.iter().sum();
        let mut so_far = 0.0;
        let nearest = mean.iter().position(|part| {
            so_far += part;
            so_far >= PART * total
        });
        Some(nearest? as f64 + 1.0)
    };
    let all = of(None)?;
    let each: BTreeSet<usize> = documents.iter().copied().collect();
    let count = each.len() as f64;
    let parts: Vec<f64> = each.iter().filter_map(|&document| of(Some(document))).collect();
    let mean = parts.iter().sum::<f64>() / count;
    let squares: f64 = parts.iter().map(|part| (part - mean).powi(2)).sum();
    Some((all, (each.len() > 1).then(|| ((count - 1.0) / count * squares).sqrt()), each.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receptive_field_has_all_but_a_hundredth() {
        assert_eq!(receptive_field(&[vec![0.5, 0.4, 0.095, 0.005]], &[0]), Some((3.0, None, 1)));
        let (all, error, count) =
            receptive_field(&[vec![1.0, 0.0, 0.0], vec![0.0, 0.0, 1.0]], &[0, 1]).unwrap();
        // Without the first text it is 3, without the second 1.
        assert_eq!((all, error, count), (3.0, Some(1.0), 2));
        assert_eq!(receptive_field(&[], &[]), None);
    }

    #[test]
    fn texts_of_one_document_are_left_out_together() {
        let texts = [vec![1.0, 0.0, 0.0], vec![1.0, 0.0, 0.0], vec![0.0, 0.0, 1.0]];
        // Without document 4 it is 3, without document 7 it is 1: over texts the error would be 4/3.
        assert_eq!(receptive_field(&texts, &[4, 4, 7]), Some((3.0, Some(1.0), 2)));
        assert_eq!(receptive_field(&texts, &[4, 4, 4]), Some((3.0, None, 1)));
    }
}
