//! Maps: what programs and this process both read and write.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;

use super::Error;
use super::call::{Attributes, Command, describe, name_at, u32_at};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    Hash,
    /// Keys are numbers, and every one is there.
    Array,
    /// Makes room by forgetting what was not used for long.
    LruHash,
}

impl MapKind {
    const fn number(self) -> u32 {
        match self {
            Self::Hash => 1,
            Self::Array => 2,
            Self::LruHash => 9,
        }
    }

    const fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Hash),
            2 => Some(Self::Array),
            9 => Some(Self::LruHash),
            _ => None,
        }
    }

    /// A hash takes memory for what is in it, not for what may be.
    const fn flags(self) -> u32 {
        const NO_PREALLOCATION: u32 = 1;
        match self {
            Self::Hash => NO_PREALLOCATION,
            Self::Array | Self::LruHash => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapFormat {
    pub kind: MapKind,
    /// In bytes.
    pub key: usize,
    pub value: usize,
    pub entries_max: u32,
}

/// Keys with their values.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Entries that go to or come from the kernel in one call.
const BATCH: usize = 4096;
/// `struct bpf_map_info`, as far as it is read.
const DESCRIPTION: usize = 48;
/// The kernel's own number for what it cannot do (`ENOTSUPP`).
const NOT_SUPPORTED: i32 = 524;

#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    name: String,
    format: MapFormat,
}

impl Map {
    pub fn create(name: &str, format: MapFormat) -> Result<Self, Error> {
        let doing = || format!("make map {name} for {} entries", format.entries_max);
        let length = |it: usize| {
            u32::try_from(it).map_err(|err| Error::call(doing(), io::Error::other(err)))
        };
        let mut attributes = Attributes::new()
            .u32(0, format.kind.number())
            .u32(4, length(format.key)?)
            .u32(8, length(format.value)?)
            .u32(12, format.entries_max)
            .u32(16, format.kind.flags())
            .name(28, name)?;
        // SAFETY: there are numbers alone.
        let descriptor = unsafe { attributes.open(Command::MapCreate) };
        let descriptor = descriptor.map_err(|source| Error::call(doing(), source))?;
        Ok(Self { descriptor, name: name.to_owned(), format })
    }

    /// By the number that programs tell; `None`: it is gone, or of a kind that nobody here makes.
    pub fn by_id(id: u32) -> Result<Option<Self>, Error> {
        let failed = |source| Error::call(format!("open map {id}"), source);
        // SAFETY: there are numbers alone.
        let descriptor = match unsafe { Attributes::new().u32(0, id).open(Command::MapById) } {
            Err(err) if err.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let mut description = [0; DESCRIPTION];
        // SAFETY: this description points nowhere.
        unsafe { describe(descriptor.as_raw_fd(), &mut description) }.map_err(failed)?;
        let number = |offset| u32_at(&description, offset);
        let Some(kind) = MapKind::of(number(0)).filter(|it| it.flags() == number(20)) else {
            return Ok(None);
        };
        let length = |offset| usize::try_from(number(offset)).unwrap_or(usize::MAX);
        let format = MapFormat { kind, key: length(8), value: length(12), entries_max: number(16) };
        Ok(Some(Self { descriptor, name: name_at(&description, 24), format }))
    }

    pub fn id(&self) -> Result<u32, Error> {
        let mut description = [0; DESCRIPTION];
        // SAFETY: this description points nowhere.
        unsafe { describe(self.descriptor(), &mut description) }
            .map_err(|source| self.failed("look at", source))?;
        Ok(u32_at(&description, 4))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn format(&self) -> MapFormat {
        self.format
    }

    /// What a program names the map by while it is loaded.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    fn failed(&self, verb: &str, source: io::Error) -> Error {
        Error::call(format!("{verb} map {}", self.name), source)
    }

    fn attributes<'a>(&self) -> Attributes<'a> {
        Attributes::new().descriptor(0, self.descriptor())
    }

    fn check(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        let MapFormat { key: key_length, value: value_length, .. } = self.format;
        let wrong = |given| Error::Length {
            map: self.name.clone(),
            key: key_length,
            value: value_length,
            given,
        };
        if key.len() != key_length {
            return Err(wrong(key.len()));
        }
        match value.filter(|it| it.len() != value_length) {
            Some(value) => Err(wrong(value.len())),
            None => Ok(()),
        }
    }

    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check(key, None)?;
        let mut value = vec![0; self.format.value];
        let mut attributes = self.attributes().input(8, key).output(16, &mut value);
        // SAFETY: key and value have the lengths of the map.
        match unsafe { attributes.call(Command::MapLookup) } {
            Ok(_) => Ok(Some(value)),
            Err(err) if is(&err, Errno::NOENT) => Ok(None),
            Err(err) => Err(self.failed("look into", err)),
        }
    }

    /// Adds it, or puts it in the place of the one with this key.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check(key, Some(value))?;
        let mut attributes = self.attributes().input(8, key).input(16, value);
        // SAFETY: key and value have the lengths of the map.
        unsafe { attributes.call(Command::MapUpdate) }
            .map(drop)
            .map_err(|err| self.failed("change", err))
    }

    /// Whether it was there.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.check(key, None)?;
        // SAFETY: the key has the length of the map's.
        match unsafe { self.attributes().input(8, key).call(Command::MapDelete) } {
            Ok(_) => Ok(true),
            Err(err) if is(&err, Errno::NOENT) => Ok(false),
            Err(err) => Err(self.failed("change", err)),
        }
    }

    /// [`Map::update`] for many, in few calls where the kernel can. After an error some are there.
    pub fn update_all(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Error> {
        for chunk in entries.chunks(BATCH) {
            if let [(key, value)] = chunk {
                self.update(key, value)?;
                continue;
            }
            chunk.iter().try_for_each(|(key, value)| self.check(key, Some(value)))?;
            let keys: Vec<u8> = chunk.iter().flat_map(|it| &it.0).copied().collect();
            let values: Vec<u8> = chunk.iter().flat_map(|it| &it.1).copied().collect();
            let attributes = self.batch(chunk.len()).input(16, &keys).input(24, &values);
            if !self.call_batch(attributes, Command::MapUpdateBatch)? {
                chunk.iter().try_for_each(|(key, value)| self.update(key, value))?;
            }
        }
        Ok(())
    }

    /// [`Map::delete`] for many. What is gone already is no error.
    pub fn delete_all(&self, keys: &[Vec<u8>]) -> Result<(), Error> {
        for chunk in keys.chunks(BATCH) {
            chunk.iter().try_for_each(|key| self.check(key, None))?;
            let all: Vec<u8> = chunk.iter().flatten().copied().collect();
            let attributes = self.batch(chunk.len()).input(16, &all);
            let is_done = chunk.len() > 1
                && match self.call_batch(attributes, Command::MapDeleteBatch) {
                    Err(err) if err.is(Errno::NOENT) => false,
                    done => done?,
                };
            if !is_done {
                chunk.iter().try_for_each(|key| self.delete(key).map(drop))?;
            }
        }
        Ok(())
    }

    /// All that is there, in no order. What comes or goes meanwhile may be missing.
    pub fn entries(&self) -> Result<Entries, Error> {
        match self.read_batches()? {
            Some(entries) => Ok(entries),
            None => self.read_one_by_one(),
        }
    }

    /// How often reading may go on: a map that others fill meanwhile has an end, too.
    fn steps_max(&self) -> usize {
        usize::try_from(self.format.entries_max).unwrap_or(usize::MAX).saturating_mul(2).max(64)
    }

    /// `None`: the kernel cannot.
    fn read_batches(&self) -> Result<Option<Entries>, Error> {
        let MapFormat { key, value, .. } = self.format;
        let (mut found, mut length) = (Entries::new(), BATCH);
        // Where the kernel goes on: a number, or the last key.
        let mut position: Option<Vec<u8>> = None;
        for _ in 0..self.steps_max() {
            let (mut keys, mut values) = (vec![0; key * length], vec![0; value * length]);
            let mut next = vec![0; key.max(8)];
            let mut attributes = self
                .batch(length)
                .output(8, &mut next)
                .output(16, &mut keys)
                .output(24, &mut values);
            if let Some(position) = &position {
                attributes = attributes.input(0, position);
            }
            // SAFETY: there is room for as many keys and values as are asked for, and for a
            // position.
            let result = unsafe { attributes.call(Command::MapLookupBatch) };
            let n_read = usize::try_from(attributes.read_u32(32)).unwrap_or(0).min(length);
            let is_end = match result {
                Ok(_) => false,
                Err(err) if is(&err, Errno::NOENT) => true,
                // More in one bucket than there is room for.
                Err(err) if is(&err, Errno::NOSPC) => {
                    length = length.saturating_mul(2);
                    continue;
                }
                Err(err) if cannot(&err) => return Ok(None),
                Err(err) => return Err(self.failed("read", err)),
            };
            let pairs = keys.chunks(key.max(1)).zip(values.chunks(value.max(1)));
            found.extend(pairs.take(n_read).map(|(key, value)| (key.to_vec(), value.to_vec())));
            if is_end {
                break;
            }
            position = Some(next);
        }
        Ok(Some(found))
    }

    fn read_one_by_one(&self) -> Result<Entries, Error> {
        let mut found = Entries::new();
        let mut last: Option<Vec<u8>> = None;
        for _ in 0..self.steps_max() {
            let mut next = vec![0; self.format.key];
            let mut attributes = self.attributes().output(16, &mut next);
            if let Some(last) = &last {
                attributes = attributes.input(8, last);
            }
            // SAFETY: both keys have the length of the map's.
            match unsafe { attributes.call(Command::MapNextKey) } {
                Ok(_) => {}
                Err(err) if is(&err, Errno::NOENT) => break,
                Err(err) => return Err(self.failed("read", err)),
            }
            if let Some(value) = self.lookup(&next)? {
                found.push((next.clone(), value));
            }
            last = Some(next);
        }
        Ok(found)
    }

    fn batch<'a>(&self, length: usize) -> Attributes<'a> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Attributes::new().u32(32, length).descriptor(36, self.descriptor())
    }

    /// False: the kernel cannot.
    fn call_batch(&self, mut attributes: Attributes<'_>, command: Command) -> Result<bool, Error> {
        // SAFETY: there are as many keys and values as the count says, each of the map's length.
        match unsafe { attributes.call(command) } {
            Ok(_) => Ok(true),
            Err(err) if cannot(&err) => Ok(false),
            Err(err) => Err(self.failed("change", err)),
        }
    }
}

fn is(err: &io::Error, errno: Errno) -> bool {
    err.raw_os_error() == Some(errno.raw_os_error())
}

fn cannot(err: &io::Error) -> bool {
    is(err, Errno::INVAL) || is(err, Errno::OPNOTSUPP) || err.raw_os_error() == Some(NOT_SUPPORTED)
}
