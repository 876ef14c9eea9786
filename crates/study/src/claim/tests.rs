use super::*;
use crate::results::tests::results;

const AXES: &str = "seeds = 3\n[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n";

fn claim(text: &str) -> Result<ClaimConfig> {
    ClaimConfig::read(&text.parse().unwrap(), "claim[0]")
}

fn judged(claims: &[&str]) -> Vec<Judged> {
    let claims: Vec<ClaimConfig> = claims.iter().map(|text| claim(text).unwrap()).collect();
    judge(&claims, &crate::plan::tests::plan(AXES), &results()).unwrap()
}

#[test]
fn verdicts_follow_the_interval() {
    let found = judged(&[
        "says = \"rope, yarn < rope, ntk at 4L\"",
        "says = \"rope, yarn > rope, ntk at 4L\"",
        "says = \"rope, yarn < rope, ntk at 4L\"\ntolerance = -10.0",
        "says = \"rope, yarn = rope, ntk at 256\"\ntolerance = 5.0",
        "says = \"rope, yarn = rope, ntk at 4L\"\ntolerance = 0.001",
    ]);
    let verdicts: Vec<&str> = found.iter().map(|judged| judged.verdict.word()).collect();
    assert_eq!(verdicts, ["holds", "fails", "fails", "holds", "fails"]);
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
    assert_eq!([both[0].level, both[1].level], [0.975, 0.95]);
    assert!(both.iter().all(|one| (one.p.unwrap() - 0.07).abs() < 1e-9));
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
    assert!(message("say = \"x\"").contains("did you mean `says`?"));
    let plan = crate::plan::tests::plan(AXES);
    let extensions = ["ntk".to_owned(), "yarn".to_owned()];
    let check = |text: &str| claim(text).unwrap().check_among(&plan, &extensions).unwrap_err().to_string();
    assert!(check("says = \"yarn < ntk at L\"").contains("leaves `position` open"));
    assert!(check("says = \"rope, yarm < rope, ntk at L\"").contains("`yarm` is no extension and no label"));
    assert!(check("says = \"rope, alibi < rope, ntk at L\"").contains("`alibi` is one too many"));
    assert!(
        claim("says = \"position=rope, yarn < alibi, ntk at L\"")
            .unwrap()
            .check_among(&plan, &extensions)
            .is_ok()
    );
}
