//! How many kernels a step launches, and what it uploads.

use super::*;
use longwave_kernels::device::{Counts, counted};

/// Kernels that a step may launch for each block, forward and backward, and besides.
const OF_BLOCK: [usize; 2] = [11, 13];
const BESIDES: usize = 20;

/// The launches of a forward pass with its loss, of the backward pass, and of the update, for a model of so many blocks.
fn of_step(layers: usize, device: &Device) -> [Counts; 3] {
    let tracked = device.clone().autodiff();
    let config = ModelConfig { size: NamedSize::Nano, layers: Some(layers), ..ModelConfig::default() };
    let position = PositionConfig::from_value(&"rope".into(), "position").unwrap();
    let resolved = config.resolve(VOCABULARY, TRAIN).unwrap();
    let model = Gpt::new(&resolved, &position, &Init::new(7, &tracked)).unwrap();
    let config = TrainConfig { length: TRAIN, steps: STEPS, ..TrainConfig::default() };
    let mut optimizer = Optimizer::new(&config, &parameters::list(&model), device);
    let (loss, forward) = counted(|| {
        let (hidden, targets) = hidden(&model, None, 0, TRAIN, &tracked);
        model.loss_of(hidden, targets, None)
    });
    let (gradients, backward) = counted(|| parameters::gradients(&model, &mut loss.backward()));
    let (_, update) = counted(|| {
        let scale = clipping(sums_of_squares(&gradients), config.clip);
        optimizer.update(model, gradients, &config, config.learning_rate, scale)
    });
    [forward, backward, update]
}

/// As many kernels as it takes to keep a GPU from waiting for the host.
#[test]
fn a_step_launches_few_kernels() {
    let Some(gpu) = adapter("launches of a step") else { return };
    // The first step of an encoding uploads its tables.
    let (four, five) = (of_step(4, &gpu), of_step(5, &gpu));
    let of_block = |pass: usize| five[pass].launched() - four[pass].launched();
    for (pass, name) in ["forward", "backward"].into_iter().enumerate() {
        assert!(
            of_block(pass) <= OF_BLOCK[pass],
            "{name}, 4 and 5 blocks: {:#?} {:#?}",
            four[pass],
            five[pass]
        );
    }
    let all: usize = four.iter().map(Counts::launched).sum();
    let besides = all - 4 * (of_block(0) + of_block(1));
    assert!(besides <= BESIDES, "{besides} besides the blocks: {four:#?}");
    let tokens = 2 * TRAIN * size_of::<i32>();
    let uploaded: u64 = five.iter().map(|counts| counts.uploaded).sum();
    assert_eq!(uploaded, 2 * tokens as u64, "tokens and targets alone: {five:?}");
}
