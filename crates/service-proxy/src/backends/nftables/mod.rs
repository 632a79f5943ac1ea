//! Services by nftables: one table for each family, maps instead of chains per Service, one
//! transaction per change. See `README.md`.

mod apply;
mod chains;
mod levels;
mod rendering;
mod ruleset;
mod sets;
pub(in crate::backends) mod slots;
#[cfg(test)]
mod tests;

pub(in crate::backends) use apply::{open_table, purge_table};

use super::Mode;

pub const MODE: Mode = Mode { name: "nftables", open: apply::open, purge: apply::purge };
