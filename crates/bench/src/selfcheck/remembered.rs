//! Whether a device computes right, checked once for each driver and remembered.
//!
//! The checks of [`run`](super::run) take some seconds on a GPU, most of them to compile kernels. Before a training they run
//! once for a device, its driver's version, the kernels and the version of this program; what they found lies in the
//! folder of the cache, in `devices`, one small file each. A new driver is checked again, and so is a device whose file is
//! damaged or removed. `selfcheck` checks in any case, and what it finds counts from then on.

use super::{Checked, Outcome, device, run};
use longwave_core::{Error, Result, file, sealed_line};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the files.
const FORMAT: u32 = 1;

/// What was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub version: String,
    /// The device in words.
    pub device: String,
    /// Its driver with the version.
    pub driver: String,
    /// The kernels were the plain operations.
    pub reference: bool,
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The check.
    pub name: String,
    /// What was wrong.
    pub finding: String,
}

/// What the checks found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    format: u32,
    #[serde(flatten)]
    identity: Identity,
    pub checks: usize,
    /// Those that failed.
    pub failed: Vec<Failure>,
    /// Whether the device gives the same bits again.
    pub repeatable: bool,
}

impl Verdict {
    /// The verdict that lies below `cache`, or that of the checks, which are run and shown where there is none.
    pub fn known_or_found(
        cache: &Path,
        identity: &Identity,
        checked: &Checked,
        show: &mut dyn FnMut(&Outcome) -> Result<()>,
    ) -> Result<Self> {
        match read(&path(cache, identity), identity) {
            Some(known) => Ok(known),
            None => Self::found(cache, identity, checked, show),
        }
    }

    /// The verdict of the checks, which are run, shown, and remembered below `cache`.
    pub fn found(
        cache: &Path,
        identity: &Identity,
        checked: &Checked,
        show: &mut dyn FnMut(&Outcome) -> Result<()>,
    ) -> Result<Self> {
        let (mut checks, mut failed) = (0, Vec::new());
        run(checked, &mut |outcome| {
            checks += 1;
            if let Err(finding) = &outcome.finding {
                failed.push(Failure { name: outcome.name.clone(), finding: finding.clone() });
            }
            show(outcome)
        })?;
        let repeatable = device::gives_the_same_twice(checked);
        let found = Self { format: FORMAT, identity: identity.clone(), checks, failed, repeatable };
        if let Err(error) = found.write(&path(cache, identity)) {
            tracing::warn!("{}; the next training checks the device again", error.message());
        }
        Ok(found)
    }

    fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self)
            .map_err(|error| Error::failed(format!("`{}` cannot be written: {error}", path.display())))?;
        file::write(path, (sealed_line::seal(&text) + "\n").as_bytes())
    }

    /// Refuses a device that computes wrong.
    pub fn refuse_training(&self) -> Result<()> {
        let Some(message) = self.wrong() else { return Ok(()) };
        Err(Error::failed(format!("{message}; nothing is trained on it")).hint(
            "train with `--device cpu`, or update the driver: a new one is checked again; `longwave selfcheck --device gpu` \
             shows every check, and `--kernels reference` computes with plain operations, which are checked apart",
        ))
    }

    /// What is wrong with the device, in words.
    pub fn wrong(&self) -> Option<String> {
        let Identity { device, driver, .. } = &self.identity;
        let first = self.failed.first()?;
        let (count, checks) = (self.failed.len(), self.checks);
        Some(format!(
            "{device}, driver {driver}, computes wrong: {count} of {checks} checks failed, the first is `{}` ({})",
            first.name, first.finding
        ))
    }
}

fn path(cache: &Path, identity: &Identity) -> PathBuf {
    let Identity { version, device, driver, reference } = identity;
    let key = file::sha256_of(format!("{version}\n{device}\n{driver}\n{reference}").as_bytes());
    cache.join("devices").join(format!("{}.json", &key[..16]))
}

/// The verdict of a file; `None` where it is of another device, damaged or not there.
fn read(path: &Path, identity: &Identity) -> Option<Verdict> {
    let text = file::read_text(path).ok()?;
    let known: Verdict =
        serde_json::from_str(&text).ok().filter(|_| sealed_line::check(&text) == Ok(true))?;
    (known.format == FORMAT && known.identity == *identity).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alone;
    use burn::tensor::Device;

    fn identity(driver: &str) -> Identity {
        Identity {
            version: "0.1.0".to_owned(),
            device: "GPU: a".to_owned(),
            driver: driver.to_owned(),
            reference: false,
        }
    }

    fn verdict(identity: Identity, failed: Vec<Failure>) -> Verdict {
        Verdict { format: FORMAT, identity, checks: 9, failed, repeatable: false }
    }

    #[test]
    fn a_verdict_is_remembered_for_its_driver_alone() {
        let _alone = alone();
        let cache = tempfile::tempdir().unwrap();
        let checked = Checked { device: Device::flex(), reference: false };
        let mut count = 0;
        let first = Verdict::known_or_found(cache.path(), &identity("1"), &checked, &mut |_| {
            count += 1;
            Ok(())
        });
        let first = first.unwrap();
        assert!(count > 20 && first.checks == count && first.repeatable, "{first:?}");
        first.refuse_training().unwrap();
        // What begins to check is stopped.
        let stopped = || Err(Error::interrupted("stopped"));
        let known = |driver: &str| {
            Verdict::known_or_found(cache.path(), &identity(driver), &checked, &mut |_| stopped()).ok()
        };
        assert_eq!(known("1"), Some(first.clone()));
        assert_eq!(known("2"), None);
        // What is asked for is checked in any case.
        Verdict::found(cache.path(), &identity("1"), &checked, &mut |_| stopped()).unwrap_err();
        assert_eq!(known("1"), Some(first));
        // A damaged file is no verdict.
        let path = path(cache.path(), &identity("1"));
        let text = file::read_text(&path).unwrap();
        file::write(&path, text.replace("\"checks\":", "\"checks\":1").as_bytes()).unwrap();
        assert_eq!(known("1"), None);
    }

    #[test]
    fn a_device_that_computes_wrong_is_refused_with_what_to_do() {
        let cache = tempfile::tempdir().unwrap();
        let failure =
            Failure { name: "kernel: gelu".to_owned(), finding: "values: off by 3.0e-1".to_owned() };
        let wrong = verdict(identity("1"), vec![failure]);
        wrong.write(&path(cache.path(), &identity("1"))).unwrap();
        let checked = Checked { device: Device::flex(), reference: false };
        let known = Verdict::known_or_found(cache.path(), &identity("1"), &checked, &mut |_| panic!("known"));
        let error = known.unwrap().refuse_training().unwrap_err();
        assert_eq!(
            error.message(),
            "GPU: a, driver 1, computes wrong: 1 of 9 checks failed, the first is `kernel: gelu` (values: off by 3.0e-1); \
             nothing is trained on it"
        );
        assert!(error.hint_text().unwrap().contains("`--device cpu`"));
        assert_eq!(error.exit_code(), 1);
    }

    #[test]
    fn checks_that_are_stopped_are_not_remembered() {
        let _alone = alone();
        let cache = tempfile::tempdir().unwrap();
        let checked = Checked { device: Device::flex(), reference: false };
        let stopped = Verdict::known_or_found(cache.path(), &identity("1"), &checked, &mut |_| {
            Err(Error::interrupted("stopped"))
        });
        assert_eq!(stopped.unwrap_err().message(), "stopped");
        assert!(!cache.path().join("devices").exists());
    }
}
