//! Laws of capabilities: each field says what the hooks do.

use super::inputs::{Inputs, SCALE, attend, dimensions, random};
use super::{Build, Outcome, apart, ensure};
use crate::encoding::{HeadUse, Heads, HiddenUse, MapsByDistance, QueryBlock, ScoreForm, ScoreUse};
use crate::positions::Positions;
use burn::tensor::{Device, Int, Tensor};
use longwave_kernels::{Attention, Bias, PathAttention, RelativeVectors, attention, path_attention};

const LENGTH: usize = 9;

/// Positions in order, and ones that kernels by distance do not take.
fn cases() -> [Positions; 2] {
    [Positions::range(0..LENGTH), Positions::range(0..LENGTH).map(|m| 1.5 * m)]
}

/// `bias_use`, `score_use`, `needs_scores` and `scratch_per_score`.
pub(super) fn of_scores(build: Build<'_>) -> Outcome {
    let device = Device::flex();
    let subject = build(&dimensions(), &device);
    let (position, capabilities) = (&*subject, subject.capabilities());
    ensure(capabilities.scratch_per_score >= 1, || "a score takes at least one number".to_owned())?;
    for positions in cases().into_iter().filter(|positions| position.check(positions).is_ok()) {
        let inputs = Inputs::random("", LENGTH, &device);
        let [q, k] = inputs.heads(position, 1, &positions);
        let rows = inputs.rows(position, 1, &positions);
        let block = QueryBlock { rows, queries: &(0..LENGTH), input: &inputs.hidden };
        if capabilities.score_use == ScoreUse::Scales {
            let scores = |value: f64| {
                let scores = Tensor::full([1, dimensions().heads, LENGTH, LENGTH], value, &device);
                position.scores(scores, Heads { q: &q, k: &k, scale: 1.0 }, block)
            };
            let factor = (scores(1.0) - scores(0.0)).slice_dim(2, LENGTH - 1..LENGTH);
            let far = factor.clone().slice_dim(3, 0..1) - factor.slice_dim(3, LENGTH - 1..LENGTH);
            ensure(far.min().into_scalar::<f32>() > 1e-3, || {
                "`score_use` is `Scales`, and the factor on scores does not grow with the distance".to_owned()
            })?;
        }
        let discards = position.needs_scores(&positions) && {
            let scores = random::<4>("scores", [1, dimensions().heads, LENGTH, LENGTH], &device);
            let of = |scores: Tensor<4>| position.scores(scores, Heads { q: &q, k: &k, scale: 1.0 }, block);
            apart(&of(scores.clone()), &of(scores.mul_scalar(-2.0))) == 0.0
        };
        ensure(discards == (capabilities.score_use == ScoreUse::Computes), || {
            format!(
                "`score_use` is {:?}, and `scores` reads those that it is given: {}",
                capabilities.score_use, !discards
            )
        })?;
        let bias = position.bias(block);
        ensure(matches!(bias, Bias::None) != capabilities.adds_bias(), || {
            format!("`bias_use` is {:?}", capabilities.bias_use)
        })?;
        let form = position.score_form(block);
        let adds = capabilities.adds_vectors();
        let needs_scores = position.needs_scores(&positions);
        ensure(!(adds && needs_scores && positions.consecutive()), || {
            "what is described needs no scores".to_owned()
        })?;
        ensure(matches!(form, ScoreForm::Vectors { .. }) == (adds && !needs_scores), || {
            format!(
                "`score_use` is {:?}, and `needs_scores` at these positions {needs_scores}",
                capabilities.score_use
            )
        })?;
        let of_scores = matches!(form, ScoreForm::Added(_) | ScoreForm::Reflections(_));
        ensure(!of_scores || needs_scores, || {
            "what is added to scores, and reflected keys, need scores".to_owned()
        })?;
        let v = || inputs.qkv[2].clone();
        let found = match form {
            ScoreForm::Added(added) => {
                let terms = added.terms(&q, &k);
                let options = Attention { terms, scale: SCALE, ..Attention::causal(1) };
                Some(attention(q.clone(), k.clone(), v(), &options))
            }
            ScoreForm::Reflections(reflections) => {
                let options = PathAttention { scale: SCALE, reflections, gates: None, first: 0 };
                Some(path_attention(q.clone(), k.clone(), v(), &options))
            }
            ScoreForm::Vectors { terms, factor } => {
                let (bias, scale) = (bias.clone(), SCALE * factor);
                let options = Attention { bias, terms, scale, ..Attention::causal(1) };
                Some(attention(q.clone(), k.clone(), v(), &options))
            }
            // Maps are held to what they describe by a law of their own.
            ScoreForm::Plain | ScoreForm::Maps(_) => None,
        };
        if let Some(found) = found {
            let (_, expected) = attend(position, 1, &positions, &inputs);
            let off = apart(&found, &expected);
            ensure(off < 1e-5, || format!("`score_form` is {off} off from `scores` and `values`"))?;
            continue;
        }
        if needs_scores {
            continue;
        }
        ensure(!matches!(bias, Bias::Block(_)), || "a block is a bias that needs scores".to_owned())?;
        let scores = q.clone().matmul(k.clone().swap_dims(2, 3));
        let changed = position.scores(scores.clone(), Heads { q: &q, k: &k, scale: 1.0 }, block);
        let values = position.values(&scores, block);
        ensure(apart(&scores, &changed) == 0.0 && values.is_none(), || {
            "`scores` or `values` acts where `needs_scores` is false".to_owned()
        })?;
    }
    Ok(())
}

/// The described maps do what `map_heads` does.
pub(super) fn of_described_maps(build: Build<'_>) -> Outcome {
    let device = Device::flex();
    let subject = build(&dimensions(), &device);
    let position = &*subject;
    for positions in cases().into_iter().filter(|positions| position.check(positions).is_ok()) {
        let inputs = Inputs::random("", LENGTH, &device);
        let rows = inputs.rows(position, 1, &positions);
        let block = QueryBlock { rows, queries: &(0..LENGTH), input: &inputs.hidden };
        let ScoreForm::Maps(MapsByDistance { query_bias, keys, key_bias }) = position.score_form(block)
        else {
            continue;
        };
        ensure(positions.consecutive(), || "maps are described at positions with gaps".to_owned())?;
        let (_, expected) = attend(position, 1, &positions, &inputs);
        let relative =
            RelativeVectors { keys: Some(keys), key_bias: Some(key_bias), ..RelativeVectors::default() };
        let options = Attention { terms: relative.into(), scale: SCALE, ..Attention::causal(1) };
        let [q, k, v] = inputs.qkv.clone();
        let q = q + query_bias.unsqueeze_dim::<3>(1).unsqueeze::<4>();
        let off = apart(&attention(q, k, v, &options), &expected);
        ensure(off < 1e-5, || format!("`score_form` is {off} off from the maps"))?;
    }
    Ok(())
}

/// `head_use` and `is_relative_qk`.
pub(super) fn of_heads(build: Build<'_>) -> Outcome {
    let device = Device::flex();
    let subject = build(&dimensions(), &device);
    let (position, capabilities) = (&*subject, subject.capabilities());
    let positions = Positions::range(0..LENGTH);
    let inputs = Inputs::random("", LENGTH, &device);
    let [q, k] = inputs.heads(position, 0, &positions);
    let widened = [&q, &k].iter().any(|x| x.dims()[3] != dimensions().head_dim);
    ensure(widened == capabilities.head_use.widens(), || {
        format!(
            "`head_use` is {:?}, and q and k become {:?} and {:?}",
            capabilities.head_use,
            q.dims(),
            k.dims()
        )
    })?;
    let product = |[q, k]: [Tensor<4>; 2]| q.matmul(k.swap_dims(2, 3));
    if !capabilities.head_use.reads() {
        let rows = inputs.rows(position, 0, &positions);
        let block = QueryBlock { rows, queries: &(0..LENGTH), input: &inputs.hidden };
        let [own_q, own_k, _] = inputs.qkv.clone();
        let mapped = |qk| position.map_heads(qk, [rows; 2]);
        let [mapped_q, mapped_k] = mapped([own_q.clone(), own_k.clone()]);
        if capabilities.head_use == HeadUse::None {
            let maps = [apart(&mapped_q, &own_q), apart(&mapped_k, &own_k)];
            // A map that does nothing gives back the same bits.
            ensure(maps.iter().all(|apart| apart.to_bits() == 0), || {
                "`map_heads` changes its input, and `head_use` is `None`".to_owned()
            })?;
        }
        // What each channel of q gains and k loses cancels in q.k, and nowhere else.
        let gain = Tensor::<1, Int>::arange(0..dimensions().head_dim as i64, &device).float().add_scalar(1.0);
        let gain: Tensor<4> = gain.reshape([1, 1, 1, -1]);
        let gained = product(mapped([own_q * gain.clone(), own_k / gain]));
        ensure(apart(&gained, &product([mapped_q, mapped_k])) < 1e-4, || {
            "`map_heads` reads q or k, and `head_use` does not say so".to_owned()
        })?;
        let scores = q.clone().matmul(k.clone().swap_dims(2, 3));
        let [other_q, other_k] = [q.clone().mul_scalar(2.0), k.clone().mul_scalar(3.0)];
        let of = |q, k| position.scores(scores.clone(), Heads { q, k, scale: 1.0 }, block);
        ensure(apart(&of(&q, &k), &of(&other_q, &other_k)) == 0.0, || {
            "`scores` reads q or k, and `head_use` does not say so".to_owned()
        })?;
    }
    let relative = capabilities.is_relative_qk;
    ensure(relative || position.rotation(0).is_none(), || {
        "q and k are rotated, and `is_relative_qk` is false".to_owned()
    })?;
    if relative {
        let [moved_q, moved_k] = inputs.heads(position, 0, &positions.map(|m| m + 40.0));
        let off = apart(&product([q, k]), &product([moved_q, moved_k]));
        ensure(off < 1e-3, || format!("`is_relative_qk` is true, and a shift changes q.k by {off}"))?;
    }
    Ok(())
}

/// `hidden_use`, `reads_input`, `reads_key_matrix` and the rows of `domain`.
pub(super) fn of_inputs(build: Build<'_>) -> Outcome {
    let device = Device::flex();
    let subject = build(&dimensions(), &device);
    let (position, capabilities) = (&*subject, subject.capabilities());
    let positions = Positions::range(0..LENGTH);
    let inputs = Inputs::random("", LENGTH, &device);
    let embedded = |inputs: &Inputs| {
        position.embed(inputs.hidden.clone(), inputs.rows(position, 0, &positions), &mut None)
    };
    let other = Inputs { hidden: random("other x", inputs.hidden.dims(), &device), ..inputs.clone() };
    let replaced = apart(&embedded(&inputs), &embedded(&other)) == 0.0;
    ensure(replaced == capabilities.replaces_hidden(), || {
        format!("`hidden_use` is {:?}", capabilities.hidden_use)
    })?;
    let at = |layer: usize| {
        let hidden =
            position.embed(inputs.hidden.clone(), inputs.rows(position, layer, &positions), &mut None);
        apart(&hidden, &inputs.hidden) > 0.0
    };
    let once = capabilities.hidden_use != HiddenUse::Adds;
    ensure(once || !at(0) || at(1), || {
        format!("`hidden_use` is {:?}, and nothing is added at the second layer", capabilities.hidden_use)
    })?;
    ensure(!once || !at(1), || {
        format!(
            "`hidden_use` is {:?}, and the second layer changes the hidden state",
            capabilities.hidden_use
        )
    })?;
    let out = |inputs: &Inputs| attend(position, 0, &positions, inputs).1;
    let plain = Inputs { input: Some(inputs.hidden.clone()), ..inputs.clone() };
    let changed = Inputs { input: Some(other.hidden.clone()), ..inputs.clone() };
    let reads = apart(&out(&plain), &out(&changed)) > 0.0;
    ensure(reads == capabilities.reads_input, || format!("`reads_input` is {}", capabilities.reads_input))?;
    let keys = Inputs { key_matrix: inputs.key_matrix.clone().mul_scalar(2.0), ..inputs.clone() };
    let reads = apart(&out(&inputs), &out(&keys)) > 0.0;
    ensure(reads == capabilities.reads_key_matrix, || {
        format!("`reads_key_matrix` is {}", capabilities.reads_key_matrix)
    })?;
    match capabilities.table_rows() {
        Some(rows) => position.check(&Positions::range(0..rows)).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}
