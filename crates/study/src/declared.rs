//! Which claims a study made before its first result, `claims.json` in its folder: others were added after looking.

use crate::document::Study;
use crate::plan::Plan;
use crate::saved;
use crate::store::Store;
use longwave_core::{Error, Result, file};
use std::path::{Path, PathBuf};

fn path(folder: &Path) -> PathBuf {
    folder.join("claims.json")
}

/// Records the claims of a study that is about to run: as long as no run of it is measured, or nothing is recorded. A run that was
/// measured in another way is measured: who changes evaluations and claims together has seen it.
pub fn record(folder: &Path, study: &Study, plan: &Plan, store: &Store) -> Result<()> {
    let path = path(folder);
    // Of a plan of before too: who changes the runs and comes back has seen those of before.
    let before = saved::keys(folder)?;
    let has_results = plan.jobs().map(|(_, job)| &job.key).chain(&before).any(|key| store.is_measured(key));
    if path.exists() && has_results {
        return Ok(());
    }
    let claims = identities(study)?;
    let text = serde_json::to_string_pretty(&claims).map_err(|error| Error::failed(error.to_string()))?;
    file::write(&path, (text + "\n").as_bytes())
}

/// For each claim, whether it was added after the first result; none was where nothing is recorded.
pub fn added(folder: &Path, study: &Study) -> Result<Vec<bool>> {
    let path = path(folder);
    if !path.exists() {
        return Ok(vec![false; study.claims.len()]);
    }
    let known: Vec<String> = serde_json::from_str(&file::read_text(&path)?)
        .map_err(|error| Error::failed(format!("`{}` is damaged: {error}", path.display())))?;
    Ok(identities(study)?.iter().map(|claim| !known.contains(claim)).collect())
}

fn identities(study: &Study) -> Result<Vec<String>> {
    study.claims.iter().map(|claim| claim.identity(&study.axes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::study_and_plan;

    #[test]
    fn a_label_that_means_something_else_changes_the_claim() {
        let of = |short: usize, long: usize| {
            let axis = format!("labels = [\"short\", \"long\"]\nvalues = [{short}, {long}]");
            let claim = "[[claim]]\nsays = \"short < long at 256\"";
            let (study, _) = study_and_plan(&format!("[[axis]]\nkey = \"train.steps\"\n{axis}\n{claim}"));
            identities(&study).unwrap()
        };
        assert_eq!(of(3, 6), of(3, 6));
        assert_ne!(of(3, 6), of(6, 3));
    }
}
