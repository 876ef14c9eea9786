//! One file per command.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod report;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod study;
pub(crate) mod task;
pub(crate) mod train;
pub(crate) mod validate;

mod session;
