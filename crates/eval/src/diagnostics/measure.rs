//! Reads a trained model's text and finds out what it does.

use super::context::{self, Change, last_repetitions};
use super::explained::{Explained, FORMAT};
use super::finding::Diagnostic;
use super::gather::{Gathered, Key};
use super::gradient;
use super::notes::{self, Notes};
use super::probe::{Normal, by_range, targets};
use super::sampled::{Sampled, WINDOWS};
use super::watch::{inputs, watch};
use crate::evaluation::Evaluation;
use crate::label::labels;
use crate::measure::{self, Counter, Measurement, Progress, Subject};
use crate::metrics::Score;
use crate::plan::{Plan, Window, truncate};
use crate::scorer::Scorer;
use crate::text::Material;
use burn::module::Module;
use longwave_core::in_order::distinct;
use longwave_core::{Error, Result};
use longwave_model::attention::watched;
use longwave_model::gpt::Place;
use longwave_model::{Gpt, Pass, upload};
use longwave_position::Reading;
use longwave_position::layout::TextLayout;
use longwave_train::parameters::numbers;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Texts whose gradient is taken, at most.
const GRADIENTS: usize = 8;

/// Measures every diagnostic of a trained model, for each extension of an evaluation at each of its lengths.
pub fn explain(
    subject: &Subject<'_>,
    evaluation: &Evaluation,
    show: &mut dyn FnMut(Progress) -> Result<()>,
) -> Result<Explained> {
    // A reading that is listed twice is one.
    let extensions = distinct(evaluation.extensions.iter().cloned());
    let evaluation = &Evaluation { extensions, ..evaluation.clone() };
    let source = evaluation.block.source(subject.dataset)?;
    let tasks = measure::measurements(&subject.model.position, subject.resolved, &source, evaluation)?;
    let tasks: Vec<&Measurement> = tasks.iter().filter(|task| task.extension.is_some()).collect();
    let longest = tasks.iter().map(|task| task.settings.length).max().unwrap_or_default();
    let (notes, label) = (Notes::default(), String::new());
    let mut reader = Reader { subject, evaluation, longest, label, notes, counter: Counter::new(0, show) };
    reader.counter.total = tasks.iter().map(|task| reader.tokens_of(task)).sum();
    let labels = labels(&evaluation.extensions);
    let block = &evaluation.block;
    let material = block.protocol.material();
    let mut baselines = BTreeMap::new();
    let mut findings = Vec::new();
    let mut measured_on = None;
    for task in &tasks {
        let place = evaluation.extensions.iter().position(|one| task.extension.as_ref() == Some(one));
        reader.label.clone_from(place.map_or(&task.extend, |place| &labels[place]));
        let sampled = Sampled::of(&task.plan, material);
        let corpus = block.corpus.as_ref().map(|_| source.name.as_str());
        measured_on.get_or_insert_with(|| sampled.in_words(material, block.split, corpus));
        let mut gathered = Gathered::new(sampled.count).over(sampled.over);
        let scores = reader.losses(task, &sampled, &mut gathered, &mut baselines)?;
        reader.attention(task, &sampled, &mut gathered)?;
        reader.gradients(task, &sampled, &scores, &mut gathered)?;
        if task.settings.length == longest {
            reader.probe(task, &sampled, &mut gathered)?;
            reader.context(task, &sampled, &scores, &mut gathered)?;
        }
        findings.extend(gathered.findings(&reader.label, task.settings.length));
    }
    Ok(Explained {
        format: FORMAT,
        runs: vec![format!("{}-{}", subject.config.name, subject.config.seed)],
        encoding: subject.config.position.name(),
        config_hash: subject.config_hash.to_owned(),
        step: subject.step,
        train_length: block.train_length,
        lengths: block.lengths.clone(),
        notes: reader.notes.sentences(labels.len()),
        extend: labels,
        measured_on: measured_on.unwrap_or_default(),
        findings,
    })
}

struct Reader<'a, 's> {
    subject: &'a Subject<'s>,
    evaluation: &'a Evaluation,
    longest: usize,
    label: String,
    notes: Notes,
    counter: Counter<'a>,
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

    /// Says once what is left out of the reading at hand.
    fn note(&mut self, note: impl Into<String>) {
        self.notes.add(&self.label, note);
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
        let mut scores = |plan: &Plan, reading: &Reading| {
            scorer.scores(plan, reading, &mut |tokens| self.counter.read(tokens))
        };
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

    fn attention(&mut self, task: &Measurement, sampled: &Sampled, gathered: &mut Gathered) -> Result<()> {
        let watched = watched::check(&task.reading);
        if let Err(error) = &watched {
            self.note(format!("attention is not looked at: {}", error.message()));
        } else {
            let (subject, train_length) = (self.subject, self.evaluation.block.train_length);
            let windows = sampled.plan.windows.iter().zip(sampled.documents.iter().copied());
            watch(subject, train_length, &task.reading, &task.text, windows, gathered, &mut |tokens| {
                self.counter.read(tokens)
            })?;
        }
        let (trained, counted) = (&self.subject.model.position, gathered.has(Diagnostic::UnseenAngles));
        let on_angles = notes::on_angles(trained, &task.reading, watched.is_ok(), counted);
        if let Some(note) = on_angles {
            self.note(note);
        }
        Ok(())
    }

    fn gradients(
        &mut self,
        task: &Measurement,
        sampled: &Sampled,
        scores: &[Vec<Score>],
        gathered: &mut Gathered,
    ) -> Result<()> {
        if let Some(note) = gradient::refused(&task.reading) {
            self.note(note);
            return Ok(());
        }
        let block = &self.evaluation.block;
        let traced: Gpt = self.subject.model.clone().train();
        let Some(extension) = &task.extension else { return Ok(()) };
        let reading =
            measure::reading(&traced.position, extension, block.train_length, task.settings.length)?;
        let mut gradients = Vec::new();
        let windows = sampled.plan.windows.iter().zip(scores).take(GRADIENTS);
        for (index, (window, scores)) in windows.enumerate() {
            let tokens = inputs(&task.text, window, &task.reading);
            let target = task.text.read(window.document, window.end - 1..window.end)[0];
            let known = scores.last().map_or(f64::NAN, |score| score.nll);
            let model = self.subject.model;
            let found = gradient::by_distance(model, &traced, &reading, &tokens, target, known)?;
            let gradient = match found {
                Ok(gradient) => gradient,
                Err(reason) => {
                    self.note(format!("the receptive field is not measured: {reason}"));
                    return Ok(());
                }
            };
            let mut last = 0.0;
            let within: Vec<f64> = gradient
                .iter()
                .map(|part| {
                    last += part;
                    last
                })
                .collect();
            let (document, all) = (sampled.documents[index], last);
            for tokens in self.evaluation.block.lengths.iter().chain([&(block.train_length / 2)]) {
                if *tokens > 0 && *tokens < within.len() {
                    let key = Key::whole(Diagnostic::GradientWithin).bin(*tokens);
                    gathered.add(document, key, within[tokens - 1], all);
                }
            }
            gradients.push(gradient);
            self.counter.read(3 * tokens.len())?;
        }
        let documents = &sampled.documents[..gradients.len()];
        if let Some((field, error, documents)) = gradient::receptive_field(&gradients, documents) {
            gathered.set_of(Key::whole(Diagnostic::ReceptiveField), field, error, documents);
        }
        if gradients.len() < sampled.plan.windows.len() {
            for diagnostic in [Diagnostic::ReceptiveField, Diagnostic::GradientWithin] {
                gathered.of_first_windows(diagnostic, gradients.len());
            }
        }
        Ok(())
    }

    /// What a linear probe reads of positions, layer by layer: fitted on the even texts and read on the odd ones, and the other way round.
    fn probe(&mut self, task: &Measurement, sampled: &Sampled, gathered: &mut Gathered) -> Result<()> {
        let model = self.subject.model;
        if sampled.plan.windows.len() < 2 {
            self.note(
                "position is not probed: it is fitted on one text and read on another, and there is one",
            );
            return Ok(());
        }
        if !is_contiguous(&task.reading) {
            self.note(format!("position is not probed: {CONTIGUOUS}"));
            return Ok(());
        }
        let (train, layers) = (self.evaluation.block.train_length, model.blocks.len());
        let width = model.embedding.dims()[1];
        let mut normals = vec![vec![Normal::new(width, 2); layers + 1]; 2];
        let states = |reader: &mut Self, window: &Window| -> Result<Vec<Vec<f32>>> {
            let tokens = inputs(&task.text, window, &task.reading);
            let states = hidden_states(model, &task.reading, &tokens)?;
            reader.counter.read(tokens.len() / 2)?;
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
                        let key = Key::layer(diagnostic, layer).bin(start);
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
        if task.text.material() != Material::Documents {
            self.note("far context is not changed: in a sequence of a task it is the question itself");
            return Ok(());
        }
        if !is_contiguous(&task.reading) {
            self.note(format!("far context is not changed: {CONTIGUOUS}"));
            return Ok(());
        }
        let windows = &sampled.plan.windows;
        for (index, window) in windows.iter().enumerate() {
            let tokens = task.text.read(window.document, window.start..window.end - 1);
            let other = windows.iter().find(|other| other.document != window.document);
            for kept in self.kept() {
                let scored = (kept / 2).clamp(1, window.targets()).min(tokens.len() - kept);
                // The first of these targets keeps so many tokens, and those after it more: what a window of `kept` tokens sees stays.
                let unchanged = kept + scored - 1;
                let targets = task.text.read(window.document, window.end - scored..window.end);
                let known = &scores[index][scores[index].len() - scored..];
                for change in Change::ALL {
                    let other = match (change, other) {
                        (Change::Other, None) => continue,
                        (_, other) => other.unwrap_or(window),
                    };
                    let other = task.text.read(other.document, other.start..other.end - 1);
                    let mut changed = change.of(&tokens, unchanged, &other, index as u64);
                    let length = changed.len();
                    task.text.begin(&mut changed, length, TextLayout::Contiguous);
                    let losses =
                        context::losses(self.subject.model, &task.reading, &changed, tokens.len(), &targets)?;
                    let difference: f64 =
                        losses.iter().zip(known).map(|(loss, known)| loss - known.nll).sum();
                    let key = Key::whole(change.diagnostic()).bin(kept);
                    gathered.add(sampled.documents[index], key, difference, scored as f64);
                    self.counter.read(tokens.len())?;
                }
            }
        }
        Ok(())
    }
}

/// What a probe and a change of far context need.
const CONTIGUOUS: &str = "that is for text that is read as one piece, at positions that count from 0";

fn is_contiguous(reading: &Reading) -> bool {
    matches!(reading.layout(), TextLayout::Contiguous)
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
