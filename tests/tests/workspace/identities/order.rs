//! What is stated of order: who knows it, and from what.

use super::{ROWS, SIZES, added, assert_close, build, entered, matrix, random, sized};
use burn::module::Module;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_model::{Gpt, ModelConfig, Pass};
use longwave_position::encoding::Rows;
use longwave_position::{Dimensions, Encoding, Init, PositionConfig, Positions};

/// Attention of all rows with all rows, without a mask, of x `[rows, width]` turned as the encoding turns them.
fn unmasked(encoding: &Encoding, x: Tensor<2>) -> Tensor<2> {
    let [rows, width] = x.dims();
    let x = entered(encoding, x.unsqueeze(), &Positions::range(0..rows)).squeeze_dim::<2>(0);
    let [q, k, v] = ["q", "k", "v"].map(|name| x.clone().matmul(random::<2>(name, [width, width])));
    softmax(q.matmul(k.transpose()), 1).matmul(v)
}

#[test]
fn without_a_mask_and_without_an_encoding_order_is_invisible() {
    let order = [3, 1, 4, 0, 8, 6, 2, 7, 5];
    let index = Tensor::<1, Int>::from_data(order, &Device::flex());
    let x = random::<2>("x", [ROWS, SIZES.width]);
    let moved = |encoding: &Encoding| -> f32 {
        let after = unmasked(encoding, x.clone().select(0, index.clone()));
        let before = unmasked(encoding, x.clone()).select(0, index.clone());
        (after - before).abs().max().into_scalar()
    };
    assert!(moved(&build("kind = 'none'")) < 1e-5, "the rows give the same, in the other order");
    assert!(moved(&build("kind = 'sinusoidal'")) > 1e-2, "an encoding tells them apart");
}

/// How far the last row's logits move when two earlier tokens change places, under the causal mask.
fn moved_by_a_swap(layers: usize) -> f32 {
    let device = Device::flex();
    let config =
        ModelConfig { layers: Some(layers), width: Some(16), heads: Some(2), ..ModelConfig::default() };
    let none = PositionConfig::from_value(&"none".into(), "position").unwrap();
    let model = Gpt::new(&config.resolve(16, 16).unwrap(), &none, &Init::new(1, &device)).unwrap();
    // Fresh weights hardly attend.
    let model = longwave_train::parameters::replace(model, |_, old| old.mul_scalar(10.0));
    let last = |tokens: [i32; 6]| {
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens.to_vec(), [1, 6]), &device);
        let pass =
            Pass { tokens, positions: &Positions::range(0..6), reading: &model.position, dropout: None };
        model.logits(model.hidden(&pass)).slice_dim(1, 5..6)
    };
    (last([3, 1, 4, 5, 9, 2]) - last([4, 1, 3, 5, 9, 2])).abs().max().into_scalar()
}

#[test]
fn under_the_causal_mask_two_layers_know_order_without_an_encoding() {
    // Stated that a model without an encoding reads a bag of words: one causal layer does, two do not.
    assert!(moved_by_a_swap(1) < 1e-4, "{}", moved_by_a_swap(1));
    assert!(moved_by_a_swap(2) > 1e-2, "{}", moved_by_a_swap(2));
}

#[test]
fn zero_padding_marks_the_start_of_a_constant_input() {
    let kernel = 4;
    let encoding = build(&format!("kind = 'causal_conv'\nkernel = {kernel}"));
    let constant = Tensor::<3>::ones([1, 12, SIZES.width], &Device::flex());
    let rows = matrix(entered(&encoding, constant, &Positions::range(0..12)).squeeze_dim::<2>(0));
    for (m, row) in rows.iter().enumerate() {
        let apart = row.iter().zip(&rows[11]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert_eq!(apart > 1e-4, m < kernel - 1, "row {m} differs by {apart}");
    }
}

#[test]
fn the_bare_index_has_no_bound_and_its_share_of_the_length_no_fixed_step() {
    let size = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let bare = added(&build("kind = 'index'"), &Positions::range(0..1000));
    assert_close(
        size(&bare[999]),
        999.0 * size(&bare[1]),
        1e-3 * size(&bare[999]),
        "it grows with the index",
    );
    let share = build("kind = 'index'\nnormalized = true");
    let (short, long) = (added(&share, &Positions::range(0..11)), added(&share, &Positions::range(0..101)));
    // The same value, 0.1, is position 1 of eleven and position 10 of a hundred and one.
    assert_close(size(&short[1]), size(&long[10]), 1e-6, "0.1");
    assert_close(size(&short[1]), 10.0 * size(&long[1]), 1e-5, "a step of one token");
    assert_close(size(&long[100]), size(&short[10]), 1e-6, "bounded");
}

#[test]
fn a_table_of_1024_positions_and_768_channels_has_786432_parameters() {
    let sizes = Dimensions { train_length: 1024, width: 768, ..SIZES };
    let table = sized("kind = 'learned'", &sizes);
    assert_eq!(table.num_params(), 786_432);
    assert!(table.check(&Positions::range(0..1024)).is_ok());
    assert!(table.check(&Positions::range(0..1025)).is_err(), "past it there is no vector");
}

#[test]
fn a_token_as_a_complex_wave_keeps_its_amplitude() {
    // r e^(i (w m + th)): the position turns it, its size is the token's alone.
    let encoding = build("kind = 'complex_order'");
    let half = SIZES.width / 2;
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(vec![5i32; ROWS], [1, ROWS]), &Device::flex());
    let positions = Positions::range(20..20 + ROWS);
    let rows = Rows::new(0, &tokens, &positions);
    let waves = encoding.embed(Tensor::zeros([1, ROWS, SIZES.width], &Device::flex()), rows, &mut None);
    let waves = matrix(waves.squeeze_dim::<2>(0));
    let complex = encoding.get::<longwave_position::encodings::complex_order::ComplexOrder>().unwrap();
    let [r, w, th] = [&complex.r, &complex.w, &complex.th].map(|table| matrix(table.val())[5].clone());
    for (row, wave) in waves.iter().enumerate() {
        let m = (20 + row) as f64;
        for channel in 0..half {
            let (sin, cos) = (w[channel] * m + th[channel]).sin_cos();
            assert_close(wave[channel], r[channel] * cos, 2e-4, "real");
            assert_close(wave[half + channel], r[channel] * sin, 2e-4, "imaginary");
            assert_close(wave[channel].hypot(wave[half + channel]), r[channel].abs(), 1e-5, "amplitude");
        }
    }
}

#[test]
fn multiplied_vectors_act_channel_by_channel() {
    let encoding = build("kind = 'multiplicative'");
    let multiplicative =
        encoding.get::<longwave_position::encodings::multiplicative::Multiplicative>().unwrap();
    let table = matrix(multiplicative.table.val());
    let x = random::<3>("x", [1, ROWS, SIZES.width]);
    let found = matrix(entered(&encoding, x.clone(), &Positions::range(0..ROWS)).squeeze_dim::<2>(0));
    for (row, x) in matrix(x.squeeze_dim::<2>(0)).iter().enumerate() {
        for channel in 0..SIZES.width {
            assert_close(found[row][channel], x[channel] * table[row][channel], 1e-4, "x times p");
        }
    }
}
