//! Studies drawn at random: how often verdicts are wrong where nothing differs, and how often they come where something does.

#![expect(clippy::print_stdout, reason = "the documentation states these numbers")]

use crate::best::Best;
use crate::claim::ClaimConfig;
use crate::judge::{POWER, Seeds, Verdict, judge, needs};
use crate::plan::Plan;
use crate::ranking::{ALPHA, Planned, rank};
use crate::results::{Measured, Results};
use longwave_eval::{DocumentSums, ResultRow};

const STUDIES: usize = 2000;

struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of a standard normal, by the sum of twelve uniform ones.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// One study without a difference: four readings, a fifth of the trainings lost, and now and then a reading that is equal to another one.
/// Trainings deviate by `of_seeds`, and what each document does to a reading by its number in `documents`.
fn of_no_difference(draws: &mut Draws, seeds: usize, of_seeds: f64, documents: &[f64]) -> Results {
    let mut results = crate::results::tests::results();
    results.seeds = seeds;
    results.rows.clear();
    let has_tie = draws.uniform() < 0.3;
    for name in 0..4 {
        let effects: Vec<f64> = documents.iter().map(|deviation| deviation * draws.normal()).collect();
        for seed in 0..results.seeds {
            let training = of_seeds * draws.normal();
            let losses = effects.iter().map(|effect| 3.0 + training + effect + 0.1 * draws.normal());
            let documents: Vec<f64> = losses.collect();
            let mut row = crate::difference::tests::row("direct", 256, seed as u64, &documents);
            row.config_hash = format!("c{name}");
            if draws.uniform() < 0.2 {
                continue;
            }
            let mut add = |label: String| {
                let (labels, extend) = (vec![label], "direct".to_owned());
                results.rows.push(Measured { run: 10 * name + seed, labels, extend, row: row.clone() });
            };
            add(format!("{name}"));
            if has_tie && name == 0 {
                add("tie".to_owned());
            }
        }
    }
    results
}

#[test]
fn of_2000_studies_without_a_difference_one_in_twenty_at_most_finds_one() {
    let (mut draws, mut ties) = (Draws(42), 0);
    let mut wrong = |seeds: usize, of_seeds: f64, documents: &[f64], planned: &Planned| {
        let best = Best { at: "2L".parse().unwrap(), metric: None };
        let is_wrong = |_: &usize| {
            let seeds = seeds + (3.0 * draws.uniform()) as usize;
            let results = of_no_difference(&mut draws, seeds, of_seeds, documents);
            let ranking = rank(&results, best, planned).unwrap();
            ties += ranking.ranked.iter().filter(|one| !one.same.is_empty()).count();
            ranking.ranked.iter().any(|one| one.p.is_some_and(|p| p < ALPHA))
        };
        (0..STUDIES).filter(is_wrong).count()
    };
    let same = wrong(3, 0.0, &[0.0; 3], &Planned::default());
    println!("wrong: {}", share(same));
    // What the documents do to a mean is 0.1 and 0.5 times what a training does.
    let other =
        [0.1, 0.5].map(|share| wrong(2, 1.0, &[share * 12_f64.sqrt(); 12], &Planned::of_other_tokens()));
    println!("wrong over seeds and documents: {:?}", other.map(share));
    // 5% of 2000, and three standard deviations of that count.
    assert!(same <= 129 && other.iter().all(|wrong| *wrong <= 129), "{same} {other:?}");
    assert!(same > 10 && ties > 400, "nothing was tested: {same} {ties}");
}

fn share(count: usize) -> String {
    let share = count as f64 / STUDIES as f64;
    format!("{:.1}% ±{:.1}", 100.0 * share, 100.0 * (share * (1.0 - share) / STUDIES as f64).sqrt())
}

/// A claim about `rope` and `alibi`, whose losses differ by `difference` with a deviation of 1 from seed to seed; `of_documents`
/// is the deviation from document to document. Other claims stand beside it.
struct Truth {
    claim: &'static str,
    others: &'static [&'static str],
    difference: f64,
    of_documents: f64,
}

/// What is sure after two seeds, and what nothing decides.
const SURE: &str = "says = \"rope < t5 at 2L\"";
const NEVER: &str = "says = \"rope < none at 2L\"";

const TRUTHS: [Truth; 6] = [
    Truth { claim: "says = \"rope < alibi at 2L\"", others: &[], difference: -0.8, of_documents: 0.0 },
    Truth {
        claim: "says = \"rope < alibi at 2L\"",
        others: &[SURE, SURE, NEVER],
        difference: -0.8,
        of_documents: 0.0,
    },
    Truth {
        claim: "says = \"rope > alibi at 2L\"\ntolerance = 0.5",
        others: &[SURE],
        difference: -1.5,
        of_documents: 0.0,
    },
    Truth {
        claim: "says = \"rope = alibi at 2L\"\ntolerance = 1.0",
        others: &[],
        difference: 0.0,
        of_documents: 0.0,
    },
    Truth {
        claim: "says = \"rope = alibi at 2L\"\ntolerance = 1.0",
        others: &[NEVER],
        difference: 0.4,
        of_documents: 0.0,
    },
    Truth {
        claim: "says = \"rope < alibi at 2L\"\nover = \"both\"",
        others: &[],
        difference: -1.2,
        of_documents: 0.9,
    },
];

const NAMES: [&str; 4] = ["rope", "alibi", "t5", "none"];
const DOCUMENTS: usize = 8;

/// Adds the row of one training with the loss of each document.
fn add(
    results: &mut Results,
    plan: &Plan,
    template: &ResultRow,
    (name, seed): (&str, usize),
    losses: &[f64],
) {
    let is_it = |run: &crate::Planned| run.labels[0] == name && run.seed == seed as u64;
    let mut row = template.clone().with("nll", losses.iter().sum::<f64>() / losses.len() as f64);
    row.seed = seed as u64;
    let sums = losses.iter().map(|loss| 10.0 * loss).collect();
    row.per_document = Some(DocumentSums::new(vec![10; losses.len()]).with_numbers("nll", sums));
    let run = plan.runs.iter().position(is_it).unwrap();
    let (labels, extend) = (vec![name.to_owned()], "direct".to_owned());
    results.rows.push(Measured { run, labels, extend, row });
}

fn plan_of(seeds: usize) -> Plan {
    crate::plan::tests::plan(&format!(
        "seeds = {seeds}\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\", \"t5\", \"none\"]\n\
         [[evaluate]]\nlengths = [256]\nextend = [\"direct\"]"
    ))
}

impl Truth {
    fn claims(&self) -> Vec<ClaimConfig> {
        let read = |text: &&str| ClaimConfig::read(&text.parse().unwrap(), "claim[0]").unwrap();
        std::iter::once(&self.claim).chain(self.others).map(read).collect()
    }

    /// How far a reading is from `none`.
    fn offset(&self, name: &str) -> f64 {
        match name {
            "rope" | "none" => self.difference,
            "t5" => self.difference + 40.0,
            _ => 0.0,
        }
    }

    /// The seeds that the planner asks for after a pilot of two, which differ as the truth does: by `difference ± 1 / sqrt(2)`,
    /// whose deviation is 1, and by document as much to both sides.
    fn planned(&self, template: &ResultRow) -> usize {
        let (plan, mut results) = (plan_of(2), of_nothing(2));
        for (seed, sign) in [(0, 1.0), (1, -1.0)] {
            for name in NAMES {
                let is_rope = if name == "rope" { 1.0 } else { 0.0 };
                let from_t5 = if name == "t5" { sign * 0.5_f64.sqrt() } else { 0.0 };
                let value = 3.0 + self.offset(name) + is_rope * sign * 0.5_f64.sqrt() + from_t5;
                let documents = self.of_documents * ((DOCUMENTS - 1) as f64 / DOCUMENTS as f64).sqrt();
                let of = |document: usize| {
                    value + is_rope * documents * if document.is_multiple_of(2) { 1.0 } else { -1.0 }
                };
                let losses: Vec<f64> = (0..DOCUMENTS).map(of).collect();
                add(&mut results, &plan, template, (name, seed), &losses);
            }
        }
        let claims = self.claims();
        let judgement = judge(&claims, &plan, &results).unwrap();
        match needs(&claims, &plan, &results, &judgement).unwrap()[0].needed {
            Seeds::About(seeds) => seeds,
            other => panic!("{}: {other:?}", self.claim),
        }
    }

    /// A study in which trainings are lost until `wanted` seeds have both sides.
    fn drawn(&self, wanted: usize, plan: &Plan, template: &ResultRow, draws: &mut Draws) -> Results {
        let mut results = of_nothing(plan.seeds.len());
        // A pair differs by the root of the sum of two squares.
        let each = 0.5_f64.sqrt();
        let of_documents: Vec<Vec<f64>> = NAMES
            .iter()
            .map(|_| (0..DOCUMENTS).map(|_| each * self.of_documents * draws.normal()).collect())
            .collect();
        let mut pairs = 0;
        for seed in 0..plan.seeds.len() {
            let of_seed = draws.normal();
            let is_lost = NAMES.map(|_| draws.uniform() < 0.15);
            for (place, name) in NAMES.into_iter().enumerate().filter(|(place, _)| !is_lost[*place]) {
                let value = 3.0 + self.offset(name) + of_seed + each * draws.normal();
                let losses: Vec<f64> = of_documents[place].iter().map(|more| value + more).collect();
                add(&mut results, plan, template, (name, seed), &losses);
            }
            pairs += usize::from(!is_lost[0] && !is_lost[1]);
            if pairs == wanted {
                return results;
            }
        }
        panic!("too many trainings were lost");
    }
}

fn of_nothing(seeds: usize) -> Results {
    let mut results = crate::results::tests::results();
    results.rows.clear();
    results.seeds = seeds;
    results
}

#[test]
fn of_2000_studies_with_a_difference_as_many_find_it_as_the_planner_promised() {
    let template = crate::difference::tests::row("direct", 256, 0, &[0.0]);
    for (place, truth) in TRUTHS.iter().enumerate() {
        let wanted = truth.planned(&template);
        let plan = plan_of(3 * wanted + 20);
        let (claims, mut draws) = (truth.claims(), Draws(7 + place as u64));
        let mut found = 0;
        for _ in 0..STUDIES {
            let results = truth.drawn(wanted, &plan, &template, &mut draws);
            let judged = judge(&claims, &plan, &results).unwrap().claims;
            assert_eq!(judged[0].difference.as_ref().unwrap().seeds, wanted);
            found += usize::from(judged[0].verdict != Verdict::Undecided);
        }
        println!("{} with {wanted} seeds: decided {}", truth.claim, share(found));
        let off = found as f64 / STUDIES as f64 - POWER;
        assert!(off.abs() < 0.1, "{}, {wanted} seeds: {}", truth.claim, share(found));
    }
}
