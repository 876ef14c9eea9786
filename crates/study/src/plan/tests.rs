use super::*;

const BASE: &str = "name = \"b\"\n[data]\ncorpus = \"c\"\n[position]\nkind = \"rope\"\n[train]\nsteps = 6";

/// A plan over a corpus whose hash is its name.
pub(crate) fn plan(text: &str) -> Plan {
    plan_of(BASE, text)
}

pub(crate) fn task_plan(text: &str) -> Plan {
    task_plan_of("copy", text)
}

pub(crate) fn task_plan_of(kind: &str, text: &str) -> Plan {
    plan_of(&BASE.replace("corpus = \"c\"", &format!("task = {{ kind = \"{kind}\" }}")), text)
}

pub(crate) fn study_and_plan(text: &str) -> (Study, Plan) {
    study_and_plan_of(BASE, text)
}

fn plan_of(base: &str, text: &str) -> Plan {
    study_and_plan_of(base, text).1
}

fn study_and_plan_of(base: &str, text: &str) -> (Study, Plan) {
    let text = format!("name = \"s\"\nbase = \"b.toml\"\n{text}");
    let study = Study::from_table(text.parse().unwrap(), &|_| Ok(base.parse().unwrap())).unwrap();
    let plan = Plan::new(&study, "cpu", &mut |content| match content {
        Content::Data(data) => Ok(data.corpus.clone()),
        Content::Corpus(_, name) | Content::KeyTokens(name) => Ok(name.to_owned()),
    });
    (study, plan)
}

fn keys(plan: &Plan) -> Vec<String> {
    plan.runs.iter().map(|run| run.job.as_ref().unwrap().key.clone()).collect()
}

/// The lengths that the first evaluation of each run reads.
fn lengths(plan: &Plan) -> Vec<Vec<usize>> {
    let first = |run: &Planned| run.job.as_ref().unwrap().config.evaluations()[0].clone();
    plan.runs.iter().map(|run| first(run).block.lengths).collect()
}

const AXES: &str = "[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n\
                    [[axis]]\nkey = \"train.steps\"\nvalues = [3, 6]\n";
const EVALUATE: &str = "[[evaluate]]\nlengths = [128]\n";

#[test]
fn combinations_times_seeds_the_last_axis_fastest() {
    let plan = plan(&format!("seeds = 2\n{AXES}{EVALUATE}"));
    let titles: Vec<String> = plan.runs.iter().map(Planned::title).collect();
    assert_eq!(titles[..3], ["rope, 3, seed 0", "rope, 3, seed 1", "rope, 6, seed 0"]);
    assert_eq!(titles.len(), 8);
    let mut keys = keys(&plan);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 8);
}

#[test]
fn a_value_that_no_run_allows_is_refused_when_planned() {
    let values = "[[axis]]\nkey = \"position.max_distance\"\nvalues = [\"L/4\", \"2L\"]\n";
    let plan = plan(&format!("set.position.kind = \"t5\"\nset.train.length = 64\n{values}"));
    let error = plan.first_refused().unwrap();
    assert!(error.message().contains("`position.max_distance = 16` is not allowed"), "{error}");
    assert!(plan.runs[1].job.is_ok());
}

#[test]
fn studies_share_runs_whatever_their_evaluations() {
    let a = plan(&format!("{AXES}{EVALUATE}"));
    let b = plan("[set]\ntrain.steps = 6\n[[evaluate]]\nlengths = [256]");
    let same = a.runs[1].job.as_ref().unwrap();
    let other = b.runs[0].job.as_ref().unwrap();
    assert_eq!(same.key, other.key);
    assert_ne!(same.evaluation, other.evaluation);
    assert_eq!(same.config.run.name, same.key);
}

#[test]
fn what_a_stage_trains_is_part_of_the_key() {
    let stage =
        |train: &str| format!("[[stage]]\nlength = \"L\"\nsteps = 2\ntrain = \"{train}\"\n{EVALUATE}");
    assert_ne!(keys(&plan(&stage("all"))), keys(&plan(&stage("head_scale"))));
}

#[test]
fn the_identity_follows_data_and_device() {
    let study = "name = \"s\"\nbase = \"b\"".parse().unwrap();
    let study = Study::from_table(study, &|_| Ok(BASE.parse().unwrap())).unwrap();
    let key = |device: &str, content: &str| {
        keys(&Plan::new(&study, device, &mut |_| Ok(content.to_owned())))[0].clone()
    };
    assert_ne!(key("cpu", "a"), key("cpu", "b"));
    assert_ne!(key("cpu", "a"), key("gpu", "a"));
}

#[test]
fn a_block_is_for_the_runs_it_names() {
    let plan = plan(&format!(
        "{AXES}{EVALUATE}[[evaluate]]\nlengths = [256]\nextend = [\"ntk\"]\nonly = {{ position = \"rope\" }}"
    ));
    let blocks: Vec<usize> =
        plan.runs.iter().map(|run| run.job.as_ref().unwrap().config.evaluate().len()).collect();
    assert_eq!(blocks, [2, 2, 1, 1]);
}

#[test]
fn without_a_block_there_is_the_default_one() {
    assert_eq!(lengths(&plan("")), [[128, 256, 512, 1024]]);
}

#[test]
fn with_an_empty_list_nothing_is_measured() {
    let axis = "[[axis]]\nkey = \"position\"\nvalues = [\"rope\", \"alibi\"]\n";
    for plan in [
        plan(&format!("evaluate = []\n{axis}")),
        plan(&format!("set.evaluate = []\n{axis}")),
        plan_of(&format!("evaluate = []\n{BASE}"), axis),
    ] {
        assert!(plan.check().is_ok());
        assert!(plan.jobs().all(|(_, job)| job.config.evaluations().is_empty()));
        let told = plan.without_evaluation().unwrap();
        assert_eq!(told, "no `[[evaluate]]` reads `rope`; `alibi`: trained, and not measured");
    }
    let told = plan("evaluate = []").without_evaluation().unwrap();
    assert_eq!(told, "no `[[evaluate]]` reads the run: trained, and not measured");
    // A block of the study takes the place of the base's empty list.
    assert_eq!(lengths(&plan_of(&format!("evaluate = []\n{BASE}"), EVALUATE)), [[128]]);
}

#[test]
fn a_training_length_is_swept_in_one_line() {
    let axis = "[[axis]]\nkey = \"train.length\"\nvalues = [64, 128, 256]\n";
    let plan = plan(&format!(
        "{axis}[[evaluate]]\nlengths = [\"L\", \"1.5L\", \"8L\", 4096]\nstride = \"L/2\"\nprotocol = \"sliding\""
    ));
    assert_eq!(lengths(&plan), [[64, 96, 512, 4096], [128, 192, 1024, 4096], [256, 384, 2048, 4096]]);
}

#[test]
fn multiples_make_the_same_runs_and_evaluations_as_numbers() {
    let ids = |study: &str| plan(study).jobs().map(|(_, job)| job.id()).collect::<Vec<_>>();
    let stage = |length: &str| format!("[[stage]]\nlength = {length}\nsteps = 2\n");
    let numbers = ids(&(stage("512") + "[[evaluate]]\nlengths = [128, 1024]\nmax_length = 2048"));
    let multiples = ids(&(stage("\"4L\"") + "[[evaluate]]\nlengths = [\"L\", \"8L\"]\nmax_length = \"16L\""));
    assert_eq!(multiples, numbers);
}

#[test]
fn what_is_not_allowed_is_planned_with_its_reason() {
    let wrong = "[[axis]]\nkey = \"train.steps\"\nvalues = [3, -1]\n";
    let plan = plan(&format!("{wrong}{EVALUATE}"));
    assert!(plan.runs[0].job.is_ok() && plan.check().is_ok());
    let error = plan.runs[1].job.as_ref().unwrap_err();
    assert!(error.message().starts_with("`train.steps = -1` is not allowed"), "{error}");
    let all = tests::plan("[set]\ntrain.stepps = 3");
    assert!(all.check().unwrap_err().message().starts_with("unknown key `train.stepps`"));
}

#[test]
fn the_same_work_is_done_once() {
    let same = "[[axis]]\npoints = [{ label = \"a\", train.steps = 6 }, { label = \"b\" }]\n";
    let plan = plan(&format!("{same}{EVALUATE}"));
    assert_eq!((plan.runs.len(), plan.distinct().len()), (2, 1));
}
