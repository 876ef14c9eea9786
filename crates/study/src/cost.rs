//! What a plan takes, before it is run: tokens and floating-point operations, and hours at a speed that
//! was measured.

use crate::plan::{Job, Plan};
use longwave_core::Result;
use longwave_data::{DataConfig, Split};
use longwave_eval::protocol::truncate;
use longwave_eval::{ResolvedEvaluate, Window};
use longwave_model::size::training_flops;
use std::collections::HashMap;

/// What a corpus is to a cost: its vocabulary, and the tokens of each document by split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// Tokens of the vocabulary.
    pub vocab_size: usize,
    /// Tokens of each document, in the order of [`Split::ALL`].
    pub documents: [Vec<usize>; 3],
}

/// What a run, or several, take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Training tokens.
    pub training_tokens: f64,
    /// Floating-point operations of training.
    pub training_flops: f64,
    /// Tokens read in evaluations, the window baseline included.
    pub evaluation_tokens: f64,
    /// Floating-point operations of evaluations.
    pub evaluation_flops: f64,
}

impl Cost {
    /// All floating-point operations.
    pub fn flops(&self) -> f64 {
        self.training_flops + self.evaluation_flops
    }

    /// Adds another cost.
    pub fn add(&mut self, other: &Self) {
        self.training_tokens += other.training_tokens;
        self.training_flops += other.training_flops;
        self.evaluation_tokens += other.evaluation_tokens;
        self.evaluation_flops += other.evaluation_flops;
    }
}

/// Tells what a corpus is.
pub type Corpora<'a> = dyn FnMut(&DataConfig) -> Result<Corpus> + 'a;

/// The cost of each run of a plan, in its order; `None` where it cannot be told, for want of an allowed
/// config or of documents long enough.
///
/// `corpora` is asked once for each different `[data]`.
pub fn costs(plan: &Plan, corpora: &mut Corpora<'_>) -> Vec<Option<Cost>> {
    let mut known: HashMap<String, Option<Corpus>> = HashMap::new();
    let mut readings: HashMap<String, Option<Vec<(usize, f64)>>> = HashMap::new();
    plan.runs
        .iter()
        .map(|run| {
            let job = run.job.as_ref().ok()?;
            let data = format!("{:?}", job.config.run.data);
            let corpus =
                known.entry(data.clone()).or_insert_with(|| corpora(&job.config.run.data).ok()).as_ref()?;
            let train_length = job.config.run.train.length;
            let evaluation = format!("{} {train_length} {data}", job.evaluation);
            let readings = readings.entry(evaluation).or_insert_with(|| readings_of(job, corpus)).as_ref()?;
            cost(job, corpus, readings)
        })
        .collect()
}

/// Tokens read at each length, over all evaluations of a job.
fn readings_of(job: &Job, corpus: &Corpus) -> Option<Vec<(usize, f64)>> {
    let mut readings = Vec::new();
    for evaluation in job.config.evaluations().ok()? {
        let block = &evaluation.block;
        let plan = |block: &ResolvedEvaluate, length| {
            let split = Split::ALL.iter().position(|split| *split == block.split)?;
            block.plan(length, &corpus.documents[split]).ok()
        };
        let trials = evaluation.open.iter().map(|open| open.trials(block));
        let reported = (block.clone(), evaluation.extensions.len() + evaluation.open.len());
        for (block, times) in std::iter::once(reported).chain(trials) {
            for &length in &block.lengths {
                readings.push((length, (tokens_read(&plan(&block, length)?) * times) as f64));
            }
        }
        let mut baselines = Vec::new();
        for &length in &block.lengths {
            let baseline = truncate(&plan(block, length)?, block.train_length, block.exact);
            // Past 2L the baseline is the same at every length, and is read once.
            if !baselines.contains(&baseline) {
                readings.push((block.train_length, tokens_read(&baseline) as f64));
                baselines.push(baseline);
            }
        }
    }
    Some(readings)
}

fn tokens_read(plan: &longwave_eval::Plan) -> usize {
    plan.windows.iter().map(Window::reading).sum()
}

fn cost(job: &Job, corpus: &Corpus, readings: &[(usize, f64)]) -> Option<Cost> {
    let run = &job.config.run;
    let resolved = run.model.resolve(corpus.vocab_size, run.train.length).ok()?;
    let memory = run.position.memory();
    let segment = run.stage(run.last_stage()).length;
    // A text is read in segments where there is a memory, which is seen whole: a causal half counts twice.
    let span = |length: usize, segment: usize| match memory {
        0 => length,
        memory => length.min(segment) + 2 * memory,
    };
    let mut cost = Cost::default();
    for stage in (0..=run.last_stage()).map(|stage| run.stage(stage)) {
        let tokens = stage.steps as f64 * stage.batch_tokens as f64;
        cost.training_tokens += tokens;
        cost.training_flops += tokens * training_flops(&resolved, span(stage.length, stage.length)) as f64;
    }
    for &(length, tokens) in readings {
        cost.evaluation_tokens += tokens;
        // A reading has the forward pass alone, a third of a training step's work.
        cost.evaluation_flops += tokens * training_flops(&resolved, span(length, segment)) as f64 / 3.0;
    }
    Some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    fn corpus(documents: usize) -> Corpus {
        let documents = vec![2_000; documents];
        Corpus { vocab_size: 512, documents: [documents.clone(), documents.clone(), documents] }
    }

    #[test]
    fn counts_what_training_and_evaluation_read() {
        let plan = plan("seeds = 2\n[[evaluate]]\nlengths = [128, 256]\nextend = [\"direct\", \"ntk\"]");
        let mut asked = 0;
        let costs = costs(&plan, &mut |_| {
            asked += 1;
            Ok(corpus(3))
        });
        let cost = costs[0].unwrap();
        assert_eq!((asked, costs.len(), costs[0]), (1, 2, costs[1]));
        assert_eq!(cost.training_tokens, 6.0 * 4096.0);
        // 7 windows of 256 a document are read at both lengths in two ways. The baseline reads the windows
        // of 128 as they are, and the targets of the longer ones in eight readings of 128.
        let direct = 3.0 * 7.0 * 2.0 * (128.0 + 256.0);
        let baseline = 3.0 * 7.0 * (1.0 + 8.0) * 128.0;
        assert_eq!(cost.evaluation_tokens, direct + baseline);
        assert!(cost.training_flops > 6.0 * cost.training_tokens * 4.0 * 12.0 * 128.0 * 128.0);
    }

    #[test]
    fn a_memory_costs_the_keys_that_it_adds() {
        let cost = |memory: usize| {
            let position = format!("position = {{ kind = \"transformer_xl\", memory = {memory} }}");
            let sets = format!("[set]\n{position}\ntrain.sampling = \"sequential\"");
            costs(&plan(&format!("{sets}\n[[evaluate]]\nlengths = [256]")), &mut |_| Ok(corpus(3)))[0]
                .unwrap()
        };
        let (without, small, large) = (cost(0), cost(32), cost(64));
        assert_eq!(without.training_tokens, large.training_tokens);
        let added = large.training_flops - small.training_flops;
        assert!(added > 0.0 && added == small.training_flops - without.training_flops);
        // Segments of 128 with 64 before them see what one text of 256 sees on average.
        let reading = large.evaluation_flops / large.evaluation_tokens * 3.0;
        assert!((reading / (large.training_flops / large.training_tokens) - 1.0).abs() < 1e-12, "{reading}");
    }

    #[test]
    fn stages_and_choices_are_counted() {
        let more =
            "[[stage]]\nlength = 256\nsteps = 5\n[[evaluate]]\nlengths = [128, 256]\nextend = [\"direct\"";
        let cost = |extend: &str| {
            let plan = plan(&format!("{more}{extend}]"));
            costs(&plan, &mut |_| Ok(corpus(3)))[0].unwrap()
        };
        let plain = cost("");
        assert_eq!(plain.training_tokens, (6.0 + 5.0) * 4096.0);
        // Three windows are tried and one is read again; each reads 7 windows of 3 documents at both lengths.
        let one = 3.0 * 7.0 * (128.0 + 256.0);
        let list = cost(", { kind = \"rerope\", window = [8, 16, 32] }");
        assert_eq!(list.evaluation_tokens - plain.evaluation_tokens, 4.0 * one);
        // A search reads one window of 256 a document at a time, then its row; what it finds is read as all are.
        let search = cost(", { kind = \"longrope\", search = { budget = 10 } }");
        assert_eq!(search.evaluation_tokens - plain.evaluation_tokens, 11.0 * 3.0 * 256.0 + one);
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        let short = plan("[[evaluate]]\nlengths = [4096]");
        assert_eq!(costs(&short, &mut |_| Ok(corpus(1))), [None]);
        let wrong = plan("[set]\ntrain.steps = -1");
        assert_eq!(costs(&wrong, &mut |_| Ok(corpus(1))), [None]);
    }
}
