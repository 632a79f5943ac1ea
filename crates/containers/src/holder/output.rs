//! One output of a container: from its pipe or terminal into the log and to attached clients.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use jiff::Timestamp;
use rustix::io::Errno;

use super::poll::Token;
use crate::logs::{Lines, LogFile, Stream};

/// Reads for one event; then others have their turn.
const READS_MAX: usize = 8;
/// What a pipe can hold at most (`/proc/sys/fs/pipe-max-size`), in reads: more is not what an ended
/// program has left behind.
const READS_AT_END_MAX: usize = 1024 * 1024 / READ_MAX;
pub(super) const READ_MAX: usize = 16 * 1024;

pub(super) struct Output {
    pub(super) stream: Stream,
    pub(super) token: Token,
    source: OwnedFd,
    lines: Lines,
}

/// A client that sees output from now on.
pub(super) struct Attached {
    pub(super) connection: Token,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

impl Attached {
    /// What a slow client's pipe does not take is lost to it: the container must not wait for it.
    fn copy(&self, stream: Stream, bytes: &[u8]) {
        let target = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        if let Some(target) = target {
            let _ = rustix::io::write(target, bytes);
        }
    }
}

/// Where output goes.
pub(super) struct Sinks<'a> {
    pub(super) log: &'a mut LogFile,
    pub(super) attached: &'a [Attached],
    pub(super) now: Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pumped {
    More,
    Ended,
}

impl Output {
    /// `source` must not block.
    pub(super) fn new(stream: Stream, token: Token, source: OwnedFd) -> Self {
        Self { stream, token, source, lines: Lines::new(stream) }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// Takes what is there, but not for ever.
    pub(super) fn pump(&mut self, sinks: &mut Sinks<'_>) -> Pumped {
        self.read(sinks, READS_MAX)
    }

    /// Takes everything that a program that has ended left behind.
    pub(super) fn drain(mut self, sinks: &mut Sinks<'_>) {
        if self.read(sinks, READS_AT_END_MAX) == Pumped::More {
            self.end(sinks);
        }
    }

    fn read(&mut self, sinks: &mut Sinks<'_>, reads_max: usize) -> Pumped {
        let mut buffer = [0; READ_MAX];
        let mut entries = Vec::new();
        for _ in 0..reads_max {
            match rustix::io::read(&self.source, &mut buffer) {
                Ok(0) => return self.end(sinks),
                Ok(length) => {
                    self.lines.push(&buffer[..length], sinks.now, &mut entries);
                    sinks.log.append(&entries, sinks.now);
                    entries.clear();
                    for attached in sinks.attached {
                        attached.copy(self.stream, &buffer[..length]);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Pumped::More,
                // A terminal whose last user is gone says EIO.
                Err(_) => return self.end(sinks),
            }
        }
        Pumped::More
    }

    fn end(&mut self, sinks: &mut Sinks<'_>) -> Pumped {
        let mut entries = Vec::new();
        self.lines.finish(sinks.now, &mut entries);
        sinks.log.append(&entries, sinks.now);
        Pumped::Ended
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};

    use jiff::Timestamp;
    use rustix::pipe::PipeFlags;

    use super::super::poll::{Poll, Source};
    use super::{Attached, Output, Pumped, Sinks};
    use crate::logs::{LogFile, Stream};
    use crate::records::Limits;

    #[test]
    fn output_reaches_the_log_and_slow_clients_lose_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        let limits = Limits { size_max: 0, files_max: 1 };
        let mut log = LogFile::open(path.clone(), limits).unwrap();
        let (source, target) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK).unwrap();
        let (client, to_client) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut poll = Poll::new().unwrap();
        let token = poll.add(&source, Source::Listener).unwrap();
        let attached = [Attached { connection: token, stdout: Some(to_client), stderr: None }];
        let mut sinks = Sinks { log: &mut log, attached: &attached, now: Timestamp::UNIX_EPOCH };
        let mut output = Output::new(Stream::Stdout, token, source);

        let mut target = fs::File::from(target);
        let line = [b'x'; 1023];
        let n_lines = 200;
        for _ in 0..n_lines {
            target.write_all(&line).unwrap();
            target.write_all(b"\n").unwrap();
            assert_eq!(output.pump(&mut sinks), Pumped::More);
        }
        target.write_all(b"end").unwrap();
        drop(target);
        output.drain(&mut sinks);

        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), n_lines + 1);
        assert!(text.ends_with(" stdout P end\n"));
        let mut seen = Vec::new();
        drop(attached);
        fs::File::from(client).read_to_end(&mut seen).unwrap();
        assert_eq!(seen.len(), 64 * 1024, "what a pipe takes, and no more");
    }
}
