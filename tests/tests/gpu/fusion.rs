//! What burn's fusion is handed by a step of training.

use crate::{adapter, model, nll, values};
use burn::backend::fusion::custom::OperationIr;
use burn::backend::fusion::observer::{BlockOperations, FusionObservation, FusionObserver};
use longwave_train::parameters;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A length that no other test here has: they run beside this one, and the observer sees what all of them do.
const LENGTH: usize = 29;

/// Counts our own operations on texts of [`LENGTH`].
#[derive(Default)]
struct Ours(Mutex<BTreeMap<String, usize>>);

impl FusionObserver for Ours {
    fn registered(&self, operation: &OperationIr) {
        let OperationIr::Custom(operation) = operation else { return };
        if operation.outputs.iter().any(|output| output.shape.iter().any(|&axis| axis == LENGTH)) {
            *self.0.lock().unwrap().entry(operation.id.clone()).or_default() += 1;
        }
    }

    fn block_starts(&self, _: BlockOperations<'_>) {}

    fn block_ran(&self) {}
}

/// A kernel that is passed over leaves the same numbers behind, from plain operations.
#[test]
fn every_layer_runs_our_kernels_as_operations_of_the_fusion() {
    let Some(gpu) = adapter("our operations under fusion") else { return };
    let tracked = gpu.clone().autodiff();
    let model = model("rope", &tracked);
    let ours = Arc::new(Ours::default());
    let observation = FusionObservation::new(ours.clone());
    let loss = nll(&model, None, 0, LENGTH, &tracked).mean();
    let gradients = parameters::gradients(&model, &mut loss.backward());
    // What has been read has been run.
    for gradient in gradients {
        values(gradient);
    }
    drop(observation);

    let layers = model.blocks.len();
    // Two norms in a block, and one before the head.
    let norms = 2 * layers + 1;
    let expected = [
        ("longwave_attention", layers),
        ("longwave_attention_backward", layers),
        ("longwave_gelu", layers),
        ("longwave_gelu_backward", layers),
        // The gradients of q and k, turned back, and that of v as packed rows.
        ("longwave_merge", layers),
        ("longwave_norm", norms),
        ("longwave_norm_backward", norms),
        ("longwave_split", layers),
    ];
    let expected: Vec<_> = expected.map(|(id, count)| (id.to_owned(), count)).into();
    assert_eq!(ours.0.lock().unwrap().clone().into_iter().collect::<Vec<_>>(), expected);
}
