//! A GPU is checked before it trains, once for each driver, or by `selfcheck`.

use crate::interrupt;
use crate::output::status;
use longwave_bench::selfcheck::{self, Checked, Identity, Outcome, Verdict};
use longwave_core::Result;
use longwave_data::cache;
use longwave_experiment::Machine;

/// Refuses to train on a GPU that computes wrong.
pub(crate) fn before_training(machine: &mut Machine) -> Result<()> {
    verdict(machine)?.map_or(Ok(()), |verdict| verdict.refuse_training())
}

/// Warns before a GPU that computes wrong reads a trained model.
pub(crate) fn before_reading(machine: &mut Machine) -> Result<()> {
    if let Some(wrong) = verdict(machine)?.and_then(|verdict| verdict.wrong()) {
        tracing::warn!("{wrong}; trust no number that it makes, and read with `--device cpu`");
    }
    Ok(())
}

/// Runs every check and shows each as it ends; the number that failed. What is found of a GPU is remembered.
pub(crate) fn run_checks(machine: &Machine, show: &mut dyn FnMut(&Outcome) -> Result<()>) -> Result<usize> {
    let checked = checked(machine);
    let Some(identity) = identity(machine) else { return selfcheck::run(&checked, show) };
    Ok(Verdict::found(&cache::default_folder(), &identity, &checked, show)?.failed.len())
}

/// What is known of a GPU, which is checked first where nothing is; `None` of the CPU.
fn verdict(machine: &mut Machine) -> Result<Option<Verdict>> {
    let Some(identity) = identity(machine) else { return Ok(None) };
    let mut begun = false;
    let verdict =
        Verdict::known_or_found(&cache::default_folder(), &identity, &checked(machine), &mut |_| {
            if !std::mem::replace(&mut begun, true) {
                let Identity { device, driver, .. } = &identity;
                status(&format!("checking  {device}, once for this driver ({driver})"));
            }
            interrupt::check("stopped; nothing is trained")
        })?;
    machine.repeatable = Some(verdict.repeatable);
    Ok(Some(verdict))
}

/// The device with the kernels in use.
pub(crate) fn checked(machine: &Machine) -> Checked {
    Checked { device: machine.device.clone(), reference: longwave_kernels::reference_in_use() }
}

/// What a verdict on a GPU is of; `None` for the CPU.
fn identity(machine: &Machine) -> Option<Identity> {
    Some(Identity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: machine.device_name.clone(),
        driver: machine.driver.clone()?,
        reference: longwave_kernels::reference_in_use(),
    })
}
