//! Change or refuse what is asked for before it happens.
//!
//! A `Chain` runs the plugins over one `Context` in two phases: `mutate`, where they may change the
//! object, and, once the kind has prepared and validated it, `validate`, where they only look and
//! may reserve something. The proofs `Mutated` and `Valid` make that order the only one that
//! compiles.

mod attributes;
mod authorizer;
mod chain;
mod configuration;
mod context;
mod draft;
mod matching;
mod metrics;
mod notes;
pub mod observer;
mod options;
pub mod plugins;
pub mod policy;
mod reservation;
mod shown;
#[cfg(test)]
mod tests;
mod versions;
mod vital;
pub mod webhook;

pub use attributes::{Attributes, Operation};
pub use authorizer::Authorizer;
pub use chain::{Admitting, Chain, Mutated, Phase, Plugin, Reinvocation, Valid, Validating};
pub use configuration::{Configuration, Error as ConfigurationError};
pub use context::{Context, Surroundings};
pub use draft::{Codec, Draft, Forms, Json};
pub use notes::Notes;
pub use observer::Observer;
pub use options::{Deletion, Options};
pub use plugins::namespace_auto_provision::Provisioner;
pub use plugins::selection::{Error as SelectionError, Selection};
pub use reservation::{Beside, Reservation};
pub use versions::{OneVersion, Versions};
