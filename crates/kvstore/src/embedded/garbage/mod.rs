//! What any bytes do to the decoders of stored bytes: each function takes some, and panics if a
//! decoder does or breaks its law. The fuzz targets call them, and the test suite does with random
//! bytes, so that there is one body for both.

mod engine;
mod log;
mod snapshot;

pub use self::engine::engine;
pub use self::log::{frame, log};
pub use self::snapshot::snapshot;
use super::{migrate, open, record};

/// The bodies of frames, the records of the old format, and the line that names a format: refused,
/// or rendered to the same bytes again.
pub fn record(bytes: &[u8]) {
    record::check_parsers(bytes);
    migrate::check_parser(bytes);
    if let Some(format) = open::parse_format(bytes) {
        let line = open::render_format(format);
        assert_eq!(open::parse_format(line.as_bytes()), Some(format));
    }
}

/// Bytes as choices. When they are used up all is 0.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// At most so many.
    fn bytes(&mut self, n: u8) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(self.0.len().min(usize::from(n)));
        self.0 = rest;
        taken
    }

    /// Mostly a small one, so that they meet.
    fn number(&mut self) -> u64 {
        match self.byte() {
            250 => u64::MAX,
            251 => u64::MAX - 1,
            252 => 1 << 63,
            253 => (1 << 62) + u64::from(self.byte()),
            254 => 1 << u64::from(self.byte() % 64),
            small => u64::from(small) % 20,
        }
    }
}
