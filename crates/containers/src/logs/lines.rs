//! Cuts a byte stream into log entries.
//!
//! Example, with entries of at most 4 bytes: `ab\ncdefgh` then the end gives `F ab`, `P cdef`, `P
//! gh`. The tag `P` says that the line goes on in the next entry; the last entry of a stream that
//! does not end in a newline has it too, as with containerd (internal/cri/io/logger.go at v2.0).

use jiff::Timestamp;

/// As containerd's `max_container_log_line_size`.
pub(crate) const LINE_MAX: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One stream of one container.
pub(crate) struct Lines {
    stream: Stream,
    max: usize,
    /// The start of a line whose newline has not come; at most `max` bytes.
    pending: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, max: LINE_MAX, pending: Vec::new() }
    }

    /// Appends the entries that `bytes` complete to `entries`.
    pub(crate) fn push(&mut self, bytes: &[u8], now: Timestamp, entries: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|it| *it == b'\n') {
            self.extend(&rest[..end], now, entries);
            self.emit('F', now, entries);
            rest = &rest[end + 1..];
        }
        self.extend(rest, now, entries);
        if self.pending.is_empty() {
            // An idle container costs no buffer.
            self.pending = Vec::new();
        }
    }

    /// No more will come.
    pub(crate) fn finish(&mut self, now: Timestamp, entries: &mut Vec<u8>) {
        if !self.pending.is_empty() {
            self.emit('P', now, entries);
        }
        self.pending = Vec::new();
    }

    fn extend(&mut self, mut part: &[u8], now: Timestamp, entries: &mut Vec<u8>) {
        while self.pending.len() + part.len() > self.max {
            let (head, tail) = part.split_at(self.max - self.pending.len());
            self.pending.extend_from_slice(head);
            self.emit('P', now, entries);
            part = tail;
        }
        self.pending.extend_from_slice(part);
    }

    fn emit(&mut self, tag: char, now: Timestamp, entries: &mut Vec<u8>) {
        use std::io::Write as _;
        let _ = write!(entries, "{now:.9} {} {tag} ", self.stream.name());
        entries.append(&mut self.pending);
        entries.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{LINE_MAX, Lines, Stream};

    fn entries(max: usize, chunks: &[&str]) -> String {
        let mut lines = Lines { max, ..Lines::new(Stream::Stdout) };
        let (now, mut entries) = (Timestamp::UNIX_EPOCH, Vec::new());
        for chunk in chunks {
            lines.push(chunk.as_bytes(), now, &mut entries);
        }
        lines.finish(now, &mut entries);
        String::from_utf8(entries).unwrap()
    }

    fn check(chunks: &[&str], expected: &[&str]) {
        let prefix = "1970-01-01T00:00:00.000000000Z stdout ";
        let expected: String = expected.iter().map(|it| format!("{prefix}{it}\n")).collect();
        assert_eq!(entries(4, chunks), expected, "{chunks:?}");
    }

    #[test]
    fn lines_are_cut_at_newlines_wherever_the_chunks_end() {
        check(&["a\nb\n"], &["F a", "F b"]);
        check(&["a", "b", "\n"], &["F ab"]);
        check(&["a\n", "\n", "b"], &["F a", "F ", "P b"]);
        check(&[""], &[]);
        check(&["\n"], &["F "]);
        check(&["a\r\n"], &["F a\r"]);
    }

    #[test]
    fn long_lines_are_cut_and_say_so() {
        check(&["abcd\n"], &["F abcd"]);
        check(&["abcd", "\n"], &["F abcd"]);
        check(&["abcde\n"], &["P abcd", "F e"]);
        check(&["abc", "defghi", "\nj\n"], &["P abcd", "P efgh", "F i", "F j"]);
        check(&["abcdefgh"], &["P abcd", "P efgh"]);
    }

    /// What kubectl shows: the text of the entries, with a newline after each `F`.
    fn shown(entries: &str) -> String {
        entries.lines().fold(String::new(), |mut text, entry| {
            let mut fields = entry.splitn(4, ' ').skip(2);
            let tag = fields.next().unwrap();
            text.push_str(fields.next().unwrap());
            if tag == "F" {
                text.push('\n');
            }
            text
        })
    }

    #[test]
    fn what_is_shown_is_what_was_written() {
        let text = format!("x\n\n{}\nend", "y".repeat(3 * LINE_MAX + 1));
        for size in [1, 7, 100, LINE_MAX, LINE_MAX + 1, text.len()] {
            let chunks: Vec<&str> =
                text.as_bytes().chunks(size).map(|it| str::from_utf8(it).unwrap()).collect();
            assert_eq!(shown(&entries(LINE_MAX, &chunks)), text, "chunks of {size}");
        }
    }
}
