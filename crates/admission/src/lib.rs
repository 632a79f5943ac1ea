//! Change or refuse an object before it is stored.
//!
//! A `Chain` runs every plugin's `admit`, then, once the object is validated, every plugin's `validate`. The proofs
//! `Mutated` and `Valid` make that order the only one that compiles.

mod attributes;
mod chain;
pub mod plugins;
mod rights;

pub use attributes::{Attributes, Operation};
pub use chain::{Chain, Mutated, Plugin, Valid};
pub use rights::Rights;
