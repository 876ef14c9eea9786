//! The commands, one file each: its arguments and what it runs. Adding one is one new file and one line here.

use clap::Subcommand;
use longwave_core::Result;
use std::process::{ExitCode, Termination};

macro_rules! commands {
    ($($Name:ident in $module:ident),* $(,)?) => {
        $(mod $module;)*

        /// Any one command, with its arguments.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($Name($module::Arguments),)*
        }

        impl Command {
            pub(crate) fn run(&self) -> Result<ExitCode> {
                match self {
                    $(Self::$Name(arguments) => $module::run(arguments).map(Termination::report),)*
                }
            }
        }
    };
}

// In the order of `longwave --help`.
commands! {
    Init in init,
    Train in train,
    Eval in eval,
    KeyTokens in key_tokens,
    Study in study,
    Task in task,
    Explain in explain,
    Compare in compare,
    Runs in runs,
    Report in report,
    Generate in generate,
    Export in export,
    Import in import,
    Inspect in inspect,
    Bench in bench,
    Selfcheck in selfcheck,
    Validate in validate,
    Schema in schema,
}
