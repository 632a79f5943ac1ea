//! Services by iptables: upstream's chains, written by `iptables-restore`. See `README.md`.

mod apply;
mod names;
mod programs;
mod rules;
mod ruleset;
mod saved;
#[cfg(test)]
mod tests;

use super::Mode;

pub const MODE: Mode = Mode { name: "iptables", open: apply::open, purge: apply::purge };
