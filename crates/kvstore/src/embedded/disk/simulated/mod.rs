//! A disk in memory that crashes and fails on demand, the same way for the same seed: for tests and
//! torture.
//!
//! Writes go to a cache until they are synced, names until the directory is. A crash keeps an
//! arbitrary part of what was not synced: sector by sector, and name by name. Every operation that
//! changes something has a number, so that a driver can fail or crash at each in turn.

mod chance;
mod inode;
mod point;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::chance::Chance;
use self::inode::Inode;
pub(crate) use self::point::Stop;
pub use self::point::{Failure, Point};
use super::{Disk, File};

/// What goes wrong with one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this `errno` and changes nothing; a sync that fails loses any part of what was
    /// not synced.
    Refuse(i32),
    /// A write fails with this `errno` after a part of it.
    Partial(i32),
    /// The machine stops: this operation and all after it fail. `crash` gives what the next start
    /// finds.
    Crash,
}

/// What an operation was, for drivers that choose where to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Rename,
    Remove,
    SyncDirectory,
    Write,
    SetSize,
    Sync,
}

pub const ENOSPC: i32 = 28;
pub const EIO: i32 = 5;

/// Clones are the same disk.
#[derive(Clone)]
pub struct Simulated(Arc<Mutex<State>>);

struct State {
    inodes: Vec<Inode>,
    /// Names as they are now, and as they are on the device.
    names: BTreeMap<String, usize>,
    names_synced: BTreeMap<String, usize>,
    /// What lies between the two, in order.
    renames: Vec<Rename>,
    operations: Vec<Operation>,
    /// By the number of the operation.
    faults: BTreeMap<usize, Fault>,
    /// Every write, as long as it lasts.
    is_full: bool,
    /// Every read.
    is_unreadable: bool,
    /// Every sync of a file.
    is_hanging: bool,
    has_crashed: bool,
    chance: Chance,
}

/// A change of names: `inode` gets the name `to`, and loses `from`. It happens as a whole or not at
/// all.
#[derive(Clone)]
struct Rename {
    inode: usize,
    from: Option<String>,
    to: Option<String>,
}

struct Handle {
    disk: Simulated,
    inode: usize,
}

impl Simulated {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            names_synced: BTreeMap::new(),
            renames: Vec::new(),
            operations: Vec::new(),
            faults: BTreeMap::new(),
            is_full: false,
            is_unreadable: false,
            is_hanging: false,
            has_crashed: false,
            chance: Chance::new(seed),
        })))
    }

    /// What happens at the operation of that number, counted from 0 for all that the disk ever did.
    pub fn fault_at(&self, operation: usize, fault: Fault) {
        self.lock().faults.insert(operation, fault);
    }

    /// The operations so far. The number of the next one is their count.
    pub fn operations(&self) -> Vec<Operation> {
        self.lock().operations.clone()
    }

    /// How many operations there were so far.
    pub fn n_operations(&self) -> usize {
        self.lock().operations.len()
    }

    /// While it is full, everything that needs space fails with `ENOSPC`.
    pub fn set_full(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// While it hangs, no sync of a file returns.
    pub fn set_hanging(&self, is_hanging: bool) {
        self.lock().is_hanging = is_hanging;
    }

    /// While it is unreadable, every read fails with `EIO`.
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.lock().is_unreadable = is_unreadable;
    }

    /// The disk as the next start finds it after a loss of power: any part of what was not synced
    /// is there. This one is of no use any more.
    pub fn crash(&self, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let next = Self::new(chance.next());
        let mut state = self.lock();
        state.has_crashed = true;
        let names = state.crashed_names(&mut chance);
        let mut inodes = Vec::new();
        for inode in &state.inodes {
            inodes.push(Inode::of(inode.crashed(&mut chance)));
        }
        drop(state);
        let mut fresh = next.lock();
        fresh.names = names.clone();
        fresh.names_synced = names;
        fresh.inodes = inodes;
        drop(fresh);
        next
    }

    /// The disk as the next process finds it when this one is killed: nothing is lost. Handles of
    /// this one fail.
    pub fn kill(&self, seed: u64) -> Self {
        let next = Self::new(seed);
        let mut state = self.lock();
        let mut fresh = next.lock();
        fresh.inodes = state.inodes.clone();
        fresh.names = state.names.clone();
        fresh.names_synced = state.names_synced.clone();
        fresh.renames = state.renames.clone();
        state.has_crashed = true;
        drop((state, fresh));
        next
    }

    /// A copy of all that is there, with everything synced.
    pub fn copy(&self, seed: u64) -> Self {
        let next = Self::new(seed);
        for (name, content) in self.files() {
            next.put(&name, &content);
        }
        next
    }

    /// Every file as it is now.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.lock();
        let content = |inode: &usize| state.inodes[*inode].content().to_vec();
        state.names.iter().map(|(name, inode)| (name.clone(), content(inode))).collect()
    }

    /// Puts a file there, synced: as damage, or as what another program left.
    pub fn put(&self, name: &str, content: &[u8]) {
        let mut state = self.lock();
        state.inodes.push(Inode::of(content.to_vec()));
        let inode = state.inodes.len() - 1;
        state.names.insert(name.to_owned(), inode);
        state.names_synced.insert(name.to_owned(), inode);
    }

    /// Flips a bit of a file, in the cache and on the device. Open handles see it.
    pub fn flip(&self, name: &str, bit: usize) {
        self.damage(name, |content| content[bit / 8] ^= 1 << (bit % 8));
    }

    /// Puts zeros where `bytes` was.
    pub fn zero(&self, name: &str, bytes: std::ops::Range<usize>) {
        self.damage(name, |content| content[bytes.clone()].fill(0));
    }

    /// Takes `bytes` out, so that the rest moves up.
    pub fn cut_out(&self, name: &str, bytes: std::ops::Range<usize>) {
        self.damage(name, |content| drop(content.drain(bytes.clone())));
    }

    fn damage(&self, name: &str, harm: impl Fn(&mut Vec<u8>)) {
        let mut state = self.lock();
        let inode = state.names[name];
        state.inodes[inode].damage(harm);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts an operation, and says whether it may go on; `Partial` may for a part.
    fn begin(&mut self, operation: Operation) -> Result<(), Fault> {
        self.operations.push(operation);
        if self.has_crashed {
            return Err(Fault::Crash);
        }
        let needs_space = matches!(operation, Operation::Create | Operation::Write);
        let fault = self.faults.remove(&(self.operations.len() - 1));
        let fault =
            fault.or_else(|| (self.is_full && needs_space).then_some(Fault::Partial(ENOSPC)));
        match fault {
            None => Ok(()),
            Some(Fault::Crash) => {
                self.has_crashed = true;
                Err(Fault::Crash)
            }
            Some(fault) => Err(fault),
        }
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn check_alive(&self) -> io::Result<()> {
        if self.has_crashed { Err(error(Fault::Crash)) } else { Ok(()) }
    }

    fn crashed_names(&self, chance: &mut Chance) -> BTreeMap<String, usize> {
        let mut names = self.names_synced.clone();
        let keep = chance.pick(self.renames.len());
        for (rename, is_kept) in self.renames.iter().zip(keep) {
            if is_kept {
                rename.apply(&mut names);
            }
        }
        names
    }

    fn change_names(&mut self, operation: Operation, rename: Rename) -> io::Result<()> {
        let begun = self.begin(operation);
        if begun.is_ok() {
            rename.apply(&mut self.names);
        }
        // When the machine stops, it may have been on its way.
        if matches!(begun, Ok(()) | Err(Fault::Crash)) {
            self.renames.push(rename);
        }
        begun.map_err(error)
    }
}

impl Rename {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(from) = self.from.as_ref().filter(|it| names.get(*it) == Some(&self.inode)) {
            names.remove(from);
        }
        if let Some(to) = &self.to {
            names.insert(to.clone(), self.inode);
        }
    }
}

impl Disk for Simulated {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.lock();
        state.check_alive()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let state = self.lock();
        state.check_alive()?;
        Ok(Arc::new(Handle { disk: self.clone(), inode: state.find(name)? }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        state.begin(Operation::Create).map_err(error)?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.inodes.push(Inode::of(Vec::new()));
        let inode = state.inodes.len() - 1;
        let rename = Rename { inode, from: None, to: Some(name.to_owned()) };
        rename.apply(&mut state.names);
        state.renames.push(rename);
        Ok(Arc::new(Handle { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        let inode = state.find(from)?;
        let rename = Rename { inode, from: Some(from.to_owned()), to: Some(to.to_owned()) };
        state.change_names(Operation::Rename, rename)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        let inode = state.find(name)?;
        let rename = Rename { inode, from: Some(name.to_owned()), to: None };
        state.change_names(Operation::Remove, rename)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.begin(Operation::SyncDirectory).map_err(error)?;
        state.names_synced = state.names.clone();
        state.renames.clear();
        Ok(())
    }
}

impl Handle {
    fn with<T>(&self, read: impl FnOnce(&mut Inode, &mut Chance) -> T) -> T {
        let mut state = self.disk.lock();
        let State { inodes, chance, .. } = &mut *state;
        read(&mut inodes[self.inode], chance)
    }

    fn begin(&self, operation: Operation) -> Result<(), Fault> {
        self.disk.lock().begin(operation)
    }

    fn check_readable(&self) -> io::Result<()> {
        let state = self.disk.lock();
        state.check_alive()?;
        if state.is_unreadable { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }
}

impl File for Handle {
    fn size(&self) -> io::Result<u64> {
        self.check_readable()?;
        Ok(self.with(|inode, _| inode.content().len() as u64))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.check_readable()?;
        Ok(self.with(|inode, _| {
            let rest = inode.content().get(offset as usize..).unwrap_or_default();
            let n_read = rest.len().min(buffer.len());
            buffer[..n_read].copy_from_slice(&rest[..n_read]);
            n_read
        }))
    }

    /// Never, so that those who may wait are tried.
    fn read_cached(&self, _offset: u64, _buffer: &mut [u8]) -> Option<usize> {
        None
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let begun = self.begin(Operation::Write);
        self.with(|inode, chance| match begun {
            Ok(()) => inode.write(offset as usize, bytes),
            Err(Fault::Refuse(_)) => {}
            Err(Fault::Partial(_) | Fault::Crash) => {
                let n_written = chance.below(bytes.len() + 1);
                inode.write(offset as usize, &bytes[..n_written]);
            }
        });
        begun.map_err(error)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.begin(Operation::SetSize).map_err(error)?;
        self.with(|inode, _| inode.set_size(size as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        while self.disk.lock().is_hanging {
            std::thread::sleep(Duration::from_millis(1));
        }
        let begun = self.begin(Operation::Sync);
        self.with(|inode, chance| match begun {
            Ok(()) => inode.sync(),
            Err(Fault::Refuse(_) | Fault::Partial(_)) => inode.fail_sync(chance),
            Err(Fault::Crash) => {}
        });
        begun.map_err(error)
    }

    fn drop_cache(&self) {
        self.with(|inode, _| inode.drop_cache());
    }
}

fn error(fault: Fault) -> io::Error {
    match fault {
        Fault::Refuse(errno) | Fault::Partial(errno) => io::Error::from_raw_os_error(errno),
        Fault::Crash => io::Error::other("the simulated machine has stopped"),
    }
}
