//! The number of threads changes no bit of a training on the CPU, and one thread is enough.

use crate::common::trainer;
use crate::common::trainer::{metrics, train_with_vocabulary};
use crate::common::{Project, same};

/// Embeddings, logits and their gradients of 2^22 numbers and more, which burn would add in the order in which threads
/// finish. `clip` is so small that the sum of all squares reaches the weights.
#[test]
fn a_vocabulary_of_65_536_trains_alike_on_any_number_of_threads() {
    let changes = [
        "model.width=64",
        "model.layers=1",
        "train.steps=2",
        "train.batch_tokens=64",
        "train.accumulation=1",
        "train.clip=0.01",
        "train.validation_tokens=64",
        "evaluate=[]",
    ];
    let project = Project::new();
    let train = |folder: &str, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| train_with_vocabulary(&project, folder, 1 << 16, &changes));
        let numbers = |metric: trainer::Metric| {
            [Some(metric.loss), Some(metric.gradient_norm), metric.valid_loss].map(|x| x.map(f64::to_bits))
        };
        metrics(&project, folder).into_iter().map(numbers).collect::<Vec<_>>()
    };
    let weights = |folder: &str| project.path(folder).join("checkpoints/last.safetensors");
    let expected = train("one", 1);
    assert_eq!(expected.len(), 2);
    for folder in ["two", "two-again"] {
        assert_eq!(train(folder, 2), expected, "{folder}: the metrics");
        assert!(same(&weights(folder), &weights("one")), "{folder}: the weights");
    }
}

/// The thread that trains the tokenizer has help of its own: the program's only thread waits for it.
#[test]
fn one_thread_trains_the_tokenizer_and_the_model_as_three_do() {
    let [one, three] = ["1", "3"].map(|threads| {
        let project = Project::new();
        let tokenizer = "data.tokenizer={ kind = \"bpe\", vocab_size = 280 }";
        project.train(&["--set", tokenizer, "--threads", threads, "--out", "run"]);
        project
    });
    for file in ["run/tokenizer.json", "run/checkpoints/last.safetensors"] {
        let [a, b] = [&one, &three].map(|project| project.path(file));
        assert!(same(&a, &b), "{file}");
    }
}
