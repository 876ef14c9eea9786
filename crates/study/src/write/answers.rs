//! What a study answers as tables: the verdicts on its claims, and what is the best.

use super::tables::{cell, value, what_cells_are};
use crate::judge::Judged;
use crate::looks::Looks;
use crate::ranking::{Leaders, Ranked, Ranking};
use longwave_eval::{Metric, ResultRow};
use longwave_position::Tokens;
use longwave_report::grid::{Entry, Grid, Header};
use longwave_report::table::Cell;

/// The verdict on each claim, with its evidence.
pub(super) fn claims(claims: &[Judged], looks: &Looks) -> Grid {
    let of_losses = claims.iter().any(|claim| claim.metric == Metric::Loss);
    let unit = if of_losses { " in nats per token" } else { "" };
    let mut notes =
        vec![format!("Differences{unit}, left side minus right, paired by seed and by document.")];
    if looks.are_several() {
        notes.push(format!(
            "Claims were judged after {} seeds, each time with 1/{} of the 5%; a claim that is decided gets no more seeds.",
            looks.in_words(),
            looks.seeds().len()
        ));
    }
    if claims.iter().any(|claim| claim.is_added) {
        let added = "(added): the claim was added or changed after the first result of the study was there. It is \
                     corrected with the rest.";
        notes.push(added.to_owned());
    }
    let mut others: Vec<Metric> = Vec::new();
    for claim in claims {
        if claim.metric != Metric::Loss && !others.contains(&claim.metric) {
            others.push(claim.metric);
        }
    }
    for other in others {
        let less = if other.lower_is_better() { "less" } else { "more" };
        notes.push(format!("`{}`: differences in {}, {less} is better.", other.name(), other.unit()));
    }
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

fn verdict(claim: &Judged) -> Vec<Entry> {
    let difference = claim.difference.as_ref();
    let bootstrap = difference.and_then(|difference| difference.bootstrap);
    let interval = claim.interval.map_or("-".to_owned(), |interval| {
        format!("{} ({:.2}%)", ends(Some((interval.low, interval.high))), 100.0 * claim.level)
    });
    let added = if claim.is_added { " (added)" } else { "" };
    let verdict = Entry { strong: true, ..Entry::new(format!("{}{added}", claim.verdict.word())) };
    let evidence = [
        claim.tolerance.to_string(),
        difference.map_or("not measured".to_owned(), |it| format!("{:+.4}", it.mean)),
        interval,
        ends(bootstrap),
        claim.p.map_or("-".to_owned(), p_value),
        difference.map_or("-".to_owned(), |it| format!("{}, {}", it.seeds, it.documents)),
    ];
    [Entry::new(says(claim)), verdict].into_iter().chain(evidence.map(Entry::new)).collect()
}

/// The claim's sentence, with its metric where that is not the loss.
fn says(claim: &Judged) -> String {
    match claim.metric {
        Metric::Loss => claim.says.clone(),
        other => format!("{} (`{}`)", claim.says, other.name()),
    }
}

/// What is the best at one length, and by how much.
pub(super) fn ranking(at: Tokens, ranking: &Ranking<'_>) -> Grid {
    let shown = ranking.shown();
    let has_baseline = ranking.ranked.iter().any(|one| !one.baseline.is_empty());
    let baseline = |one: &Ranked<'_>| {
        let value_of = |it: Cell| value(shown, it.value);
        Entry::new(Cell::new(shown, &one.baseline).map_or("-".to_owned(), value_of))
    };
    let row = |(place, one): (usize, &Ranked<'_>)| {
        let texts = [
            one.difference.as_ref().map_or("-".to_owned(), |it| format!("{:+.4}", it.mean)),
            ends(one.interval.map(|interval| (interval.low, interval.high))),
            one.p.map_or("-".to_owned(), p_value),
        ];
        let first = [Entry::new(place.to_string()), Entry::new(one.name.clone()), cell(shown, &one.rows)];
        let baseline = has_baseline.then(|| baseline(one));
        first.into_iter().chain(baseline).chain(texts.map(Entry::new)).collect()
    };
    let first = [Header::number("place"), Header::words("reading"), Header::number(name(shown))];
    let last = ["difference to the best", "adjusted interval", "p (Holm)"].map(Header::number);
    let all: Vec<&ResultRow> = ranking.ranked.iter().flat_map(|one| one.rows.iter().copied()).collect();
    let paired = if ranking.seeds() > 1 { "seed and by " } else { "" };
    let unit = ranking.metric.unit();
    Grid {
        title: format!("Best at {}", at.text()),
        setting: String::new(),
        headers: first
            .into_iter()
            .chain(has_baseline.then(|| Header::number("window baseline")))
            .chain(last)
            .collect(),
        rows: (1..).zip(&ranking.ranked).map(row).collect(),
        notes: vec![
            what_cells_are(shown, &all),
            format!("Differences in {unit}, paired by {paired}{}.", ranking.unit),
            ranking.sentence(&at.text()),
        ],
    }
}

/// The best and the second at each length: what was measured, without a test.
pub(super) fn leaders(leaders: &[Leaders]) -> Option<Grid> {
    let metric = leaders.first()?.metric;
    let row = |one: &Leaders| {
        let [best, second] = [one.best.as_ref(), one.second.as_ref()].map(|of| {
            of.map_or([String::new(), String::new()], |(name, value)| {
                [name.clone(), mean_value(metric, *value)]
            })
        });
        let length = Entry::new(one.at.clone());
        std::iter::once(length).chain(best.into_iter().chain(second).map(Entry::new)).collect()
    };
    Some(Grid {
        title: "Best at each length".into(),
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
    })
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
