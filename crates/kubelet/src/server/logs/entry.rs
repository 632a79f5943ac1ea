//! One line of a CRI log file: `2026-11-16T00:00:00.123456789Z stdout F the message`.

use jiff::Timestamp;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) time: &'a str,
    pub(super) stream: &'a str,
    /// More of the same line follows in another entry.
    pub(super) is_partial: bool,
    pub(super) message: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Without the line feed. `None`: not such a line.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(4, |it| *it == b' ');
        let mut text = || std::str::from_utf8(fields.next()?).ok();
        let (time, stream, tags) = (text()?, text()?, text()?);
        if !matches!(stream, "stdout" | "stderr") {
            return None;
        }
        let is_partial = tags.split(':').next() == Some("P");
        Some(Self { time, stream, is_partial, message: fields.next().unwrap_or_default() })
    }

    pub(super) fn timestamp(&self) -> Option<Timestamp> {
        self.time.parse().ok()
    }

    /// Nine digits of a second, whatever the file has: the columns of a log stay in line.
    pub(super) fn render_time(&self, out: &mut Vec<u8>) {
        const WIDTH: usize = "2026-11-16T00:00:00.123456789Z".len();
        match self.timestamp() {
            Some(time) if self.time.len() != WIDTH || !self.time.ends_with('Z') => {
                let time = time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string();
                out.extend_from_slice(time.as_bytes());
            }
            _ => out.extend_from_slice(self.time.as_bytes()),
        }
    }
}
