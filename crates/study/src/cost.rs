//! What a plan takes, before it is run: tokens and floating-point operations, and hours at a speed that
//! was measured.

use crate::plan::{Job, Plan};
use longwave_core::{Error, Result};
use longwave_data::DataConfig;
use longwave_eval::plan::truncate;
use longwave_eval::text::Material;
use longwave_eval::{EvaluateConfig, ResolvedEvaluate};
use longwave_experiment::Config;
use longwave_model::resolved::Resolved;
use longwave_model::size::training_flops;
use longwave_train::RunConfig;
use std::collections::HashMap;

/// What runs read: their corpora and tasks, and other text that evaluations name.
pub trait Corpora {
    fn vocab_size(&mut self, data: &DataConfig) -> Result<usize>;

    fn windows(
        &mut self,
        data: &DataConfig,
        block: &ResolvedEvaluate,
        length: usize,
    ) -> Result<longwave_eval::Plan>;

    fn check_validation(&mut self, config: &Config) -> Result<()>;
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
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

    pub fn add(&mut self, other: &Self) {
        self.training_tokens += other.training_tokens;
        self.training_flops += other.training_flops;
        self.evaluation_tokens += other.evaluation_tokens;
        self.evaluation_flops += other.evaluation_flops;
    }
}

/// The cost of each run of a plan, in its order; `None` where it is unknown: the config is not
/// allowed, or no document is long enough.
///
/// `corpora` is called once for each different `[data]` and evaluation.
pub fn costs(plan: &Plan, corpora: &mut dyn Corpora) -> Vec<Option<Cost>> {
    let mut known: Vec<(&DataConfig, Option<usize>)> = Vec::new();
    let mut readings: HashMap<(usize, usize, &str), Option<Vec<Reading>>> = HashMap::new();
    plan.runs
        .iter()
        .map(|run| {
            let job = run.job.as_ref().ok()?;
            let data = &job.config.run.data;
            // Few corpora, and most often the one of the run before.
            let place = known.iter().rposition(|(other, _)| *other == data).unwrap_or_else(|| {
                known.push((data, corpora.vocab_size(data).ok()));
                known.len() - 1
            });
            let vocab_size = known[place].1?;
            let reading = (place, job.config.run.train.length, job.evaluation.as_str());
            let readings = readings.entry(reading).or_insert_with(|| readings_of(job, corpora)).as_ref()?;
            cost(job, vocab_size, readings)
        })
        .collect()
}

/// Checks that the text of every evaluation of these runs can be opened, and holds windows of every length, also for validation where a
/// run needs that.
pub fn check_texts(plan: &Plan, runs: &[usize], corpora: &mut dyn Corpora) -> Result<()> {
    let mut seen: Vec<(&DataConfig, &[EvaluateConfig])> = Vec::new();
    for &index in runs {
        let Ok(job) = &plan.runs[index].job else { continue };
        let (data, blocks) = (&job.config.run.data, job.config.evaluate());
        corpora.check_validation(&job.config).map_err(|error| error.context(plan.runs[index].title()))?;
        if seen.contains(&(data, blocks)) {
            continue;
        }
        seen.push((data, blocks));
        for (place, evaluation) in job.config.evaluations().iter().enumerate() {
            let lengths = &evaluation.block.lengths;
            for (block, &length) in
                evaluation.block.variants().flat_map(|it| lengths.iter().map(move |at| (it.clone(), at)))
            {
                corpora.windows(data, &block, length).map_err(|error| {
                    let run = plan.runs[index].title();
                    let hint =
                        error.hint_text().unwrap_or("evaluate shorter lengths, or other text").to_owned();
                    let key = format!("evaluate[{place}].lengths");
                    Error::value(&key, length, format!("{run}: {}", error.message())).hint(hint)
                })?;
            }
        }
    }
    Ok(())
}

/// What evaluations of a job read at a length.
#[derive(Clone, Copy, Debug)]
struct Reading {
    length: usize,
    tokens: f64,
    /// The tokens that are scored: the head is computed for these alone.
    targets: f64,
}

impl Reading {
    fn of(length: usize, plan: &longwave_eval::Plan, times: usize) -> Self {
        let [tokens, targets] = [plan.tokens_read(), plan.targets()].map(|count| (count * times) as f64);
        Self { length, tokens, targets }
    }
}

fn readings_of(job: &Job, corpora: &mut dyn Corpora) -> Option<Vec<Reading>> {
    let mut readings = Vec::new();
    let kept = job.config.run.kept_steps();
    for evaluation in job.config.evaluations() {
        let block = &evaluation.block;
        // Each checkpoint is read alike.
        let checkpoints = evaluation.steps(&kept).ok()?.len() + 1;
        let mut plan =
            |block: &ResolvedEvaluate, length| corpora.windows(&job.config.run.data, block, length).ok();
        let trials = evaluation.pending.values().map(|sweep| sweep.trials(block));
        let reported = (block.clone(), evaluation.extensions.len() + evaluation.pending.len());
        for (block, times) in std::iter::once(reported).chain(trials) {
            for block in block.variants() {
                for &length in &block.lengths {
                    readings.push(Reading::of(length, &plan(&block, length)?, times * checkpoints));
                }
            }
        }
        for block in block.variants() {
            let asks = block.protocol.material() == Material::Answers;
            let mut baselines = Vec::new();
            for &length in &block.lengths {
                let baseline = truncate(&plan(&block, length)?, block.train_length, block.exact);
                // Past 2L the baseline of a text is the same at every length, and is read once.
                if asks || !baselines.contains(&baseline) {
                    readings.push(Reading::of(block.train_length, &baseline, checkpoints));
                    baselines.push(baseline);
                }
            }
        }
    }
    Some(readings)
}

/// A text is read in segments where there is a memory, which is seen whole: a causal half counts twice.
fn span(run: &RunConfig, length: usize, segment: usize) -> usize {
    match run.position.memory() {
        0 => length,
        memory => length.min(segment) + 2 * memory,
    }
}

/// Tokens and floating-point operations of the steps of a run after `step`, counted through its stages.
pub fn training_after(step: u64, run: &RunConfig, vocab_size: usize) -> Option<[f64; 2]> {
    Some(training_of(step, run, &run.model.resolve(vocab_size, run.train.length).ok()?))
}

fn training_of(step: u64, run: &RunConfig, resolved: &Resolved) -> [f64; 2] {
    let of = |stage: usize| {
        let (done, stage) = (run.steps_done(stage, step), run.stage(stage));
        let tokens = (stage.steps - done) as f64 * stage.batch_tokens as f64;
        [tokens, tokens * training_flops(resolved, span(run, stage.length, stage.length)) as f64]
    };
    (0..=run.last_stage()).map(of).fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
}

fn cost(job: &Job, vocab_size: usize, readings: &[Reading]) -> Option<Cost> {
    let run = &job.config.run;
    let resolved = run.model.resolve(vocab_size, run.train.length).ok()?;
    let segment = run.stage(run.last_stage()).length;
    let head = 2 * resolved.dimensions.width * resolved.dimensions.vocab_size;
    let training = training_of(0, run, &resolved);
    let mut cost = Cost { training_tokens: training[0], training_flops: training[1], ..Cost::default() };
    for &Reading { length, tokens, targets } in readings {
        cost.evaluation_tokens += tokens;
        // A reading has the forward pass alone, a third of a training step's work.
        cost.evaluation_flops += tokens * training_flops(&resolved, span(run, length, segment)) as f64 / 3.0
            - (tokens - targets) * head as f64;
    }
    Some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{plan, task_plan, task_plan_of};
    use longwave_eval::Window;

    /// So many documents of 2,000 tokens in every split, one of them in other text; questions of 100 tokens.
    struct Documents {
        count: usize,
        asked: usize,
    }

    impl Corpora for Documents {
        fn vocab_size(&mut self, _: &DataConfig) -> Result<usize> {
            self.asked += 1;
            Ok(512)
        }

        fn windows(
            &mut self,
            _: &DataConfig,
            block: &ResolvedEvaluate,
            length: usize,
        ) -> Result<longwave_eval::Plan> {
            if let Some(sequences) = block.keys.get("sequences") {
                let window = |document| Window { document, start: 0, first: 90, end: 101 };
                return Ok(longwave_eval::Plan {
                    windows: (0..sequences).map(window).collect(),
                    skipped_documents: 0,
                });
            }
            block.plan(length, &vec![2_000; if block.corpus.is_some() { 1 } else { self.count }])
        }

        fn check_validation(&mut self, _: &Config) -> Result<()> {
            Ok(())
        }
    }

    fn costs(plan: &Plan) -> Vec<Option<Cost>> {
        super::costs(plan, &mut Documents { count: 3, asked: 0 })
    }

    #[test]
    fn counts_what_training_and_evaluation_read() {
        let plan = plan("seeds = 2\n[[evaluate]]\nlengths = [128, 256]\nextend = [\"direct\", \"ntk\"]");
        let mut corpora = Documents { count: 3, asked: 0 };
        let costs = super::costs(&plan, &mut corpora);
        let cost = costs[0].unwrap();
        assert_eq!((corpora.asked, costs.len(), costs[0]), (1, 2, costs[1]));
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
            costs(&plan(&format!("{sets}\n[[evaluate]]\nlengths = [256]")))[0].unwrap()
        };
        let (without, small, large) = (cost(0), cost(32), cost(64));
        assert_eq!(without.training_tokens, large.training_tokens);
        let added = large.training_flops - small.training_flops;
        assert!(added > 0.0 && added == small.training_flops - without.training_flops);
        // Segments of 128 with 64 before them see what one text of 256 sees on average.
        // The head, of width 128 and 512 tokens, is computed for 128 targets of each of the 21 windows, twice with the baseline.
        let unscored = large.evaluation_tokens - 2.0 * 21.0 * 128.0;
        let forward = large.evaluation_flops + unscored * 2.0 * 128.0 * 512.0;
        let reading = forward / large.evaluation_tokens * 3.0;
        assert!((reading / (large.training_flops / large.training_tokens) - 1.0).abs() < 1e-12, "{reading}");
    }

    /// Each way to ask has its own questions, and its own baseline of these.
    #[test]
    fn every_way_to_ask_is_read_by_itself() {
        let tokens = |depths: &str| {
            let block = format!(
                "[[evaluate]]\nprotocol = \"task\"\nlengths = [128, 512]\ntask = {{ depth = {depths} }}"
            );
            costs(&task_plan_of("needle", &block))[0].unwrap().evaluation_tokens
        };
        assert_eq!(tokens("[0.0, 0.5, 1.0]"), 3.0 * tokens("[0.5]"));
    }

    #[test]
    fn what_is_left_of_a_training_is_that_of_its_stages() {
        let plan = plan("[[stage]]\nlength = 1024\nsteps = 5\n[[evaluate]]\nlengths = [128]");
        let run = &plan.runs[0].job.as_ref().unwrap().config.run;
        let after = |step: u64| training_after(step, run, 512).unwrap();
        let [whole, first, stage, last] = [0, 2, 6, 10].map(after);
        assert_eq!(
            [whole, first, stage, last].map(|it| it[0]),
            [11.0, 9.0, 5.0, 1.0].map(|steps| steps * 4096.0)
        );
        assert!((stage[1] / last[1] - 5.0).abs() < 1e-9);
        // A token of the stage sees more keys.
        assert!((whole[1] - first[1]) / 2.0 < last[1] && (whole[1] - stage[1]) / 6.0 < last[1]);
    }

    #[test]
    fn stages_and_choices_are_counted() {
        let more =
            "[[stage]]\nlength = 256\nsteps = 5\n[[evaluate]]\nlengths = [128, 256]\nextend = [\"direct\"";
        let cost = |extend: &str| {
            let plan = plan(&format!("{more}{extend}]"));
            costs(&plan)[0].unwrap()
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
    fn tasks_and_other_text_are_counted() {
        let asked = |extend: &str| {
            let block = "[[evaluate]]\nprotocol = \"task\"\nsequences = 50\nlengths = [200, 400]\n";
            costs(&task_plan(&format!("{block}extend = [{extend}]")))[0].unwrap().evaluation_tokens
        };
        // 50 sequences of 100 tokens at two lengths.
        assert_eq!(asked("\"direct\", \"ntk\"") - asked("\"direct\""), 50.0 * 100.0 * 2.0);
        let read = |more: &str| {
            let block = format!("[[evaluate]]\nlengths = [256]\n{more}");
            costs(&plan(&block))[0].unwrap().evaluation_tokens
        };
        assert_eq!(read(""), 3.0 * read("corpus = \"elsewhere\""));
    }

    #[test]
    fn what_cannot_be_told_is_not() {
        let short = plan("[[evaluate]]\nlengths = [4096]");
        assert_eq!(costs(&short), [None]);
        let wrong = plan("[set]\ntrain.steps = -1");
        assert_eq!(costs(&wrong), [None]);
    }
}
