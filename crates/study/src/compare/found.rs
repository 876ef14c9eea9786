//! What a comparison has found pair by pair, and what it says of the rest.

use super::side::{Filter, Reading, Side};
use super::{Comparison, LEVEL, Pairing, measured, obstacle};
use crate::comparable::obstacle as other_text;
use crate::difference::{Over, PairedDifference};
use crate::extensions::Extension;
use crate::sample::Sample;
use crate::statistics::mean;
use longwave_core::Error;
use longwave_core::in_order::grouped;
use longwave_eval::{DocumentSums, Metric, Reference, ResultRow, WINDOW_BASELINE};

/// What was compared so far, and what stood in the way.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub(super) list: Vec<(Comparison, PairedDifference)>,
    /// A row of each side of what is in the list.
    compared: Vec<[&'a ResultRow; 2]>,
    /// Of each reading without a partner, in what the nearest differs.
    pub(super) without_partner: Vec<Option<Vec<obstacle::Differing>>>,
    other_text: Vec<Error>,
    /// Partners without a seed in common: the seeds of both.
    other_seeds: Vec<(Vec<u64>, Vec<u64>)>,
    unpaired_seeds: Vec<u64>,
    lacks_metric: bool,
    trained: Option<[usize; 2]>,
}

impl<'a> Found<'a> {
    /// `are_alone`: each side is one run, whose seeds are a pair whatever they are.
    pub(super) fn pair(&mut self, a: &Reading<'a>, b: &Reading<'a>, metric: Metric, are_alone: bool) {
        let pairs = a.rows.iter().flat_map(|x| b.rows.iter().map(move |y| (x, y)));
        if let Some(error) = pairs.into_iter().find_map(|(x, y)| other_text(x, y, metric)) {
            self.other_text.push(error);
            return;
        }
        let (left, mut right) = (a.samples(metric), b.samples(metric));
        if left.is_empty() || right.is_empty() {
            self.lacks_metric = true;
            return;
        }
        if let (true, [one], [other]) = (are_alone, left.as_slice(), right.as_mut_slice()) {
            other.seed = one.seed;
        }
        let seeds = |samples: &[Sample<'_>]| samples.iter().map(|sample| sample.seed).collect::<Vec<u64>>();
        let (of_left, of_right) = (seeds(&left), seeds(&right));
        match comparison(a.first(), b.first(), &paired(left, &of_right), &paired(right, &of_left), metric) {
            Some(found) => {
                self.list.push(found);
                self.compared.push([a.first(), b.first()]);
                let trained = [a, b].map(|side| side.first().settings.train_length);
                self.trained = self.trained.or(Some(trained).filter(|[a, b]| a != b));
                let all = of_left.iter().chain(&of_right);
                self.unpaired_seeds.extend(all.filter(|s| !of_left.contains(s) || !of_right.contains(s)));
            }
            None => self.other_seeds.push((of_left, of_right)),
        }
    }

    pub(super) fn error(self, pairing: &Pairing<'_>, metric: Metric) -> Error {
        let (a, b) = (&pairing.a.name, &pairing.b.name);
        if let Some(error) = self.other_text.into_iter().next() {
            return error;
        }
        if let Some((left, right)) = self.other_seeds.first() {
            let (left, right) = (obstacle::numbers(left), obstacle::numbers(right));
            return Error::failed(format!("`{a}` and `{b}` have no `seed` in common: {left}, and {right}"))
                .hint("train both with the same seeds: `longwave train --config X --seeds 3`");
        }
        if self.lacks_metric {
            let message = format!("no row that both sides have holds a `{}`", metric.name());
            return Error::failed(message).hint(metric.held_by());
        }
        let nearest = self.without_partner.into_iter().flatten().min_by_key(Vec::len).unwrap_or_default();
        let differing = obstacle::in_words(&nearest);
        Error::failed(format!(
            "`{a}` and `{b}` have no measurement in common: the nearest two differ in {differing}"
        ))
        .hint(format!(
            "evaluate both alike, as `longwave eval RUN {}`; `compare A:yarn B:direct` compares two readings",
            alike(pairing, &nearest)
        ))
    }

    /// What the filter names and no line of the list is of, a sentence each.
    fn unmet(&self, pairing: &Pairing<'_>, filter: &Filter) -> Vec<String> {
        let sentence = |asked: String, is_it: &dyn Fn(&ResultRow) -> bool| {
            if self.compared.iter().flatten().any(|row| is_it(row)) {
                return None;
            }
            let lacks = |side: &Side| !side.runs.iter().flatten().any(is_it);
            let why = match [pairing.a, pairing.b].map(lacks) {
                [true, true] => ": neither side has such a measurement".to_owned(),
                [true, false] => format!(": {} has no such measurement", pairing.a.name),
                [false, true] => format!(": {} has no such measurement", pairing.b.name),
                [false, false] => String::new(),
            };
            Some(format!("nothing is compared {asked}{why}"))
        };
        let lengths = filter.lengths.iter().filter_map(|length| {
            let is_it =
                |row: &ResultRow| length.rounded_down(row.settings.train_length) == row.settings.length;
            sentence(format!("at {}", length.text()), &is_it)
        });
        let extend = filter.extend.iter().filter_map(|one| {
            let name = match one {
                Reference::WindowBaseline => WINDOW_BASELINE.to_owned(),
                Reference::Kind(kind) => kind.clone(),
                Reference::Config(config) => config.to_string(),
            };
            sentence(format!("with {name}"), &|row| one.is(row))
        });
        lengths.chain(extend).collect()
    }

    pub(super) fn notes(&self, pairing: &Pairing<'_>, filter: &Filter) -> Vec<String> {
        let nearest = self.without_partner.iter().flatten();
        let obstacles = grouped(nearest.map(|differing| (obstacle::keys(differing), ())));
        let (a, b) = (&pairing.a.name, &pairing.b.name);
        // The most frequent obstacle stands for the others.
        let total: usize = obstacles.iter().map(|(_, all)| all.len()).sum();
        let most = if obstacles.len() > 1 { "most differ" } else { "the nearest differs" };
        let frequent = obstacles.into_iter().rev().max_by_key(|(_, all)| all.len());
        let mut notes: Vec<String> = frequent
            .map(|(keys, _)| format!("{total} measured for {a} have no partner in {b}: {most} in {keys}"))
            .into_iter()
            .collect();
        notes.extend(self.unmet(pairing, filter));
        if let Some(error) = self.other_text.first() {
            notes.push(format!("{} left out: {}", self.other_text.len(), error.message()));
        }
        let mut seeds = self.unpaired_seeds.clone();
        seeds.sort_unstable();
        seeds.dedup();
        if !seeds.is_empty() {
            notes.push(format!("one side alone has seed {}: left out", obstacle::numbers(&seeds)));
        }
        notes.extend(self.trained.map(|[a, b]| format!("the sides were trained at {a} and at {b} tokens")));
        let several = [pairing.a, pairing.b].iter().any(|side| side.runs.len() > 1);
        if several && self.list.iter().any(|(one, _)| one.seeds == 1) {
            notes.push(
                "where one seed alone has numbers on both sides there is no interval, since it would be over seeds; name one run on each side \
                 for one over documents"
                    .to_owned(),
            );
        }
        let many = |one: &Comparison| one.keeps_no_sums && one.seeds == 1;
        if self.list.iter().any(|(one, _)| many(one)) {
            let most = DocumentSums::MOST;
            notes.push(format!(
                "rows of more than {most} documents keep no sums of them: there is no interval over documents"
            ));
        }
        notes.extend(self.list.iter().find(|(one, _)| !one.same_tokens).map(|(one, _)| {
            let [a, b] = one.bytes;
            format!(
                "the sides did not score the same bytes of the text ({a} and {b} at length {}): their errors hold what differs \
                 between passages too",
                one.settings.length
            )
        }));
        notes
    }
}

/// Options of `eval` that measure both sides alike. Where they were trained at different lengths, a multiple of L is another length for
/// each, and so is what follows from L.
fn alike(pairing: &Pairing<'_>, nearest: &[obstacle::Differing]) -> String {
    let sides = [pairing.a, pairing.b];
    let mut rows = sides.iter().flat_map(|side| side.runs.iter().flatten());
    let first = rows.next().map(|row| row.settings.train_length);
    if rows.all(|row| Some(row.settings.train_length) == first) {
        return "--lengths 8L --extend yarn".to_owned();
    }
    let longest = |side: &Side| side.runs.iter().flatten().map(|row| row.settings.length).max();
    let length = sides.into_iter().filter_map(longest).min().unwrap_or_default();
    format!("--lengths {length}{}", obstacle::in_common(nearest))
}

/// The samples whose seed is among those of the other side.
fn paired<'a>(samples: Vec<Sample<'a>>, seeds: &[u64]) -> Vec<Sample<'a>> {
    samples.into_iter().filter(|sample| seeds.contains(&sample.seed)).collect()
}

fn comparison(
    a: &ResultRow,
    b: &ResultRow,
    left: &[Sample<'_>],
    right: &[Sample<'_>],
    metric: Metric,
) -> Option<(Comparison, PairedDifference)> {
    let difference = PairedDifference::new(left, right, LEVEL)?;
    let mean_of = |numbers: Vec<f64>| mean(&numbers).unwrap_or(f64::NAN);
    let value = |samples: &[Sample<'_>]| mean_of(samples.iter().map(|sample| sample.value).collect());
    let ppl = |samples: &[Sample<'_>]| mean_of(samples.iter().map(|sample| sample.row.nll()).collect()).exp();
    let comparison = Comparison {
        extend: a.extend.clone(),
        extend_config: a.extend_config.clone(),
        other_extend: b.extend.clone(),
        other_extend_config: b.extend_config.clone(),
        extensions: [a, b].map(Extension::of_row),
        reading: String::new(),
        checkpoint: a.checkpoint.clone(),
        other_checkpoint: b.checkpoint.clone(),
        settings: a.settings.clone(),
        metric,
        value: value(left),
        other_value: value(right),
        ppl: ppl(left),
        other_ppl: ppl(right),
        difference: difference.mean,
        se: None,
        over: Over::Documents,
        interval: None,
        bootstrap: difference.bootstrap(),
        p: None,
        p_holm: None,
        repeats: false,
        measured: [left, right].map(measured),
        same_tokens: a.same_tokens(b),
        bytes: [a.bytes, b.bytes],
        unit: a.unit(),
        documents: difference.documents,
        keeps_no_sums: [a, b]
            .iter()
            .any(|row| row.per_document.is_none() && row.documents > DocumentSums::MOST),
        seeds: difference.seeds,
    };
    Some((comparison, difference))
}
