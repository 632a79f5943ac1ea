//! The headers that blocks can refer to by number: those of the standard (RFC 7541, appendix A),
//! then the last ones that the peer told us to remember.

use std::collections::VecDeque;

/// What we let the peer's encoder use: the standard's default, which we never change.
pub(super) const SIZE_MAX: usize = 4096;
/// What an entry counts beyond its bytes.
const ENTRY_OVERHEAD: usize = 32;

#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

pub(super) struct Table {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    size_max: usize,
}

struct Entry {
    /// Name and value.
    bytes: Box<[u8]>,
    name_len: usize,
}

impl Entry {
    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_OVERHEAD
    }
}

impl Table {
    pub(super) fn new() -> Self {
        Self { entries: VecDeque::new(), size: 0, size_max: SIZE_MAX }
    }

    /// Name and value of a number, which counts from 1.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(index - STATIC.len())?;
        Some(entry.bytes.split_at(entry.name_len))
    }

    /// An entry that is larger than the table empties it.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        let entry = Entry { bytes: [name, value].concat().into(), name_len: name.len() };
        self.shrink_to(self.size_max.saturating_sub(entry.size()));
        if entry.size() <= self.size_max {
            self.size += entry.size();
            self.entries.push_front(entry);
        }
    }

    /// `None` if it is more than the peer may use.
    pub(super) fn resize(&mut self, size_max: usize) -> Option<()> {
        if size_max > SIZE_MAX {
            return None;
        }
        self.size_max = size_max;
        self.shrink_to(size_max);
        Some(())
    }

    fn shrink_to(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.size();
        }
    }
}
