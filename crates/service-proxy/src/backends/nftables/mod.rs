//! Services by nftables: one table, maps instead of chains per Service, one transaction per change.
//! See `README.md`.

mod apply;
mod chains;
mod flows;
mod ruleset;
mod sets;
mod slots;
#[cfg(test)]
mod tests;

pub use apply::Backend;
pub use chains::Networks;
pub use flows::Flows;
pub use ruleset::Ruleset;
pub use sets::Frontend;
