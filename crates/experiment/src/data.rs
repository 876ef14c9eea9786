//! The data of an experiment.

use crate::observer::{Event, Observer};
use longwave_core::Result;
use longwave_data::{DataConfig, Dataset};

/// Opens a corpus or a task; the first time, a corpus is tokenized.
///
/// # Errors
/// As [`Dataset::open`].
pub fn open_data(config: &DataConfig, observer: &mut dyn Observer) -> Result<Dataset> {
    Dataset::open(config, &mut |progress| observer.event(Event::Data(progress)))
}
