//! Kind `qk`: rotated or scaled q and k, and their frequencies.

use crate::build::{config, dimensions, encoding, positions};
use crate::file::{Case, Tensor};
use burn::tensor::Tensor as BurnTensor;
use longwave_kernels::rotate;
use longwave_position::{Encoding, Position};

/// Checks one case of a file; `rope_half` and its like are the kind `rope`.
pub fn check(name: &str, case: &Case) {
    let kind = if name.starts_with("rope") { "rope" } else { name };
    let (q, k) = (case.input("q"), case.input("k"));
    let [heads, _, head_dim] = q.shape[..] else { panic!("q {:?}", q.shape) };
    let encoding = encoding(
        &config(kind, &case.config, &[]),
        &dimensions(heads, head_dim, heads * head_dim),
        case.params(),
    );
    let mut outputs = case.outputs();
    if outputs.has("frequencies") {
        let frequencies = encoding.frequencies().expect("frequencies").inv_freq.clone();
        outputs.compare_f64("frequencies", &frequencies);
    }
    outputs.compare("q", turned(&encoding, &q, &case.input("q_positions")));
    outputs.compare("k", turned(&encoding, &k, &case.input("k_positions")));
    outputs.done();
}

fn turned(encoding: &Encoding, x: &Tensor, at: &Tensor) -> BurnTensor<3> {
    let x = x.burn::<3>().unsqueeze::<4>();
    let rotation = encoding.rotation(0).expect("a rotation");
    let table = rotation.table(&positions(at), &x.device());
    rotate(x, &table).squeeze_dim::<3>(0)
}
