use super::*;
use burn::tensor::{Device, Tensor, TensorData};
use longwave_eval::Split;

/// The probabilities of one head, a row a query.
fn shown(sums: &mut WindowSums, first_query: usize, first_key: usize, rows: &[&[f32]]) {
    let values = TensorData::new(rows.concat(), [1, 1, rows.len(), rows[0].len()]);
    let values = Tensor::<4>::from_data(values, &Device::flex());
    let queries = first_query..first_query + rows.len();
    let projected = &[values.clone(), values.clone()];
    let (values, logits, mapped) = (&values, &values, std::slice::from_ref(projected));
    sums.add(&Probabilities { layer: 0, queries, first_key, values, logits, projected, mapped }).unwrap();
}

fn sample(lengths: &[usize]) -> Sample {
    let windows: Vec<Vec<u32>> = lengths.iter().map(|&length| vec![0; length]).collect();
    Sample { split: Split::Valid, documents: windows.len(), windows, unit: "document" }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn probabilities_are_summed_by_distance() {
    let mut sums = WindowSums::default();
    sums.begin(4);
    // Blocks may come with later keys, which are hidden.
    shown(&mut sums, 2, 0, &[&[0.5, 0.25, 0.25, 0.0], &[0.1, 0.2, 0.3, 0.4]]);
    let measured = sums.finish(&sample(&[4]), 2);
    assert_eq!(measured.distances, [[0, 0], [1, 1], [2, 2], [3, 3]]);
    let profile = &measured.layers[0].mean;
    // At distance 3 there is one pair, at the others there are two.
    for (found, expected) in profile.probability.iter().zip([0.325, 0.275, 0.35, 0.1]) {
        assert!(near(*found, expected), "{profile:?}");
    }
    assert!(near(profile.mean_distance, 1.125), "{profile:?}");
    assert!(near(profile.first_token, 0.3) && near(profile.nearest, 1.0), "{profile:?}");
    assert!(near(profile.within_train_length, 0.6) && near(profile.beyond_train_length, 0.4), "{profile:?}");
    assert!(near(profile.to_no_key, 0.0), "{profile:?}");
    assert_eq!(&measured.layers[0].heads, std::slice::from_ref(profile));
}

#[test]
fn a_piece_of_a_text_knows_where_it_lies() {
    let mut sums = WindowSums::default();
    sums.begin(4);
    // The key before the segment is one of its memory.
    shown(&mut sums, 2, 1, &[&[0.75, 0.25, 0.0], &[0.25, 0.25, 0.25]]);
    let measured = sums.finish(&sample(&[4]), 16);
    let profile = &measured.layers[0].mean;
    for (found, expected) in profile.probability.iter().zip([0.25, 0.5, 0.125, 0.0]) {
        assert!(near(*found, expected), "{profile:?}");
    }
    assert!(near(profile.first_token, 0.0) && near(profile.to_no_key, 0.125), "{profile:?}");
    assert!(profile.beyond_train_length.is_sign_positive(), "{profile:?}");
    // Of what is given to keys, which is less than all.
    assert!(near(profile.mean_distance, 1.5 / 1.75), "{profile:?}");
}

#[test]
fn windows_of_any_length_are_averaged() {
    let mut sums = WindowSums::default();
    sums.begin(1);
    shown(&mut sums, 0, 0, &[&[1.0]]);
    sums.begin(2);
    shown(&mut sums, 1, 0, &[&[0.8, 0.2]]);
    let measured = sums.finish(&sample(&[1, 2]), 2);
    assert_eq!(measured.tokens, [1, 2]);
    let profile = &measured.layers[0].mean;
    assert!(near(profile.probability[0], 0.6) && near(profile.probability[1], 0.8), "{profile:?}");
    assert!(near(profile.first_token, 0.9) && near(profile.mean_distance, 0.4), "{profile:?}");
}

#[test]
fn far_distances_share_bins() {
    assert_eq!(bins(3), [[0, 0], [1, 1], [2, 2]]);
    assert_eq!(bins(65).len(), 65);
    assert_eq!(bins(67)[64..], [[64, 64], [65, 66]]);
    let all = bins(4096);
    assert!(all.windows(2).all(|pair| pair[1][0] == pair[0][1] + 1), "no gap");
    assert_eq!(all.last().unwrap()[1], 4095);
    let doubling = all.iter().filter(|[first, _]| (1024..2048).contains(first)).count();
    assert_eq!(doubling, 16);
}

/// Of a head, at two distances.
pub(crate) fn profile(mean_distance: f64, to_no_key: f64) -> Profile {
    Profile {
        probability: vec![0.5, 0.25],
        mean_distance,
        first_token: 0.125,
        nearest: 0.75,
        within_train_length: 0.9,
        beyond_train_length: 0.1 - to_no_key,
        to_no_key,
    }
}

/// Two layers with the same heads, the first of which is given as their mean.
pub(crate) fn of_two_layers(heads: &[Profile], distances: &[[usize; 2]]) -> AttentionByDistance {
    let layer = |index| LayerAttention { index, mean: heads[0].clone(), heads: heads.to_vec() };
    AttentionByDistance {
        split: "valid".to_owned(),
        windows: 8,
        tokens: [512, 512],
        documents: 1,
        unit: "document",
        train_length: 128,
        distances: distances.to_vec(),
        layers: vec![layer(0), layer(1)],
    }
}

#[test]
fn the_table_has_a_row_for_every_head() {
    let measured = |to_no_key| {
        let heads = [12.34, 123.0].map(|mean_distance| profile(mean_distance, to_no_key));
        Attention::ByDistance(of_two_layers(&heads, &[[0, 0], [1, 1]]))
    };
    let expected = "\
attention by distance: mean over the queries in the second half of 8 windows of 512 tokens, from 1 document of the split `valid`
layer  head  mean distance  first token    last 8  within L  beyond L
    0   all           12.3       0.1250    0.7500    0.9000    0.1000
    0     0           12.3       0.1250    0.7500    0.9000    0.1000
    0     1          123.0       0.1250    0.7500    0.9000    0.1000
    1   all           12.3       0.1250    0.7500    0.9000    0.1000
    1     0           12.3       0.1250    0.7500    0.9000    0.1000
    1     1          123.0       0.1250    0.7500    0.9000    0.1000
";
    assert_eq!(measured(0.0).text(), expected);
    let expected = "\
attention by distance: mean over the queries in the second half of 8 windows of 512 tokens, from 1 document of the split `valid`
layer  head  mean distance  first token    last 8  within L  beyond L  to no key
    1   all           12.3       0.1250    0.7500    0.9000    0.0500     0.0500
    1     0           12.3       0.1250    0.7500    0.9000    0.0500     0.0500
    1     1          123.0       0.1250    0.7500    0.9000    0.0500     0.0500
";
    assert_eq!(measured(0.05).of_layers(&[1]).text(), expected);
    let none = Attention::None { why_not: "there is nothing".to_owned() };
    assert_eq!(none.text(), "attention by distance: not measured, because there is nothing\n");
}
