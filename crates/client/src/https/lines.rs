//! Cuts a stream of bytes into lines, none longer than a bound. Pure.

use bytes::{Bytes, BytesMut};

/// One event of a watch. Objects are at most 3 MiB in a default server; twice that leaves room for
/// JSON.
pub(super) const LINE_MAX: usize = 8 << 20;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a line of the watch is longer than {max} bytes")]
pub(super) struct TooLong {
    max: usize,
}

#[derive(Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to have no line end.
    searched: usize,
}

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole line that is not blank.
    pub(super) fn next(&mut self, max: usize) -> Result<Option<Bytes>, TooLong> {
        loop {
            let found = self.buffer[self.searched..].iter().position(|it| *it == b'\n');
            let Some(end) = found.map(|it| it + self.searched) else {
                self.searched = self.buffer.len();
                return if self.searched > max { Err(TooLong { max }) } else { Ok(None) };
            };
            let line = self.buffer.split_to(end + 1).freeze();
            self.searched = 0;
            if end > max {
                return Err(TooLong { max });
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, TooLong};

    fn check(chunks: &[&str], expected: &[&str]) {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            lines.push(chunk.as_bytes());
            while let Some(line) = lines.next(10).unwrap() {
                found.push(String::from_utf8(line.trim_ascii().to_vec()).unwrap());
            }
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_are_found_however_the_bytes_arrive() {
        check(&["ab\ncd\n"], &["ab", "cd"]);
        check(&["a", "b", "\nc", "d\n", "e"], &["ab", "cd"]);
        check(&["\n\r\n", "ab\r\n"], &["ab"]);
    }

    #[test]
    fn a_line_without_end_is_an_error_and_not_a_growing_buffer() {
        let mut lines = Lines::default();
        lines.push(&[b'x'; 11]);
        assert_eq!(lines.next(10), Err(TooLong { max: 10 }));
    }
}
