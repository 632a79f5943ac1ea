//! One simulated file: what the cache has, what the device has, and the writes between the two.

use super::chance::Chance;

/// What a device writes whole.
const SECTOR: usize = 512;

#[derive(Clone)]
pub(super) struct Inode {
    cache: Vec<u8>,
    device: Vec<u8>,
    /// Not synced, in order.
    pending: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetSize(usize),
}

impl Inode {
    pub(super) fn of(content: Vec<u8>) -> Self {
        Self { cache: content.clone(), device: content, pending: Vec::new() }
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.cache
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.change(Change::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_size(&mut self, size: usize) {
        self.change(Change::SetSize(size));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cache);
        self.pending.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.device);
        }
    }

    /// As Linux has it: what could not be written counts as clean, and stays in the cache until
    /// that is dropped.
    pub(super) fn fail_sync(&mut self, chance: &mut Chance) {
        self.device = self.crashed(chance);
        self.pending.clear();
    }

    pub(super) fn drop_cache(&mut self) {
        if self.pending.is_empty() {
            self.cache.clone_from(&self.device);
        }
    }

    pub(super) fn damage(&mut self, harm: impl Fn(&mut Vec<u8>)) {
        self.sync();
        harm(&mut self.device);
        self.cache.clone_from(&self.device);
    }

    /// What the device may hold after a loss of power. Each sector is as it was after some of the
    /// changes, whatever became of its neighbors, and so is the size; a sector is written with all
    /// that it held at that time.
    pub(super) fn crashed(&self, chance: &mut Chance) -> Vec<u8> {
        if self.pending.is_empty() {
            return self.device.clone();
        }
        let mut versions = vec![self.device.clone()];
        for change in &self.pending {
            let mut version = versions[versions.len() - 1].clone();
            change.apply(&mut version);
            versions.push(version);
        }
        let longest = versions.iter().map(Vec::len).max().unwrap_or(0);
        let n_sectors = longest.div_ceil(SECTOR);
        let newest = versions.len() - 1;
        let is_kept = chance.pick(n_sectors);
        let is_any_version = chance.one_in(2);
        let draw = |chance: &mut Chance, is_kept: bool| match (is_any_version, is_kept) {
            (true, true) => chance.below(newest + 1),
            (false, true) => newest,
            (_, false) => 0,
        };
        let mut content = vec![0; n_sectors * SECTOR];
        for (sector, is_kept) in is_kept.into_iter().enumerate() {
            let start = sector * SECTOR;
            let version = &versions[draw(chance, is_kept)];
            let rest = version.get(start..).unwrap_or_default();
            let n_bytes = rest.len().min(SECTOR);
            content[start..start + n_bytes].copy_from_slice(&rest[..n_bytes]);
        }
        // Mostly the size is as new as the newest sector; but it may be written before them or
        // after.
        let size = if chance.one_in(2) { newest } else { chance.below(newest + 1) };
        content.resize(versions[size].len(), 0);
        content
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            Self::SetSize(size) => content.resize(*size, 0),
        }
    }
}
