//! The program with encodings, extensions, protocols and metrics of another crate.

use crate::output;
use longwave_core::Result;
use longwave_eval::metrics::Measure;
use longwave_eval::protocols::Rules;
use longwave_eval::{metrics, protocols};
use longwave_position::encoding::{Configure, Position};
use longwave_position::registry::{ConfigKeys, EncodingEntry, ExtensionEntry};
use longwave_position::{Extend, encodings, extensions};
use std::fmt;
use std::process::ExitCode;

/// The `longwave` program with entries of your own beside those of this workspace: configs, schema, `inspect`, studies and
/// `selfcheck` know them.
///
/// `examples/own-encoding` is such a program.
#[derive(Default)]
pub struct Program {
    encodings: Vec<EncodingEntry>,
    extensions: Vec<ExtensionEntry>,
    protocols: Vec<(&'static str, &'static dyn Rules)>,
    metrics: Vec<(&'static str, &'static dyn Measure)>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.encodings.iter().map(|entry| entry.info.kind);
        let kinds = kinds.chain(self.extensions.iter().map(|entry| entry.info.kind));
        let names =
            self.protocols.iter().map(|(name, _)| *name).chain(self.metrics.iter().map(|(name, _)| *name));
        f.debug_list().entries(kinds.chain(names)).finish()
    }
}

impl Program {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the encoding that a configuration builds.
    #[must_use]
    pub fn encoding<C>(mut self) -> Self
    where
        C: Configure + ConfigKeys,
        C::Encoding: Position + burn::module::Module + Sync + 'static,
    {
        self.encodings.push(EncodingEntry::of::<C>());
        self
    }

    #[must_use]
    pub fn extension<E: Extend + ConfigKeys>(mut self) -> Self {
        self.extensions.push(ExtensionEntry::of::<E>());
        self
    }

    /// Adds a protocol under the name that configs and results have.
    #[must_use]
    pub fn protocol(mut self, name: &'static str, rules: &'static dyn Rules) -> Self {
        self.protocols.push((name, rules));
        self
    }

    /// Adds a metric under the name that studies and `--metric` have.
    #[must_use]
    pub fn metric(mut self, name: &'static str, measure: &'static dyn Measure) -> Self {
        self.metrics.push((name, measure));
        self
    }

    /// Puts the entries into the lists of this process, for programs that call the library and not the command line. It
    /// must come before anything else of the library.
    ///
    /// # Errors
    /// A name is taken or not allowed, an entry lacks what the lists need, or the lists were read before.
    pub fn register(self) -> Result<()> {
        encodings::register(self.encodings)?;
        extensions::register(self.extensions)?;
        protocols::register(self.protocols)?;
        metrics::register(self.metrics)
    }

    pub fn run(self) -> ExitCode {
        match self.register() {
            Ok(()) => crate::run_command(),
            Err(error) => {
                output::report_error(&error);
                ExitCode::from(error.exit_code())
            }
        }
    }
}
