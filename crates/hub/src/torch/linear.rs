//! Biases by distance that are a sum of tables, each times one number of a parameter: they are found by asking the encoding.

use burn::tensor::Tensor;
use longwave_position::encodings::Encoding;
use longwave_position::parameter::{replaced, shapes};
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
    let tried: Vec<f32> = (0..count).map(|index| 0.3 + 0.7 * (index % 5) as f32).collect();
    let sum = |place: usize| {
        constant[place] + tables.iter().zip(&tried).map(|(table, x)| table[place] * x).sum::<f32>()
    };
    let is_sum = with(&tried)?.iter().enumerate().all(|(place, x)| {
        let sum = sum(place);
        (sum - x).abs() <= TOLERANCE * (1.0 + sum.abs())
    });
    if !is_sum {
        return None;
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
