//! Why a model breaks past L: what a trained model does with a long text, measured as it reads.
//!
//! [`explain`] reads some windows at each length with each extension, and gives one [`Finding`] a number: for the model, each layer and each head.
//! Errors are over documents, or over windows where a single document is read. Each [`Diagnostic`] has its definition and source; the formulas
//! are in the files named below.
//!
//! - [`query`]: entropy and keys in effect; [`angles`]: unseen angles; [`bands`]: norms and preferred bands; [`rank`]: stable rank; `shown`: the
//!   distances of training; `attention`: where these are measured, with `head` and `turned` for the sums of a head and of its bands.
//! - [`probe`]: a linear probe of position; `gradient`: the receptive field; `context`: what far text does.
//! - [`finding`]: the list; `sampled`: the windows; `gather`: sums of documents; `notes`: what is left out; `watch`: windows read while attention is
//!   looked at; `explained`: what a folder keeps; [`summary`]: the findings in words.

pub mod angles;
mod attention;
pub mod bands;
mod context;
mod explained;
pub mod finding;
mod gather;
mod gradient;
mod head;
mod measure;
mod notes;
pub mod probe;
pub mod query;
pub mod rank;
mod sampled;
mod shown;
pub mod summary;
#[cfg(test)]
mod tests;
mod turned;
mod watch;

pub use explained::Explained;
pub use finding::{Diagnostic, Finding, Over};
pub use measure::explain;
pub(crate) use watch::sums;
