//! The maps in the kernel: made with room to grow, taken over from the process before, changed in an
//! order in which no socket is sent to a place that is not there.

use linux::bpf::{Map, Program};

use super::SocketError;
use super::layout::Table;
use super::program::Descriptors;
use super::ruleset::{Changes, Contents, Difference, Maps, difference};

/// What every map of ours has room for at first.
const ENTRIES_MIN: u32 = 1024;
/// Beyond that, the table of a hash alone would take 64 MiB.
const ENTRIES_MAX: usize = 1 << 22;

/// In the order of [`Table::ALL`].
#[derive(Debug)]
pub(super) struct KernelMaps {
    maps: Vec<Map>,
}

impl KernelMaps {
    /// Those of a program of ours; `None` if they are not as they would be made today.
    pub(super) fn of(program: &Program) -> Result<Option<Self>, SocketError> {
        let mut found = Vec::new();
        for id in program.describe()?.maps {
            found.extend(Map::by_id(id)?);
        }
        let mut maps = Vec::new();
        for table in Table::ALL {
            let is_it = |map: &Map| {
                map.name() == table.name() && map.format() == table.format(map.format().entries_max)
            };
            let Some(position) = found.iter().position(is_it) else { return Ok(None) };
            maps.push(found.swap_remove(position));
        }
        Ok(Some(Self { maps }))
    }

    /// With room for these contents and as much again. What programs have written in others is
    /// kept.
    pub(super) fn make(wanted: &Maps, before: Option<Self>) -> Result<Self, SocketError> {
        let lengths = wanted.lengths();
        let length = |table| lengths.iter().find(|it| it.0 == table).map_or(0, |it| it.1);
        let mut kept: Vec<_> = before.into_iter().flat_map(|it| it.maps).map(Some).collect();
        let mut maps = Vec::new();
        for table in Table::ALL {
            let old = kept.get_mut(table as usize).and_then(Option::take);
            let is_written_by_programs = matches!(table, Table::Clients | Table::Flows);
            maps.push(match old {
                Some(map) if is_written_by_programs => map,
                _ => Map::create(table.name(), table.format(room(table, length(table))?))?,
            });
        }
        Ok(Self { maps })
    }

    fn map(&self, table: Table) -> &Map {
        &self.maps[table as usize]
    }

    pub(super) fn descriptors(&self) -> Descriptors {
        Table::ALL.map(|it| self.map(it).descriptor())
    }

    /// Whether there is room for these contents beside those that they may come in place of.
    pub(super) fn have_room(&self, wanted: &Maps) -> bool {
        wanted.lengths().iter().all(|(table, length)| {
            u32::try_from(*length).is_ok_and(|it| it <= self.map(*table).format().entries_max / 2)
        })
    }

    pub(super) fn read(&self, table: Table) -> Result<Contents, SocketError> {
        Ok(self.map(table).entries()?.into_iter().collect())
    }

    pub(super) fn read_all(&self) -> Result<Maps, SocketError> {
        Ok(Maps {
            frontends: self.read(Table::Frontends)?,
            slots: self.read(Table::Slots)?,
            members: self.read(Table::Members)?,
        })
    }

    /// Endpoints are there before a frontend counts on them, and go when none does.
    pub(super) fn apply(&self, changes: &Changes) -> Result<(), SocketError> {
        let Changes { frontends, slots, members } = changes;
        self.map(Table::Members).update_all(&members.puts)?;
        self.map(Table::Slots).update_all(&slots.puts)?;
        self.apply_to(Table::Frontends, frontends)?;
        self.map(Table::Slots).delete_all(&slots.removals)?;
        self.map(Table::Members).delete_all(&members.removals)?;
        Ok(())
    }

    fn apply_to(&self, table: Table, difference: &Difference) -> Result<(), SocketError> {
        self.map(table).update_all(&difference.puts)?;
        self.map(table).delete_all(&difference.removals)?;
        Ok(())
    }

    /// Makes a map hold exactly this.
    pub(super) fn converge(&self, table: Table, wanted: Contents) -> Result<(), SocketError> {
        let before = self.read(table)?;
        self.apply_to(table, &difference(&before, wanted))
    }

    pub(super) fn forget(&self, table: Table, keys: &[Vec<u8>]) -> Result<(), SocketError> {
        Ok(self.map(table).delete_all(keys)?)
    }
}

fn room(table: Table, length: usize) -> Result<u32, SocketError> {
    let too_many = SocketError::TooMany { map: table.name(), n_entries: length };
    let room = length.saturating_mul(2).checked_next_power_of_two();
    let room = room.filter(|it| *it <= ENTRIES_MAX).and_then(|it| u32::try_from(it).ok());
    room.map(|it| it.max(ENTRIES_MIN)).ok_or(too_many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_room_for_as_much_again() {
        let check = |length, expected: Option<u32>| {
            assert_eq!(room(Table::Slots, length).ok(), expected, "{length}");
        };
        check(0, Some(1024));
        check(512, Some(1024));
        check(513, Some(2048));
        check(300_000, Some(1 << 20));
        check(3_000_000, None);
        check(usize::MAX, None);
    }
}
