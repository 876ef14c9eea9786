//! A GPU is checked before it trains, once for each driver.

use crate::interrupt;
use crate::output::status;
use longwave_bench::selfcheck::{Checked, Identity, Verdict};
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

/// What is known of a GPU, which is checked first where nothing is; `None` of the CPU.
fn verdict(machine: &mut Machine) -> Result<Option<Verdict>> {
    let Some(driver) = machine.driver.clone() else { return Ok(None) };
    let checked = Checked { device: machine.device.clone(), reference: longwave_kernels::reference_in_use() };
    let identity = Identity {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        device: machine.device_name.clone(),
        driver,
        reference: checked.reference,
    };
    let mut begun = false;
    let verdict = Verdict::known_or_found(&cache::default_folder(), &identity, &checked, &mut |_| {
        if !std::mem::replace(&mut begun, true) {
            let Identity { device, driver, .. } = &identity;
            status(&format!("checking  {device}, once for this driver ({driver})"));
        }
        interrupt::check("stopped; nothing is trained")
    })?;
    machine.repeatable = Some(verdict.repeatable);
    Ok(Some(verdict))
}
