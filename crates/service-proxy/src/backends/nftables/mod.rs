//! Services by nftables: one table for each family, maps instead of chains per Service, one
//! transaction per change. See `README.md`.

mod apply;
mod chains;
mod flows;
mod ruleset;
mod sets;
mod slots;
mod strangers;
#[cfg(test)]
mod tests;

use super::Mode;

pub const MODE: Mode = Mode { name: "nftables", open: apply::open, purge: apply::purge };
