//! Compaction's second half: removing records that nobody can ask for any more.
//!
//! Compacted through 5:  2 put a, 3 put b, 4 put a (previous 2), 5 delete b (previous 3), 6 put a (previous 4)
//! remove 2 (4 took its place), 3 (5 did) and 5 itself (a deletion leaves nothing); keep 4, which is what `a`
//! is at revision 5. Each step is its own transaction and notes how far it came, so a crash repeats nothing.

use redb::{Database, ReadableTable as _, Table};

use super::record::{Record, unreadable};
use super::tables::{self, LOG, META};
use crate::Revision;

/// Records looked at in one step: what a writer may have to wait for.
const STEP_RECORDS: usize = 512;

type Position = (u64, u32);

/// Removes what became needless up to `through`, after `swept`; returns how far it came.
pub(super) fn step(
    database: &Database,
    swept: Revision,
    through: Revision,
) -> Result<Revision, redb::Error> {
    let txn = database.begin_write()?;
    let reached;
    {
        let mut log = txn.open_table(LOG)?;
        let (needless, end) = needless(&log, swept, through)?;
        for position in needless {
            log.remove(position)?;
        }
        reached = end;
        txn.open_table(META)?.insert(tables::SWEPT, reached.0)?;
    }
    txn.commit()?;
    Ok(reached)
}

/// Notes that history up to `through` is given up. After this, `step` may remove.
pub(super) fn mark(database: &Database, through: Revision) -> Result<(), redb::Error> {
    let txn = database.begin_write()?;
    txn.open_table(META)?.insert(tables::COMPACTED, through.0)?;
    txn.commit()?;
    Ok(())
}

fn needless(
    log: &Table<'_, Position, &'static [u8]>,
    swept: Revision,
    through: Revision,
) -> Result<(Vec<Position>, Revision), redb::Error> {
    let mut needless = Vec::new();
    let mut at = swept;
    for (n_records, row) in log.range((swept.0 + 1, 0)..=(through.0, u32::MAX))?.enumerate() {
        let (position, bytes) = row?;
        let (position, bytes) = (position.value(), bytes.value());
        if n_records >= STEP_RECORDS && position.0 != at.0 {
            return Ok((needless, at));
        }
        at = Revision(position.0);
        let header = Record::header(bytes).ok_or_else(|| unreadable(at))?;
        if let Some(previous) = header.previous {
            needless.extend(find(log, previous, header.key)?);
        }
        if header.is_delete {
            needless.push(position);
        }
    }
    Ok((needless, through))
}

fn find(
    log: &Table<'_, Position, &'static [u8]>,
    revision: Revision,
    key: &[u8],
) -> Result<Option<Position>, redb::Error> {
    for row in log.range((revision.0, 0)..=(revision.0, u32::MAX))? {
        let (position, bytes) = row?;
        if Record::header(bytes.value()).is_some_and(|it| it.key == key) {
            return Ok(Some(position.value()));
        }
    }
    Ok(None)
}
