//! Which claims a study made before its first result, `claims.json` in its folder: others were added after looking.

use crate::claim::ClaimConfig;
use crate::document::Study;
use crate::extensions::Extensions;
use crate::plan::Plan;
use crate::saved;
use crate::store::Store;
use longwave_core::{Error, Result, file};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The claims that came first.
#[derive(Debug, Serialize, Deserialize)]
struct Declared {
    /// Whether a run of the study was measured by then or later: these claims stay the first, whatever the study becomes.
    measured: bool,
    claims: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    /// As earlier programs wrote them.
    Claims(Vec<String>),
    Declared(Declared),
}

fn path(folder: &Path) -> PathBuf {
    folder.join("claims.json")
}

fn read(folder: &Path) -> Result<Option<Declared>> {
    let path = path(folder);
    if !path.exists() {
        return Ok(None);
    }
    let written: Written = serde_json::from_str(&file::read_text(&path)?).map_err(|error| {
        Error::failed(format!("`{}` is damaged: {error}", path.display())).hint(
            "bring a copy back, or remove it: then the claims that the study has now count as the first",
        )
    })?;
    Ok(Some(match written {
        Written::Declared(declared) => declared,
        Written::Claims(claims) => Declared { measured: false, claims },
    }))
}

/// Records the claims of a study that is about to run, or to be collected: as long as no run of it was measured, or nothing is recorded. A
/// run that was measured in another way is measured: who changes evaluations and claims together has seen it.
pub fn record(folder: &Path, study: &Study, plan: &Plan, store: &Store) -> Result<()> {
    let known = read(folder)?;
    if known.as_ref().is_some_and(|known| known.measured) {
        return Ok(());
    }
    // Of the plan of before too: who changes the runs and comes back has seen those of before.
    let before = saved::keys(folder)?;
    let measured = plan.jobs().map(|(_, job)| &job.key).chain(&before).any(|key| store.is_measured(key));
    let claims = match known {
        Some(known) if measured => known.claims,
        _ => identities(study, plan)?.into_iter().map(|identity| identity.with_readings).collect(),
    };
    let text = serde_json::to_string_pretty(&Declared { measured, claims })
        .map_err(|error| Error::failed(error.to_string()))?;
    file::write(&path(folder), (text + "\n").as_bytes())
}

/// For each claim, whether it was added after the first result; none was where nothing is recorded.
pub fn added(folder: &Path, study: &Study, plan: &Plan) -> Result<Vec<bool>> {
    let Some(known) = read(folder)? else { return Ok(vec![false; study.claims.len()]) };
    // Earlier programs recorded nothing of readings.
    let is_known =
        |it: &Identity| known.claims.contains(&it.with_readings) || known.claims.contains(&it.alone);
    Ok(identities(study, plan)?.iter().map(|identity| !is_known(identity)).collect())
}

/// What a claim states.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    /// Its words, and what the points of axes that they name change.
    alone: String,
    /// The same with what the extensions that they name are.
    with_readings: String,
}

fn identities(study: &Study, plan: &Plan) -> Result<Vec<Identity>> {
    let extensions = Extensions::planned(plan);
    let of = |claim: &ClaimConfig| {
        let alone = claim.identity(&study.axes)?;
        let mut with_readings = alone.clone();
        for word in claim.sentence.left.words.iter().chain(&claim.sentence.right.words) {
            for config in extensions.meant_by(word) {
                let _ = write!(with_readings, "; {word} is read with {config}");
            }
        }
        Ok(Identity { alone, with_readings })
    };
    study.claims.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::study_and_plan;

    #[test]
    fn a_label_or_a_reading_that_means_something_else_changes_the_claim() {
        let of = |text: &str, says: &str| {
            let (study, plan) = study_and_plan(&format!("{text}\n[[claim]]\nsays = \"{says}\""));
            identities(&study, &plan).unwrap()
        };
        let points = |short: usize, long: usize| {
            let axis = format!("labels = [\"short\", \"long\"]\nvalues = [{short}, {long}]");
            of(&format!("[[axis]]\nkey = \"train.steps\"\n{axis}"), "short < long at 256")
        };
        assert_eq!(points(3, 6), points(3, 6));
        assert_ne!(points(3, 6), points(6, 3));
        let read = |extend: &str| {
            let extend = format!("extend = [\"direct\", {extend}]");
            of(&format!("[[evaluate]]\nlengths = [128, 256]\n{extend}"), "linear < direct at 256")
        };
        let chosen = read("{ kind = \"linear\", scale = [1.5, 2.0] }");
        let given = read("{ kind = \"linear\", scale = 3.0 }");
        assert_eq!(chosen[0].alone, given[0].alone);
        assert_ne!(chosen[0].with_readings, given[0].with_readings);
        // Another reading beside it is none of its matters.
        assert_eq!(given, read("\"ntk\", { kind = \"linear\", scale = 3.0 }"));
    }

    fn measure(store: &Store, plan: &Plan) {
        let run = store.run(&plan.jobs().next().unwrap().1.key);
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join("rows-0.jsonl"), "").unwrap();
    }

    #[test]
    fn claims_that_came_first_stay_the_first_whatever_is_run_after_a_result() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(&folder.path().join("store"));
        let with = |steps: usize, says: &str| {
            study_and_plan(&format!(
                "set = {{ train = {{ steps = {steps} }} }}\n[[claim]]\nsays = \"{says}\""
            ))
        };
        let added = |(study, plan): &(Study, Plan)| {
            record(folder.path(), study, plan, &store).unwrap();
            saved::save(folder.path(), study, plan).unwrap();
            added(folder.path(), study, plan).unwrap()
        };
        let (first, turned) = ("direct < window_baseline at 2L", "direct > window_baseline at 2L");
        assert_eq!(added(&with(6, turned)), [false], "there is no result yet");
        let measured = with(6, first);
        assert_eq!(added(&measured), [false]);
        measure(&store, &measured.1);
        assert_eq!(added(&with(6, turned)), [true]);
        // Other runs, none of them measured, and then those of before.
        for steps in [9, 9, 6] {
            assert_eq!(added(&with(steps, turned)), [true], "{steps} steps");
        }
        assert_eq!(added(&measured), [false]);
    }

    #[test]
    fn claims_of_an_earlier_program_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(&folder.path().join("store"));
        let of = |says: &str| study_and_plan(&format!("[[claim]]\nsays = \"{says}\""));
        let (study, plan) = of("direct < window_baseline at 2L");
        measure(&store, &plan);
        let written = "[\"direct < window_baseline at 2L; loss, tolerance 0, protocol None, split None, tokens None, over None\"]";
        std::fs::write(folder.path().join("claims.json"), written).unwrap();
        for _ in 0..2 {
            record(folder.path(), &study, &plan, &store).unwrap();
            assert_eq!(added(folder.path(), &study, &plan).unwrap(), [false]);
            let (other, plan) = of("direct > window_baseline at 2L");
            assert_eq!(added(folder.path(), &other, &plan).unwrap(), [true]);
        }
    }
}
