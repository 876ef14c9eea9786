//! Reads a trained model's text and finds out what it does.

use super::context::{self, Change, last_repetitions};
use super::explained::{Explained, FORMAT};
use super::finding::Diagnostic;
use super::gather::{Gathered, Key};
use super::gradient;
use super::probe::Normal;
use super::watch::{inputs, watch};
use crate::evaluation::Evaluation;
use crate::label::labels;
use crate::measure::{self, Measurement, Progress, Subject};
use crate::metrics::Score;
use crate::plan::{Plan, Window, truncate};
use crate::scorer::Scorer;
use crate::text::Material;
use burn::module::Module;
use longwave_core::{Error, Result};
use longwave_model::attention::watched;
use longwave_model::gpt::Place;
use longwave_model::{Gpt, Pass, upload};
use longwave_position::Reading;
use longwave_position::layout::TextLayout;
use longwave_train::parameters::numbers;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Windows that are read at each length, at most.
const WINDOWS: usize = 16;
/// Texts whose gradient is taken, at most.
const GRADIENTS: usize = 8;

/// The windows that are read, each with the place of its sums.
struct Sampled {
    plan: Plan,
    documents: Vec<usize>,
    count: usize,
}

/// Measures every diagnostic of a trained model, for each extension of an evaluation at each of its lengths.
///
/// # Errors
/// As [`crate::evaluate`].
pub fn explain(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Explained> {
    let source = evaluation.block.source(subject.dataset)?;
    let tasks = measure::measurements(&subject.model.position, subject.resolved, &source, evaluation)?;
    let tasks: Vec<&Measurement> = tasks.iter().filter(|task| task.extension.is_some()).collect();
    let longest = tasks.iter().map(|task| task.settings.length).max().unwrap_or_default();
    let mut reader = Reader { subject, evaluation, longest, notes: Vec::new(), done: 0, total: 0, show };
    reader.total = tasks.iter().map(|task| reader.tokens_of(task)).sum();
    let labels = labels(&evaluation.extensions);
    let mut baselines = BTreeMap::new();
    let mut findings = Vec::new();
    let mut first = None;
    for task in &tasks {
        let sampled = sample(&task.plan);
        first.get_or_insert((sampled.plan.windows.len(), sampled.count));
        let mut gathered = Gathered::new(sampled.count);
        let scores = reader.losses(task, &sampled, &mut gathered, &mut baselines)?;
        reader.attention(task, &sampled, &mut gathered)?;
        reader.gradients(task, &sampled, &scores, &mut gathered)?;
        if task.settings.length == longest {
            reader.probe(task, &sampled, &mut gathered)?;
            reader.context(task, &sampled, &scores, &mut gathered)?;
        }
        let place = evaluation.extensions.iter().position(|one| task.extension.as_ref() == Some(one));
        let label = place.map_or(&task.extend, |place| &labels[place]);
        findings.extend(gathered.findings(label, task.settings.length));
    }
    let (windows, documents) = first.unwrap_or_default();
    let block = &evaluation.block;
    let unit = block.protocol.material().unit();
    Ok(Explained {
        format: FORMAT,
        runs: vec![format!("{}-{}", subject.config.name, subject.config.seed)],
        encoding: subject.config.position.name(),
        config_hash: subject.config_hash.to_owned(),
        step: subject.step,
        train_length: block.train_length,
        lengths: block.lengths.clone(),
        extend: labels,
        measured_on: format!("{windows} windows of {documents} {unit}s of the split `{}`", block.split),
        findings,
        notes: reader.notes,
    })
}

/// Evenly spread windows of a plan; their documents, or where there is one, themselves.
fn sample(plan: &Plan) -> Sampled {
    let taken = plan.windows.len().min(WINDOWS);
    let windows: Vec<Window> =
        (0..taken).map(|index| plan.windows[index * plan.windows.len() / taken]).collect();
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    for window in &windows {
        let next = places.len();
        places.entry(window.document).or_insert(next);
    }
    let of_windows = places.len() < 2;
    let documents = windows.iter().enumerate();
    let documents =
        documents.map(|(at, window)| if of_windows { at } else { places[&window.document] }).collect();
    let count = if of_windows { windows.len() } else { places.len() };
    Sampled { plan: Plan { windows, skipped_documents: plan.skipped_documents }, documents, count }
}

/// What one explanation holds on the way.
struct Reader<'a, 's> {
    subject: &'a Subject<'s>,
    evaluation: &'a Evaluation,
    longest: usize,
    notes: Vec<String>,
    done: usize,
    total: usize,
    show: &'a mut dyn FnMut(Progress) -> Result<()>,
}

impl Reader<'_, '_> {
    /// Tokens that are read for a measurement, each kind of pass for itself.
    fn tokens_of(&self, task: &Measurement) -> usize {
        let windows = task.plan.windows.len().min(WINDOWS);
        let gradients = 3 * windows.min(GRADIENTS);
        let longest =
            if task.settings.length == self.longest { windows * (1 + 3 * self.kept().len()) } else { 0 };
        task.settings.length * (2 * windows + gradients + longest)
    }

    fn read(&mut self, tokens: usize) -> Result<()> {
        self.done = (self.done + tokens).min(self.total);
        (self.show)(Progress { done: self.done, total: self.total })
    }

    /// Says once what is left out.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The lengths below the longest, after which the text is changed.
    fn kept(&self) -> Vec<usize> {
        self.evaluation.block.lengths.iter().copied().filter(|&length| length < self.longest).collect()
    }

    /// Losses, and what they are less those of the window baseline.
    fn losses(
        &mut self,
        task: &Measurement,
        sampled: &Sampled,
        gathered: &mut Gathered,
        baselines: &mut BTreeMap<usize, Vec<Vec<Score>>>,
    ) -> Result<Vec<Vec<Score>>> {
        let Subject { model, device, .. } = *self.subject;
        let block = &self.evaluation.block;
        let scorer = Scorer { model, text: &task.text, device };
        let mut scores =
            |plan: &Plan, reading: &Reading| scorer.scores(plan, reading, &mut |tokens| self.read(tokens));
        let found = scores(&sampled.plan, &task.reading)?;
        let baseline = match baselines.entry(task.settings.length) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let plan = truncate(&sampled.plan, block.train_length, block.exact);
                let of_parts = scores(&plan, &model.position)?;
                // A window is read in parts, which follow each other.
                let mut all = of_parts.into_iter().flatten();
                let whole =
                    sampled.plan.windows.iter().map(|window| all.by_ref().take(window.targets()).collect());
                free.insert(whole.collect())
            }
        };
        for (index, window) in sampled.plan.windows.iter().enumerate() {
            let document = sampled.documents[index];
            let (here, there) = (&found[index], &baseline[index]);
            // Of a task, answers alone are scored.
            let scored: Vec<usize> = task.text.scored(window.document, window.first..window.end).collect();
            let sum =
                |scores: &[Score]| scored.iter().map(|token| scores[token - window.first].nll).sum::<f64>();
            let weight = scored.len() as f64;
            gathered.add(document, Key::whole(Diagnostic::Loss), sum(here), weight);
            gathered.add(document, Key::whole(Diagnostic::BaselineChange), sum(here) - sum(there), weight);
            if task.text.material() == Material::Documents {
                // The same text before the targets at every length.
                let start = (window.end - 1).saturating_sub(self.longest);
                let tokens = task.text.read(window.document, start..window.end);
                let bins = last_repetitions(&tokens);
                for (bin, (here, there)) in bins[window.first - start..].iter().zip(here.iter().zip(there)) {
                    let key = Key::whole(Diagnostic::RepetitionChange).bin(*bin);
                    gathered.add(document, key, here.nll - there.nll, 1.0);
                }
            }
        }
        Ok(found)
    }

    /// What attention shows.
    fn attention(&mut self, task: &Measurement, sampled: &Sampled, gathered: &mut Gathered) -> Result<()> {
        if let Err(error) = watched::check(&task.reading) {
            self.note(format!("attention is not looked at: {}", error.message()));
            return Ok(());
        }
        let (subject, train_length) = (self.subject, self.evaluation.block.train_length);
        let windows = sampled.plan.windows.iter().zip(sampled.documents.iter().copied());
        watch(subject, train_length, &task.reading, &task.text, windows, gathered, &mut |tokens| {
            self.read(tokens)
        })
    }

    /// The receptive field.
    fn gradients(
        &mut self,
        task: &Measurement,
        sampled: &Sampled,
        scores: &[Vec<Score>],
        gathered: &mut Gathered,
    ) -> Result<()> {
        let block = &self.evaluation.block;
        let traced: Gpt = self.subject.model.clone().train();
        let Some(extension) = &task.extension else { return Ok(()) };
        let reading =
            measure::reading(&traced.position, extension, block.train_length, task.settings.length)?;
        let mut gradients = Vec::new();
        let windows = sampled.plan.windows.iter().zip(scores).take(GRADIENTS);
        for (index, (window, scores)) in windows.enumerate() {
            let tokens = inputs(&task.text, window);
            let target = task.text.read(window.document, window.end - 1..window.end)[0];
            let known = scores.last().map_or(f64::NAN, |score| score.nll);
            let model = self.subject.model;
            let Some(gradient) = gradient::by_distance(model, &traced, &reading, &tokens, target, known)?
            else {
                self.note(
                    "the receptive field is not measured: the encoding looks at the tokens themselves"
                        .to_owned(),
                );
                return Ok(());
            };
            let mut last = 0.0;
            let within: Vec<f64> = gradient
                .iter()
                .map(|part| {
                    last += part;
                    last
                })
                .collect();
            let document = sampled.documents[index];
            for tokens in self.evaluation.block.lengths.iter().chain([&(block.train_length / 2)]) {
                if *tokens > 0 && *tokens < within.len() {
                    let key = Key::whole(Diagnostic::GradientWithin).bin(*tokens);
                    gathered.add(document, key, within[tokens - 1], 1.0);
                }
            }
            gradients.push(gradient);
            self.read(3 * tokens.len())?;
        }
        if let Some((field, error)) = gradient::receptive_field(&gradients) {
            gathered.set(Key::whole(Diagnostic::ReceptiveField), field, error);
        }
        Ok(())
    }

    /// What a linear probe reads of positions, layer by layer: fitted on the even texts and read on the odd ones, and the other way round.
    fn probe(&mut self, task: &Measurement, sampled: &Sampled, gathered: &mut Gathered) -> Result<()> {
        let model = self.subject.model;
        if sampled.plan.windows.len() < 2 || !matches!(task.reading.layout(), TextLayout::Contiguous) {
            self.note(
                "position is not probed: it takes two texts that are read as one piece each".to_owned(),
            );
            return Ok(());
        }
        let (train, layers) = (self.evaluation.block.train_length, model.blocks.len());
        let width = model.embedding.dims()[1];
        let mut normals = vec![vec![Normal::new(width, 2); layers + 1]; 2];
        let states = |reader: &mut Self, window: &Window| -> Result<Vec<Vec<f32>>> {
            let tokens = inputs(&task.text, window);
            let states = hidden_states(model, &task.reading, &tokens)?;
            reader.read(tokens.len() / 2)?;
            Ok(states)
        };
        // It is fitted on texts of L tokens: the parts of a window, each read by itself.
        for (index, window) in sampled.plan.windows.iter().enumerate() {
            for start in (window.start..window.end - 1).step_by(train) {
                let part = Window { start, end: (start + train + 1).min(window.end), ..*window };
                for (layer, state) in states(self, &part)?.iter().enumerate() {
                    for (place, row) in state.chunks_exact(width).enumerate() {
                        normals[index % 2][layer].add(row, &targets(place));
                    }
                }
            }
        }
        let probes: Vec<Vec<_>> =
            normals.iter().map(|layers| layers.iter().map(Normal::solve).collect()).collect();
        for (index, window) in sampled.plan.windows.iter().enumerate() {
            let (states, probes) = (states(self, window)?, &probes[1 - index % 2]);
            for (layer, (state, probe)) in states.iter().zip(probes).enumerate() {
                let Some(probe) = probe else { continue };
                let read: Vec<Vec<f64>> = state.chunks_exact(width).map(|row| probe.read(row)).collect();
                for (target, diagnostic) in
                    [Diagnostic::PositionProbe, Diagnostic::LogPositionProbe].into_iter().enumerate()
                {
                    for (start, determined) in by_range(&read, target, train) {
                        let key = Key { layer: Some(layer), ..Key::whole(diagnostic) }.bin(start);
                        gathered.add(sampled.documents[index], key, determined, 1.0);
                    }
                }
            }
        }
        Ok(())
    }

    /// What changes with the text before the last tokens.
    fn context(
        &mut self,
        task: &Measurement,
        sampled: &Sampled,
        scores: &[Vec<Score>],
        gathered: &mut Gathered,
    ) -> Result<()> {
        let contiguous = matches!(task.reading.layout(), TextLayout::Contiguous);
        if !contiguous || task.text.material() != Material::Documents {
            self.note("far context is not changed: that is for text that is read as one piece".to_owned());
            return Ok(());
        }
        let windows = &sampled.plan.windows;
        for (index, window) in windows.iter().enumerate() {
            let tokens = task.text.read(window.document, window.start..window.end - 1);
            let other = windows.iter().find(|other| other.document != window.document);
            for kept in self.kept() {
                // Each of the targets keeps half of the tokens before it.
                let scored = (kept / 2).clamp(1, window.targets());
                let targets = task.text.read(window.document, window.end - scored..window.end);
                let known = &scores[index][scores[index].len() - scored..];
                for change in Change::ALL {
                    let other = match (change, other) {
                        (Change::Other, None) => continue,
                        (_, other) => other.unwrap_or(window),
                    };
                    let other = task.text.read(other.document, other.start..other.end - 1);
                    let mut changed = change.of(&tokens, kept, &other, index as u64);
                    let length = changed.len();
                    task.text.begin(&mut changed, length);
                    let losses =
                        context::losses(self.subject.model, &task.reading, &changed, tokens.len(), &targets)?;
                    let difference: f64 =
                        losses.iter().zip(known).map(|(loss, known)| loss - known.nll).sum();
                    let key = Key::whole(change.diagnostic()).bin(kept);
                    gathered.add(sampled.documents[index], key, difference, scored as f64);
                    self.read(tokens.len())?;
                }
            }
        }
        Ok(())
    }
}

/// What a probe is asked at a place: the position, and its logarithm.
fn targets(place: usize) -> [f64; 2] {
    [place as f64, (place as f64 + 1.0).ln()]
}

/// R^2 of what a probe read at each place of a text, from 0 to L, to 2L, to 4L and so on, each by its first position.
fn by_range(read: &[Vec<f64>], target: usize, train: usize) -> Vec<(usize, f64)> {
    let mut found = Vec::new();
    let (mut start, mut end) = (0, train);
    while start < read.len() {
        let places = start..end.min(read.len());
        let count = places.len() as f64;
        let mean = places.clone().map(|place| targets(place)[target]).sum::<f64>() / count;
        let squares = |of: &dyn Fn(usize) -> f64| {
            places.clone().map(|place| (targets(place)[target] - of(place)).powi(2)).sum::<f64>()
        };
        let (left, all) = (squares(&|place| read[place][target]), squares(&|_| mean));
        if all > 0.0 {
            found.push((start, 1.0 - left / all));
        }
        (start, end) = (end, 2 * end);
    }
    found
}

/// The stream before each block and before the last norm, `[layers + 1][tokens * width]`.
fn hidden_states(model: &Gpt, reading: &Reading, tokens: &[u32]) -> Result<Vec<Vec<f32>>> {
    let positions = reading.layout().positions(tokens.len());
    let tokens = upload(tokens, [1, tokens.len()], &model.embedding.device());
    let pass = Pass { tokens, positions: &positions, reading, dropout: None };
    let (last, mut states) = (model.blocks.len() - 1, Vec::new());
    model.hidden_watched(&pass, &mut |place, state| {
        if matches!(place, Place::Input(_)) || place == Place::FeedForward(last) {
            states.push(numbers("the hidden state", state.clone())?);
        }
        Ok::<(), Error>(())
    })?;
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_spread_and_stand_for_themselves_in_one_document() {
        let window = |document, start| Window { document, start, first: start + 4, end: start + 5 };
        let plan = Plan { windows: (0..40).map(|at| window(at / 2, 5 * at)).collect(), skipped_documents: 0 };
        let sampled = sample(&plan);
        assert_eq!((sampled.plan.windows.len(), sampled.count), (16, 16));
        let plan = Plan { windows: (0..3).map(|at| window(7, 5 * at)).collect(), skipped_documents: 0 };
        let sampled = sample(&plan);
        assert_eq!((sampled.documents, sampled.count), (vec![0, 1, 2], 3));
    }

    #[test]
    fn a_probe_that_knows_has_one_and_one_that_says_the_mean_has_none() {
        let knows: Vec<Vec<f64>> = (0..16).map(|place| targets(place).to_vec()).collect();
        assert_eq!(by_range(&knows, 0, 4), [(0, 1.0), (4, 1.0), (8, 1.0)]);
        let mean = vec![vec![1.5, 0.0]; 4];
        assert!(by_range(&mean, 0, 4)[0].1.abs() < 1e-12);
    }
}
