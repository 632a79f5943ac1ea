//! Services by nftables: one table for each family, maps instead of chains per Service, one
//! transaction per change. See `README.md`.

mod apply;
mod chains;
mod levels;
mod rendering;
mod ruleset;
mod sets;
mod slots;
#[cfg(test)]
mod tests;

use super::Mode;

pub(super) use apply::{open_table, purge_table};

pub const MODE: Mode = Mode { name: "nftables", open: apply::open, purge: apply::purge };
