//! Biases by distance that are a sum of tables, each times one number of a parameter: they are found by asking the encoding.

use burn::tensor::Tensor;
use longwave_position::encodings::Encoding;
use longwave_position::parameter::{replaced, shapes, values};
use serde_json::{Value, json};

/// Numbers of parameters that are tried one by one, at most.
const MOST: usize = 4096;

/// How far a bias may be off the sum that was found.
const TOLERANCE: f32 = 1e-4;

/// The bias where all parameters are 0, `[heads, distances]` row-major, and for each parameter the places of its numbers that matter, each with
/// its table. `None` where the bias is no such sum. `of` gives the bias of an encoding.
pub(super) fn tables(
    encoding: &Encoding,
    heads: usize,
    of: impl Fn(&Encoding) -> Option<Vec<f32>>,
) -> Option<(Vec<f32>, Value)> {
    let shapes = shapes(encoding);
    let counts: Vec<usize> = shapes.iter().map(|(_, shape)| shape.iter().product()).collect();
    let count: usize = counts.iter().sum();
    if count > MOST {
        return None;
    }
    let with = |mut numbers: &[f32]| {
        of(&replaced(encoding.clone(), |_, old| {
            let (own, others) = numbers.split_at(old.dims()[0]);
            numbers = others;
            Tensor::from_floats(own, &old.device())
        }))
    };
    let constant = with(&vec![0.0; count])?;
    let mut tables = Vec::new();
    for index in 0..count {
        let mut unit = vec![0.0; count];
        unit[index] = 1.0;
        tables.push(with(&unit)?.iter().zip(&constant).map(|(a, b)| a - b).collect::<Vec<f32>>());
    }
    let is_sum = |numbers: &[f32]| {
        let found = with(numbers)?;
        let is_sum = found.iter().enumerate().all(|(place, x)| {
            let terms = tables.iter().zip(numbers).map(|(table, number)| table[place] * number);
            let sum = constant[place] + terms.sum::<f32>();
            (sum - x).abs() <= TOLERANCE * (1.0 + sum.abs())
        });
        Some(is_sum)
    };
    let above_0: Vec<f32> = (0..count).map(|index| 0.3 + 0.7 * (index % 5) as f32).collect();
    // |c| is a multiple of c above 0 alone, and a bound of c may lie so far from 0 that only the model's own numbers show it.
    let below_0 = above_0.iter().map(|number| -number).collect();
    let own = values(encoding).into_iter().flat_map(|own| own.into_data().iter::<f32>().collect::<Vec<_>>());
    for tried in [above_0, below_0, own.collect()] {
        if !is_sum(&tried)? {
            return None;
        }
    }
    let mut written = serde_json::Map::new();
    let mut tables = tables.into_iter();
    for ((name, _), count) in shapes.into_iter().zip(counts) {
        let own = tables.by_ref().take(count).enumerate();
        let (places, own): (Vec<usize>, Vec<Value>) = own
            .filter(|(_, table)| table.iter().any(|x| *x != 0.0))
            .map(|(place, table)| (place, by_head(&table, heads)))
            .unzip();
        written.insert(name, json!([places, own]));
    }
    Some((constant, Value::Object(written)))
}

/// A table `[heads, distances]`; what is no number of f32 hides a key.
pub(super) fn by_head(table: &[f32], heads: usize) -> Value {
    let row = |row: &[f32]| row.iter().map(|x| x.max(f32::MIN)).collect::<Vec<f32>>();
    table.chunks((table.len() / heads).max(1)).map(|of_head| json!(row(of_head))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use longwave_position::encoding::Dimensions;
    use longwave_position::{EncodingConfig, Init};

    /// What is found of an encoding whose bias is a function of the number of each of two heads, at one distance.
    fn found(bias: fn(f32) -> f32, trained: [f32; 2]) -> Option<(Vec<f32>, Value)> {
        let sizes = Dimensions {
            layers: 1,
            width: 8,
            heads: 2,
            kv_heads: 2,
            head_dim: 4,
            train_length: 16,
            vocab_size: 16,
        };
        let keys = "kind = 'alibi'\nlearned_slopes = true".parse::<toml::Table>().unwrap();
        let config = EncodingConfig::from_value(&toml::Value::Table(keys), "position").unwrap();
        let fresh = config.build(&sizes, &Init::new(0, &Device::flex()));
        let encoding = replaced(fresh, |_, old| Tensor::from_floats(trained, &old.device()));
        tables(&encoding, 2, |encoding| {
            let numbers = values(encoding).remove(0).into_data();
            Some(numbers.iter::<f32>().map(bias).collect())
        })
    }

    #[test]
    fn only_a_bias_that_is_a_sum_at_every_sign_and_as_trained_is_one() {
        let (constant, tables) = found(|c| 3.0 * c + 1.0, [0.5, -0.5]).unwrap();
        assert_eq!(constant, [1.0, 1.0]);
        assert_eq!(tables["slopes"], json!([[0, 1], [[[3.0], [0.0]], [[0.0], [3.0]]]]));
        // A multiple above 0 alone, and one down to a number that training has passed.
        assert!(found(f32::abs, [0.5, -0.5]).is_none());
        assert!(found(|c| c.max(-5.0), [1.0, -9.0]).is_none());
        assert!(found(|c| c.max(-5.0), [1.0, -4.0]).is_some());
    }
}
