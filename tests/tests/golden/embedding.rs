//! Kind `embedding`: what enters the blocks.

use crate::build::{config, dimensions, encoding, positions, with_key};
use crate::file::Case;
use burn::tensor::{Device, Int, Tensor, TensorData};
use longwave_position::encoding::{Rows, TrainingDraw};
use longwave_position::{Dimensions, Position};

/// Checks one case of a file; the file's name is the encoding's kind, or that and a variant.
pub fn check(name: &str, case: &Case) {
    match name {
        "complex_order" => return waves(case),
        "abacus" => return places(case),
        _ => {}
    }
    let x = case.input("x");
    let [length, width] = x.shape[..] else { panic!("x {:?}", x.shape) };
    let mut dimensions = dimensions(1, width, width);
    let config = match name {
        "radix_number" => with_key(config("radix", &case.config, &[]), "digits_as", "numbers"),
        "learned_past_table" => config("learned", &case.config, &[]),
        _ => config(name, &case.config, &["layers"]),
    };
    if case.config.get("layers").is_some() {
        dimensions.layers = case.usize("layers");
    }
    let encoding = encoding(&config, &dimensions, case.params());
    let positions = positions(&case.input("positions"));
    encoding.check(&positions).unwrap_or_else(|error| panic!("{error}"));
    let tokens = Tensor::<2, Int>::zeros([1, length], &Device::flex());
    let rows = Rows::new(0, &tokens, &positions);
    let h = encoding.embed(x.burn::<2>().unsqueeze::<3>(), rows, &mut None);
    let mut outputs = case.outputs();
    outputs.compare("h", h.squeeze_dim::<2>(0));
    if let Some(radix) = encoding.get::<longwave_position::encodings::radix::Radix>() {
        outputs.compare_f64("coords", &radix.coordinates(&positions));
    }
    if let Some(floater) = encoding.get::<longwave_position::encodings::floater::Floater>() {
        let paths = (0..dimensions.layers).map(|layer| floater.path(layer, &positions)).collect();
        outputs.compare("p", Tensor::cat(paths, 0));
    }
    outputs.done();
}

/// Tokens as waves: the hidden state is the real half, then the imaginary one.
fn waves(case: &Case) {
    let half = case.usize("width");
    let dimensions = Dimensions { vocab_size: case.usize("vocab"), ..dimensions(1, 2 * half, 2 * half) };
    let encoding =
        encoding(&config("complex_order", &case.config, &["vocab", "width"]), &dimensions, case.params());
    let tokens: Vec<i64> = case.input("tokens").data.iter().map(|&token| token as i64).collect();
    let length = tokens.len();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [1, length]), &Device::flex());
    let positions = positions(&case.input("positions"));
    let rows = Rows::new(0, &tokens, &positions);
    let hidden = Tensor::zeros([1, length, 2 * half], &Device::flex());
    let waves = encoding.embed(hidden, rows, &mut None).squeeze_dim::<2>(0);
    let mut outputs = case.outputs();
    outputs.compare("real", waves.clone().slice_dim(1, 0..half));
    outputs.compare("imag", waves.slice_dim(1, half..2 * half));
    outputs.done();
}

/// The places of digits, raised by the offset of a case: that of some step of a training that draws up to it.
fn places(case: &Case) {
    let x = case.input("x");
    let [length, width] = x.shape[..] else { panic!("x {:?}", x.shape) };
    let config = config("abacus", &case.config, &["offset"]);
    let offset = case.usize("offset");
    let config = with_key(config, "max_offset", offset as i64);
    let encoding = encoding(&config, &dimensions(1, width, width), case.params());
    let abacus = encoding.get::<longwave_position::encodings::abacus::Abacus>().unwrap();
    let tokens: Vec<i64> = case.input("tokens").data.iter().map(|&token| token as i64).collect();
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [1, length]), &Device::flex());
    let positions = positions(&case.input("positions"));
    let draw = (offset > 0).then(|| {
        let of_step = |step| TrainingDraw { seed: 0, step };
        let drawn = |draw: &TrainingDraw| abacus.offset(Some(*draw)) == offset;
        (0..10_000).map(of_step).find(drawn).expect("a step that draws the offset")
    });
    let mut outputs = case.outputs();
    let digits = abacus.places(&tokens, None).into_data_as::<i32>().try_to_vec::<i32>().unwrap();
    let index: Vec<f64> = digits
        .into_iter()
        .map(|place| if place > 0 { f64::from(place) + offset as f64 } else { 0.0 })
        .collect();
    outputs.compare_f64("index", &index);
    let rows = Rows { draw, ..Rows::new(0, &tokens, &positions) };
    let h = abacus.embed(x.burn::<2>().unsqueeze::<3>(), rows, &mut None);
    outputs.compare("h", h.squeeze_dim::<2>(0));
    outputs.done();
}
