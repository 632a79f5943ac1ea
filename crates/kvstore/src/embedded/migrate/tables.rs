//! What is in the database file of format 1.
//!
//! `log` has every write that is current or still history, by revision and place in its
//! transaction. `meta` has the format and how far compaction has come. Nothing else: the current
//! state is the log's.

use redb::TableDefinition;

pub(super) const LOG: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("log");
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

pub(super) const FORMAT: &str = "format";
/// The oldest revision that can be read.
pub(super) const COMPACTED: &str = "compacted";
pub(super) const FORMAT_KNOWN: u64 = 1;
