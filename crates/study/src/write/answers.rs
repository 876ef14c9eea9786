//! What a study answers as tables: the verdicts on its claims, and what is the best.

use super::tables::{cell, value, what_cells_are};
use crate::best::Best;
use crate::difference::{Over, PairedDifference};
use crate::judge::{Judged, Need, POWER, Seeds, without_interval};
use crate::looks::Looks;
use crate::ranking::{Leaders, Ranked, Ranking};
use longwave_core::in_order::{distinct, grouped};
use longwave_eval::{Metric, ResultRow};
use longwave_report::grid::{Entry, Grid, Header};
use longwave_report::table::Cell;

pub(super) fn claims(claims: &[Judged], needs: &[Need], looks: &Looks) -> Grid {
    let of_losses = claims.iter().any(|claim| claim.metric == Metric::Loss);
    let unit = if of_losses { " in nats per token" } else { "" };
    let mut notes =
        vec![format!("Differences{unit}, left side minus right, paired by seed and by document.")];
    notes.extend(over_what(claims));
    if looks.are_several() {
        notes.push(format!(
            "Claims are judged after {} seeds until they are decided, each time with 1/{} of the 5%.",
            looks.in_words(),
            looks.seeds().len()
        ));
    }
    if claims.iter().any(|claim| claim.is_added) {
        let added = "(added): the claim was added or changed after the first result of the study was there. It is \
                     corrected with the rest.";
        notes.push(added.to_owned());
    }
    let others = claims.iter().map(|claim| claim.metric).filter(|metric| *metric != Metric::Loss);
    for other in distinct(others) {
        let better = other.better().map_or(String::new(), |which| format!(", {which} is better"));
        notes.push(format!("`{}`: differences in {}{better}.", other.name(), other.unit()));
    }
    let lacking = claims.iter().filter_map(|claim| Some((claim, claim.lacks.as_ref()?)));
    notes.extend(lacking.map(|(claim, why)| format!("`{}` was not judged: {why}.", claim.in_words())));
    notes.extend(seeds_needed(needs));
    notes.extend(without_interval(needs));
    Grid {
        title: "Claims".into(),
        setting: String::new(),
        headers: vec![
            Header::words("claim"),
            Header::words("verdict"),
            Header::number("tolerance"),
            Header::number("difference"),
            Header::number("adjusted interval"),
            Header::number("bootstrap 95%"),
            Header::number("p (Holm)"),
            Header::number("seeds, documents"),
        ],
        rows: claims.iter().map(verdict).collect(),
        notes,
    }
}

fn seeds_needed(needs: &[Need]) -> Option<String> {
    let open = needs.iter().filter(|need| !matches!(need.needed, Seeds::Decided | Seeds::NoInterval(_)));
    let open: Vec<String> = open.map(|need| format!("`{}`: {}", need.says, need.needed.in_words())).collect();
    (!open.is_empty()).then(|| {
        format!(
            "Seeds that decide an undecided claim with probability {:.0}%, if its difference and spread stay as they are: {}.",
            100.0 * POWER,
            open.join("; ")
        )
    })
}

/// What intervals are over, and what that leaves open; nothing where there is none.
fn over_what(claims: &[Judged]) -> Option<String> {
    let mut text = String::new();
    let is_over = |over: Over| claims.iter().any(|claim| claim.over == over && claim.interval.is_some());
    if is_over(Over::Seeds) {
        text += "Intervals over seeds are about other trainings, on these texts. ";
    }
    if is_over(Over::Documents) {
        text += "Intervals over documents are about these trainings, on other documents: they cannot show what other seeds \
                 would give. ";
    }
    if is_over(Over::Both) {
        text += "Intervals over seeds and documents are about other trainings on other documents: where two sides scored other \
                 bytes of the text, which ones these are is chance too. ";
    }
    (!text.is_empty()).then(|| {
        text + "Each is at the level that Holm's procedure gives it; after the first undecided claim the level stays."
    })
}

fn verdict(claim: &Judged) -> Vec<Entry> {
    let difference = claim.difference.as_ref();
    let bootstrap = difference.and_then(PairedDifference::bootstrap);
    let interval = claim.interval.map_or("-".to_owned(), |interval| {
        let over = claim.over.in_words(difference.map_or("document", |it| it.unit));
        format!("{} ({:.2}%, {over})", ends(Some((interval.low, interval.high))), 100.0 * claim.level)
    });
    let added = if claim.is_added { " (added)" } else { "" };
    let verdict = Entry { strong: true, ..Entry::new(format!("{}{added}", claim.verdict.word())) };
    let evidence = [
        claim.tolerance.to_string(),
        difference.map_or("not measured".to_owned(), |it| format!("{:+.4}", it.mean)),
        interval,
        ends(bootstrap),
        claim.p.map_or("-".to_owned(), p_value),
        difference.map_or("-".to_owned(), |it| format!("{}, {}", seeds_of(it, claim.seeds), it.documents)),
    ];
    [Entry::new(says(claim)), verdict].into_iter().chain(evidence.map(Entry::new)).collect()
}

/// The seeds of a difference, and how many there should be where that is more.
fn seeds_of(difference: &PairedDifference, all: usize) -> String {
    let seeds = difference.seeds;
    if seeds < all { format!("{seeds} of {all}") } else { seeds.to_string() }
}

/// The claim's sentence, with its metric where that is not the loss.
fn says(claim: &Judged) -> String {
    match claim.metric {
        Metric::Loss => claim.says.clone(),
        other => format!("{} (`{}`)", claim.says, other.name()),
    }
}

pub(super) fn ranking(best: Best, ranking: &Ranking<'_>) -> Grid {
    let shown = ranking.shown();
    let best_seeds = ranking.ranked.first().map_or(0, |best| best.seeds);
    let has_baseline = ranking.ranked.iter().any(|one| !one.baseline.is_empty());
    let baseline = |one: &Ranked<'_>| {
        let value_of = |it: Cell| value(shown, it.value);
        Entry::new(Cell::new(shown, &one.baseline).map_or("-".to_owned(), value_of))
    };
    let row = |(place, one): (usize, &Ranked<'_>)| {
        let texts = [
            one.difference.as_ref().map_or("-".to_owned(), |it| difference(it, one.seeds.min(best_seeds))),
            ends(one.interval.map(|interval| (interval.low, interval.high))),
            one.p.map_or("-".to_owned(), p_value),
        ];
        // One that needs the baseline is in no row alone.
        let mean = if shown.needs_baseline() {
            Entry::new(mean_value(shown, one.value))
        } else {
            cell(shown, &one.rows)
        };
        let first = [Entry::new(place.to_string()), Entry::new(one.name.clone()), mean];
        let baseline = has_baseline.then(|| baseline(one));
        first.into_iter().chain(baseline).chain(texts.map(Entry::new)).collect()
    };
    let first = [Header::number("place"), Header::words("reading"), Header::number(name(shown))];
    let last = ["difference to the best", "adjusted interval", "p (Holm)"].map(Header::number);
    let all: Vec<&ResultRow> = ranking.ranked.iter().flat_map(|one| one.rows.iter().copied()).collect();
    let at = best.at.text();
    let rows: Vec<Vec<Entry>> = (1..).zip(&ranking.ranked).map(row).collect();
    let cells = what_cells_are(shown, &all, &rows);
    Grid {
        title: format!("Best at {at}"),
        setting: String::new(),
        headers: first
            .into_iter()
            .chain(has_baseline.then(|| Header::number("window baseline")))
            .chain(last)
            .collect(),
        rows,
        notes: std::iter::once(cells).chain(notes(ranking)).chain([ranking.sentence(&at)]).collect(),
    }
}

/// What was ranked, and what its differences are over.
fn notes(ranking: &Ranking<'_>) -> Vec<String> {
    let paired = if ranking.seeds > 1 { "seed and by " } else { "" };
    let (metric, over) = (ranking.metric.unit(), ranking.over.in_words(ranking.unit));
    let has_interval = ranking.ranked.iter().any(|one| one.interval.is_some());
    let intervals = if has_interval { format!("; intervals are over {over}") } else { String::new() };
    let mut notes = vec![format!("Differences in {metric}, paired by {paired}{}{intervals}.", ranking.unit)];
    for one in ranking.ranked.iter().filter(|one| !one.same.is_empty()) {
        let same = one.same.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        notes.push(format!("The same as `{}` by construction, and counted with it: {same}.", one.name));
    }
    notes.extend(ranking.left_out.iter().map(|why| format!("Left out, since it does not compare: {why}.")));
    if let Some(axis) = &ranking.rate_axis {
        let how = if ranking.seeds > 1 { "the other seeds choose" } else { "is best" };
        let rates = |one: &Ranked<'_>| {
            format!("`{}` at {}", one.name, distinct(one.rates.iter().copied()).join(" and "))
        };
        let rates = ranking.ranked.iter().map(rates).collect::<Vec<_>>().join("; ");
        notes.push(format!("Each seed is read at the `{axis}` that {how} by validation loss: {rates}."));
    }
    notes
}

fn difference(of: &PairedDifference, seeds: usize) -> String {
    let lost = if of.seeds < seeds { format!(" ({} of {seeds} seeds)", of.seeds) } else { String::new() };
    format!("{:+.4}{lost}", of.mean)
}

/// The best and the second at each length: what was measured, without a test. One table for each metric, since lengths may be read by
/// protocols that are about another one.
pub(super) fn leaders(leaders: &[Leaders]) -> Vec<Grid> {
    let by_metric = grouped(leaders.iter().map(|one| (one.metric, one)));
    let by = |metric| if by_metric.len() > 1 { format!(": {}", name(metric)) } else { String::new() };
    let title = |metric| format!("Best at each length{}", by(metric));
    by_metric.iter().map(|(metric, of)| leaders_by(*metric, title(*metric), of)).collect()
}

fn leaders_by(metric: Metric, title: String, leaders: &[&Leaders]) -> Grid {
    let row = |one: &&Leaders| {
        let [best, second] = [one.best.as_ref(), one.second.as_ref()].map(|of| {
            of.map_or([String::new(), String::new()], |(name, value)| {
                [name.clone(), mean_value(metric, *value)]
            })
        });
        let length = Entry::new(one.at.clone());
        std::iter::once(length).chain(best.into_iter().chain(second).map(Entry::new)).collect()
    };
    Grid {
        title,
        setting: String::new(),
        headers: vec![
            Header::words("length"),
            Header::words("best"),
            Header::number(name(metric)),
            Header::words("second"),
            Header::number(name(metric)),
        ],
        rows: leaders.iter().map(row).collect(),
        notes: vec![
            "Means over seeds, of all that the study compares, the window baseline aside. Whether a difference is \
             significant is a question for `best = \"8L\"` or a claim."
                .to_owned(),
        ],
    }
}

/// What the mean of a metric is shown as: a loss as its perplexity.
fn mean_value(metric: Metric, mean: f64) -> String {
    match metric {
        Metric::Loss => value(Metric::Perplexity, mean.exp()),
        other => value(other, other.factor() * mean),
    }
}

fn name(metric: Metric) -> String {
    match metric {
        Metric::Loss | Metric::Perplexity => "perplexity".to_owned(),
        other => other.title().to_lowercase(),
    }
}

fn ends(ends: Option<(f64, f64)>) -> String {
    ends.map_or("-".to_owned(), |(low, high)| format!("{low:+.4} to {high:+.4}"))
}

fn p_value(p: f64) -> String {
    if p < 1e-4 { format!("{p:.1e}") } else { format!("{p:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::ClaimConfig;
    use crate::difference::tests::row;
    use crate::judge::{judge, needs};
    use crate::plan::tests::plan;
    use crate::results::tests::results;

    #[test]
    fn a_length_is_shown_in_the_metric_that_it_was_compared_by() {
        let of = |at: &str, metric, value| {
            let [best, second] =
                [("rope", value), ("alibi", 0.0)].map(|(name, value)| (name.to_owned(), value));
            Leaders { at: at.to_owned(), metric, best: Some(best), second: Some(second) }
        };
        let lengths =
            [of("L", Metric::Loss, 2.0), of("4L", Metric::Accuracy, 0.117), of("8L", Metric::Loss, 3.0)];
        let told = |tables: &[Grid]| -> Vec<(String, Vec<String>)> {
            let told = |it: &Grid| {
                let values = it
                    .rows
                    .iter()
                    .map(|row| [&row[0], &row[2], &row[4]].map(|it| it.value.clone()).join(" "));
                (format!("{}, {}", it.title, it.headers[2].name), values.collect())
            };
            tables.iter().map(told).collect()
        };
        let expected = |head: &str, rows: &[&str]| -> (String, Vec<String>) {
            (head.to_owned(), rows.iter().map(|row| (*row).to_owned()).collect())
        };
        // exp 2, exp 3 and exp 0; shares in per cent.
        let both = [
            expected("Best at each length: perplexity, perplexity", &["L 7.39 1.00", "8L 20.09 1.00"]),
            expected("Best at each length: accuracy in %, accuracy in %", &["4L 11.7 0.0"]),
        ];
        assert_eq!(told(&leaders(&lengths)), both);
        let alone = [expected("Best at each length, accuracy in %", &["4L 11.7 0.0"])];
        assert_eq!(told(&leaders(&lengths[1..2])), alone);
        assert!(leaders(&[]).is_empty());
    }

    #[test]
    fn one_document_of_one_seed_has_no_interval_and_a_note_says_what_gives_one() {
        let axes = "seeds = 1\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n";
        let (plan, mut results) = (plan(axes), results());
        results.seeds = 1;
        results.rows.retain(|it| it.row.seed == 0);
        for it in &mut results.rows {
            it.run /= 3;
            it.row = row(&it.row.extend, it.row.settings.length, 0, &[it.row.nll()]);
        }
        let says = "says = \"rope, yarn < rope, ntk at 2L\"".parse().unwrap();
        let said = [ClaimConfig::read(&says, "claim[0]").unwrap()];
        let judgement = judge(&said, &plan, &results).unwrap();
        let needs = needs(&said, &plan, &results, &judgement).unwrap();
        let notes = claims(&judgement.claims, &needs, &plan.looks).notes;
        let expected = [
            "Differences in nats per token, left side minus right, paired by seed and by document.",
            "No interval, since it would be over documents, and both sides scored fewer than two documents in common: \
             `rope, yarn < rope, ntk at 2L`. With `seeds = 3`, a claim without an `over` of its own is judged over seeds.",
        ];
        assert_eq!(notes, expected);
    }
}
