use super::*;
use crate::looks::ALPHA;
use crate::plan::tests::{plan, task_plan};
use crate::results::Measured;
use crate::results::tests::results;
use longwave_eval::{DocumentSums, Protocol};

const AXES: &str = "seeds = 3\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n";

fn claim(text: &str) -> Result<ClaimConfig> {
    ClaimConfig::read(&text.parse().unwrap(), "claim[0]")
}

fn said(says: &str) -> ClaimConfig {
    claim(&format!("says = \"{says}\"")).unwrap()
}

fn judged(claims: &[&str]) -> Vec<Judged> {
    let claims: Vec<ClaimConfig> = claims.iter().map(|text| claim(text).unwrap()).collect();
    judge(&claims, &plan(AXES), &results()).unwrap().claims
}

fn difference(says: &str) -> Option<f64> {
    judged(&[&format!("says = \"{says}\"")])[0].difference.as_ref().map(|difference| difference.mean)
}

#[test]
fn verdicts_follow_the_interval() {
    let found = judged(&[
        "says = \"rope, yarn < rope, ntk at 4L\"",
        "says = \"rope, yarn > rope, ntk at 4L\"",
        "says = \"rope, yarn < rope, ntk at 4L\"\ntolerance = 0.0",
        "says = \"rope, yarn = rope, ntk at 256\"\ntolerance = 5.0",
        "says = \"rope, yarn = rope, ntk at 4L\"\ntolerance = 0.001",
    ]);
    let verdicts: Vec<&str> = found.iter().map(|judged| judged.verdict.word()).collect();
    assert_eq!(verdicts, ["holds", "fails", "holds", "holds", "fails"]);
    let difference = found[0].difference.as_ref().unwrap();
    assert!(difference.mean < -0.2 && difference.seeds == 3 && difference.documents == 3);
    // Five claims: the surest has the widest interval.
    assert!(found.iter().any(|judged| judged.level == 0.99));
}

#[test]
fn what_is_sure_alone_may_be_undecided_among_others() {
    let says = "says = \"rope, yarn < rope, ntk at 2L\"";
    let interval = judged(&[says])[0].interval.unwrap();
    // A tolerance that the difference stays below with p = 0.035.
    let reach = interval.se * crate::statistics::student::quantile(1.0 - 0.035 / 2.0, interval.df);
    let claim = format!("{says}\ntolerance = {:?}", interval.mean + reach);
    assert_eq!(judged(&[&claim])[0].verdict, Verdict::Holds);
    // Of two the first needs p < 0.025, and the second may not pass it.
    let both = judged(&[&claim, &claim]);
    assert_eq!([both[0].verdict, both[1].verdict], [Verdict::Undecided; 2]);
    // The first stops the procedure: the second has its level.
    assert_eq!([both[0].level, both[1].level], [0.975, 0.975]);
    assert!(both.iter().all(|one| (one.p.unwrap() - 0.07).abs() < 1e-9));
}

#[test]
fn a_length_is_in_tokens_or_a_multiple_of_the_training_length() {
    let at = |length: &str| difference(&format!("rope, yarn < rope, ntk at {length}"));
    let expected = at("512").unwrap();
    assert!(["4L", "8L/2", "4.005L"].into_iter().all(|length| at(length) == Some(expected)));
    assert_eq!(at("3L"), None);
}

#[test]
fn claims_may_be_about_runs_of_several_training_lengths() {
    let axis = "[[axis]]\nkey = \"train.length\"\nvalues = [64, 128, 256]\n";
    let plan = plan(&format!("{axis}[[evaluate]]\nextend = [\"ntk\", \"yarn\"]"));
    let of = |says: &str, more: &str| check(&claim(&format!("says = \"{says}\"\n{more}")).unwrap(), &plan);
    let check = |says: &str| of(says, "");
    check("64, yarn < 64, ntk at 8L").unwrap();
    // The windows of other lengths hold other tokens.
    let error = check("256, yarn < 64, yarn at 2L").unwrap_err();
    assert!(error.message().contains("it compares `loss` over different tokens"), "{error}");
    of("256, yarn < 64, yarn at 2L", "metric = \"bits_per_byte\"").unwrap();
    let error = check("256, yarn < 64, yarn at 1.5L").unwrap_err();
    assert!(error.message().contains("no evaluation reads `256, yarn` at 384 tokens"), "{error}");
    assert!(error.hint_text().unwrap().contains("its lengths are 256, 512, 1024, 2048"), "{error}");
    assert!(check("yarn < ntk at 8L").unwrap_err().message().contains("leaves `train.length` open"));
}

#[test]
fn a_side_may_have_a_length_of_its_own() {
    // `ntk` is worse than `yarn` by 0.2 at 4L, and at 2L by less.
    let across = difference("rope, ntk at 4L > rope, yarn at 2L").unwrap();
    let [at_4l, yarn] = ["rope, ntk > rope, yarn at 4L", "rope, yarn at 4L > rope, yarn at 2L"]
        .map(|says| difference(says).unwrap());
    assert!((across - at_4l - yarn).abs() < 1e-12, "{across} {at_4l} {yarn}");
    let equal = "rope, ntk at 512 > rope, yarn at 4L";
    assert_eq!(difference(equal), Some(at_4l));
    // A label may hold the word.
    let plan = plan(
        "[[axis]]\nname = \"where\"\npoints = [{ label = \"look at me\" }]\n[[evaluate]]\nextend = [\"ntk\", \"yarn\"]",
    );
    check(&said("look at me, ntk < yarn at 8L"), &plan).unwrap();
}

#[test]
fn a_side_may_name_a_step_whose_checkpoint_was_kept() {
    let mut results = results();
    let mut kept = results.rows.clone();
    for measured in &mut kept {
        let loss = measured.row.nll() + 0.5;
        measured.row = measured.row.clone().with("nll", loss);
        measured.row.checkpoint = "step-3".to_owned();
        measured.row.step = 3;
        measured.row.per_document = None;
    }
    results.rows.extend(kept);
    let plan = plan(AXES);
    let mean = |says: &str| {
        judge(&[said(says)], &plan, &results).unwrap().claims[0].difference.as_ref().map(|one| one.mean)
    };
    let close = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-12;
    let at_the_end = mean("rope, yarn < rope, ntk at 4L").unwrap();
    assert!(close(mean("rope, yarn, step=3 < rope, ntk, step=3 at 4L"), at_the_end));
    assert!(close(mean("rope, yarn, step=3 > rope, yarn at 4L"), 0.5));
    assert!(close(mean("rope, yarn, step=3 > rope, yarn, step=6 at 4L"), 0.5));
    assert_eq!(mean("rope, yarn, step=4 > rope, yarn at 4L"), None);
}

#[test]
fn a_step_must_be_kept_and_read() {
    let evaluate = "[[evaluate]]\nextend = [\"ntk\", \"yarn\"]\ncheckpoints = \"all\"";
    let plan = plan(&format!("[set]\ntrain = {{ keep_checkpoints = [2, 4] }}\n{evaluate}"));
    let checked = |says: &str| check(&said(says), &plan);
    checked("ntk, step=2 > ntk, step=4 at 8L").unwrap();
    checked("ntk, step=2 > ntk at L").unwrap();
    let error = checked("ntk, step=3 > ntk at L").unwrap_err();
    assert!(error.message().contains("no evaluation reads `ntk, step=3` at step 3"), "{error}");
    assert!(error.hint_text().unwrap().starts_with("its steps are 2, 4, "), "{error}");
    let error = checked("ntk, step=two > ntk at L").unwrap_err();
    assert!(error.message().contains("`step=two` is no extension and no label"), "{error}");
}

#[test]
fn what_was_not_measured_is_undecided() {
    let missing = &judged(&["says = \"rope, yarn < alibi, yarn at 64L\""])[0];
    assert_eq!((missing.verdict, missing.p, &missing.difference), (Verdict::Undecided, None, &None));
}

#[test]
fn the_interval_and_the_p_value_say_the_same() {
    let one = &judged(&["says = \"rope, yarn < rope, ntk at 2L\""])[0];
    let undecided = one.p.unwrap() > ALPHA;
    let interval = one.interval.unwrap();
    assert_eq!(undecided, interval.low < 0.0 && 0.0 < interval.high);
}

#[test]
fn refusals_show_the_form() {
    let message = |text: &str| claim(text).unwrap_err().to_string();
    assert!(message("says = \"yarn < ntk\"").contains("it has no ` at LENGTH`"));
    assert!(message("says = \"yarn ntk at 8L\"").contains("it has no ` < `"));
    assert!(message("says = \"yarn < ntk at far\"").contains("a length is"));
    assert!(message("says = \"yarn = ntk at L\"").contains("claim[0].tolerance"));
    assert!(message("says = \"yarn < ntk at L\"\ntolerance = -0.1").contains("it must be 0 or more"));
    assert!(message("say = \"x\"").contains("did you mean `says`?"));
    let only = "[[evaluate]]\nonly = { position = \"rope\" }\nextend = [\"ntk\", \"yarn\"]\n[[evaluate]]\nextend = [\"direct\"]";
    let plan = plan(&format!("{AXES}{only}"));
    let checked = |says: &str| check(&said(says), &plan);
    let refused = |says: &str| checked(says).unwrap_err().to_string();
    assert!(refused("yarn < ntk at L").contains("leaves `position` open"));
    let slip = refused("rope, yarm < rope, ntk at L");
    assert!(slip.contains("hint: did you mean `yarn`? extensions are ntk, yarn, direct"), "{slip}");
    assert!(refused("rope, alibi < rope, ntk at L").contains("`alibi` is one too many"));
    checked("position=rope, yarn < alibi, direct at L").unwrap();
    checked("rope, yarn < alibi, window_baseline at L").unwrap();
}

/// Results of a task: 2 seeds, 400 sequences of 10 tokens each; `ntk` answers a fourth of them more than `direct`.
fn answers() -> Results {
    let mut results = results();
    results.rows.retain(|measured| measured.row.seed < 2);
    for measured in &mut results.rows {
        // The place in a plan of two seeds.
        measured.run = measured.run / 3 * 2 + measured.run % 3;
        let right: i32 = if measured.extend == "ntk" { 300 } else { 200 };
        let row = &mut measured.row;
        let correct: Vec<u64> = (0..400).map(|index| if index < right { 10 } else { row.seed }).collect();
        row.settings.protocol = Protocol::Task;
        row.values.set("accuracy", Some(correct.iter().sum::<u64>() as f64 / 4000.0));
        row.values.set("exact_match", Some(f64::from(right) / 400.0));
        let sums = DocumentSums::new(vec![10; 400]).with_numbers("nll", vec![1.0; 400]);
        row.per_document = Some(sums.with_counts("correct", correct));
    }
    results
}

const TASK: &str = "seeds = 2\n[[axis]]\nkey = \"position\"\n\
                    values = [\"rope\", \"alibi\"]\n[[evaluate]]\nprotocol = \"task\"\nlengths = [256]\n\
                    extend = [\"ntk\", \"yarn\"]";

#[test]
fn more_of_a_share_is_said_with_more() {
    let plan = task_plan(TASK);
    let judged = |text: &str| {
        let claim = claim(text).unwrap();
        judge(&[claim], &plan, &answers()).unwrap().claims.remove(0)
    };
    let exact = "says = \"rope, ntk > rope, yarn at 2L\"\nmetric = \"exact_match\"";
    let found = judged(exact);
    let difference = found.difference.unwrap();
    // The same in both seeds: 300 of 400 against 200.
    assert_eq!((difference.mean, difference.seeds, difference.documents), (0.25, 2, 400));
    // Two sequences more, each answered by one side alone.
    assert_eq!((found.verdict, difference.by_document.unwrap().df), (Verdict::Holds, 401.0));
    // No spread is less than that of numbers rounded to steps of 1/400, as shares of 400 are: 1/400 / sqrt(6), of two seeds.
    let se = difference.by_seed.unwrap().se;
    assert!((se - 1.0 / 400.0 / 6f64.sqrt() / 2f64.sqrt()).abs() < 1e-12, "{se}");
    assert_eq!(judged(&exact.replace('>', "<")).verdict, Verdict::Fails);
    let turned = judged("says = \"rope, yarn < rope, ntk at 2L\"\nmetric = \"exact_match\"");
    assert_eq!((turned.verdict, turned.difference.unwrap().mean), (Verdict::Holds, -0.25));
    let accuracy = judged("says = \"rope, ntk > rope, yarn at 2L\"\nmetric = \"accuracy\"");
    // One answer of ten tokens, less what the wrong answers have right: 0 in the first seed, 1 in the second.
    assert!((accuracy.difference.unwrap().mean - f64::midpoint(10.0 / 40.0, 9.0 / 40.0)).abs() < 1e-12);
}

#[test]
fn the_baseline_is_that_of_the_same_run() {
    let mut results = results();
    let mut baselines: Vec<Measured> =
        results.rows.iter().filter(|row| row.extend == "ntk").cloned().collect();
    for measured in &mut baselines {
        let row = &mut measured.row;
        row.extend = longwave_eval::WINDOW_BASELINE.to_owned();
        row.settings.exact = Some(false);
        measured.extend.clone_from(&row.extend);
        // Alibi is worse by 0.3, and so is its baseline.
        row.values.set("nll", Some(row.nll() - 0.5));
        let sums = row.per_document.take().unwrap();
        let nll = sums.get("nll").unwrap().iter().map(|nll| nll - 5.0).collect();
        row.per_document = Some(DocumentSums::new(sums.tokens).with_numbers("nll", nll));
    }
    results.rows.extend(baselines);
    let text = "says = \"rope, ntk = alibi, ntk at 4L\"\ntolerance = 0.01\nmetric = \"baseline_difference\"";
    let plan = plan(AXES);
    let judged = judge(&[claim(text).unwrap()], &plan, &results).unwrap().claims.remove(0);
    let difference = judged.difference.unwrap();
    assert!(difference.mean.abs() < 1e-12 && difference.seeds == 3 && difference.documents == 3);
    assert_eq!(judged.verdict, Verdict::Holds);
}

#[test]
fn a_metric_that_no_row_has_is_refused() {
    let exact = claim("says = \"rope, ntk > alibi, ntk at 2L\"\nmetric = \"exact_match\"").unwrap();
    let read = "[[evaluate]]\nextend = [\"direct\", \"ntk\"]";
    let axes = AXES
        .replace("\"alibi\"", "{ kind = \"rope\", base = 5.0 }")
        .replace("values", "labels = [\"rope\", \"alibi\"]\nvalues");
    let plan = plan(&format!("{axes}{read}"));
    let planned = check(&exact, &plan).unwrap_err();
    assert!(
        planned.message().contains("no row of `rope, ntk` that it is about will hold `exact_match`"),
        "{planned}"
    );
    assert!(planned.hint_text().unwrap().contains("data.task"), "{planned}");
    // Where only some encodings lack it, the plan cannot know: the claim stays open and says why.
    let judged = judge(&[exact], &plan, &results()).unwrap().claims.remove(0);
    assert_eq!((judged.verdict, judged.difference), (Verdict::Undecided, None));
    assert_eq!(judged.lacks.unwrap(), "no row of `rope, ntk` that it is about holds `exact_match`");
    let task = task_plan(TASK);
    let bits = claim("says = \"rope, ntk > rope, yarn at 2L\"\nmetric = \"bits_per_byte\"").unwrap();
    assert!(check(&bits, &task).unwrap_err().hint_text().unwrap().contains("neither tasks"));
    let message = |text: &str| claim(text).unwrap_err().to_string();
    assert!(message("says = \"a > b at L\"\nmetric = \"exact\"").contains("`exact_match`"));
    assert!(message("says = \"a > b at L\"\nmetric = \"accuracy\"\ntolerance = 2").contains("from 0 to 1"));
}

#[test]
fn what_errors_are_over_does_not_hang_on_what_was_lost() {
    let axis = "[[axis]]\nkey = \"data.tokenizer\"\nlabels = [\"bytes\", \"bpe\"]\n\
                values = [{ kind = \"bytes\" }, { kind = \"bpe\", vocab_size = 300 }]\n";
    let plan = plan(&format!("{AXES}{axis}[[evaluate]]\nlengths = [256]"));
    let across = claim("says = \"rope, bpe < rope, bytes at 2L\"\nmetric = \"bits_per_byte\"").unwrap();
    let mut results = results();
    results.rows.clear();
    let found = judge(&[across, said("rope, bytes < alibi, bytes at 2L")], &plan, &results).unwrap().claims;
    assert!(found.iter().all(|one| one.over == Over::Both));
}

/// A plan of six seeds, judged after 3 and 6 of them, and the results of the first `seeds`: `yarn` is better than `ntk` by
/// 0.2 at 4L without doubt; at 2L the first three seeds differ in sign.
fn growing(seeds: u64) -> (Plan, Results) {
    let claims = "[[evaluate]]\nlengths = [256, 512]\nextend = [\"ntk\", \"yarn\"]\n\
                  [[claim]]\nsays = \"rope, yarn < rope, ntk at 4L\"";
    let axes = AXES.replace("seeds = 3", "seeds = \"until decided\"\nmax_seeds = 6");
    let plan = plan(&format!("{axes}{claims}"));
    let mut results = results();
    let template = results.rows.clone();
    results.rows.clear();
    results.missing = (0..plan.runs.len()).filter(|run| !plan.is_within(*run, seeds as usize)).collect();
    for (run, planned) in plan.runs.iter().enumerate().filter(|(_, run)| run.seed < seeds) {
        for one in template.iter().filter(|one| one.row.seed == 0 && one.labels == planned.labels) {
            let mut one = one.clone();
            (one.run, one.row.seed) = (run, planned.seed);
            let noise = match (one.extend.as_str(), one.row.settings.length) {
                ("yarn", 256) => [0.3, -0.4, 0.2, -0.5, -0.45, -0.55][planned.seed as usize],
                _ => 0.001 * planned.seed as f64,
            };
            let nll = one.row.nll() + noise;
            one.row.values.set("nll", Some(nll));
            let sums = vec![10.0 * nll; 3];
            one.row.per_document = Some(DocumentSums::new(vec![10; 3]).with_numbers("nll", sums));
            results.rows.push(one);
        }
    }
    (plan, results)
}

#[test]
fn a_decided_claim_gets_no_more_seeds() {
    let (sure, open) = (said("rope, yarn < rope, ntk at 4L"), said("rope, yarn < rope, ntk at 2L"));
    let (plan, results) = growing(0);
    assert_eq!(plan.looks.seeds(), [3, 6]);
    let before = judge(std::slice::from_ref(&sure), &plan, &results).unwrap();
    // The first look is of all runs: two encodings with three seeds.
    assert_eq!((before.wanted.len(), before.claims[0].verdict), (6, Verdict::Undecided));
    let (plan, results) = growing(3);
    let one = judge(std::slice::from_ref(&sure), &plan, &results).unwrap();
    assert_eq!((one.wanted.len(), one.claims[0].verdict), (0, Verdict::Holds));
    // Two looks share 5%, two claims the 2.5% of a look.
    let both = judge(&[sure.clone(), open.clone()], &plan, &results).unwrap();
    assert_eq!((both.claims[0].verdict, both.claims[0].level), (Verdict::Holds, 0.9875));
    assert_eq!(both.claims[1].verdict, Verdict::Undecided);
    let wanted: Vec<String> = both.wanted.iter().map(|run| plan.runs[*run].title()).collect();
    assert_eq!(wanted, ["rope, seed 3", "rope, seed 4", "rope, seed 5"]);
    let (plan, results) = growing(6);
    let after = judge(&[sure, open], &plan, &results).unwrap();
    // What was decided stays as it was, with its seeds.
    assert_eq!(after.claims[0], both.claims[0]);
    assert_eq!(after.claims[0].difference.as_ref().unwrap().seeds, 3);
    assert_eq!(after.claims[1].difference.as_ref().unwrap().seeds, 6);
    assert_eq!((after.claims[1].level, after.wanted.len()), (0.975, 0));
}

#[test]
fn seeds_that_are_there_by_chance_are_not_looked_at() {
    // Four of six seeds are no look: the claim is judged by three, and waits for six.
    let (plan, results) = growing(4);
    let found = judge(&[said("rope, yarn < rope, ntk at 2L")], &plan, &results).unwrap();
    assert_eq!(found.claims[0].difference.as_ref().unwrap().seeds, 3);
    assert_eq!(found.wanted.len(), 2);
}

#[test]
fn the_seeds_that_a_claim_needs_follow_from_its_spread() {
    let claims = [
        said("rope, yarn < rope, ntk at 4L"),
        said("rope, yarn < rope, ntk at 2L"),
        claim("says = \"rope, yarn < rope, ntk at 2L\"\nover = \"documents\"\ntolerance = 0.09").unwrap(),
    ];
    let (plan, results) = growing(3);
    let judgement = judge(&claims, &plan, &results).unwrap();
    let needs = needs(&claims, &plan, &results, &judgement).unwrap();
    assert_eq!(needs[0].needed, Seeds::Decided);
    let Seeds::About(seeds) = needs[1].needed else { panic!("{:?}", needs[1]) };
    assert!(seeds > 6 && needs[1].seeds == 3, "{seeds}");
    assert_eq!(needs[1].runs.iter().map(|run| plan.runs[*run].title()).collect::<Vec<_>>(), ["rope, seed 0"]);
    let (plan, results) = growing(1);
    let judgement = judge(&claims, &plan, &results).unwrap();
    assert_eq!(super::needs(&claims, &plan, &results, &judgement).unwrap()[1].needed, Seeds::Unknown);
}
