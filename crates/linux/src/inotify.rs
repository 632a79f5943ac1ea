//! Changes in a directory, as the kernel tells them (inotify(7)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Which changes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// A file was written and closed, came or went.
    Files,
    /// Every write to a file, and files that come.
    Writes,
}

/// Readable when there are changes; reading never waits.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    pub fn directory(path: &Path, changes: Changes) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = match changes {
            Changes::Files => {
                WatchFlags::CLOSE_WRITE
                    | WatchFlags::MOVED_FROM
                    | WatchFlags::MOVED_TO
                    | WatchFlags::DELETE
            }
            Changes::Writes => WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO,
        };
        inotify::add_watch(&events, path, flags | WatchFlags::ONLYDIR)?;
        Ok(Self(events))
    }

    /// Takes what has changed since the last call; how many changes.
    pub fn take(&self) -> io::Result<usize> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut n_changes = 0;
        loop {
            match reader.next() {
                Ok(_) => n_changes += 1,
                Err(Errno::WOULDBLOCK) => return Ok(n_changes),
                Err(err) => return Err(err.into()),
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Changes, Watch};

    #[test]
    fn only_changes_that_count_are_told() {
        let check = |changes: Changes, expected: [usize; 3]| {
            let directory = tempfile::tempdir().unwrap();
            let watch = Watch::directory(directory.path(), changes).unwrap();
            let path = directory.path().join("a");
            let file = std::fs::File::create(&path).unwrap();
            let made = watch.take().unwrap();
            drop(file);
            let closed = watch.take().unwrap();
            std::fs::remove_file(path).unwrap();
            assert_eq!([made, closed, watch.take().unwrap()], expected, "{changes:?}");
        };
        check(Changes::Files, [0, 1, 1]);
        check(Changes::Writes, [1, 0, 0]);
    }
}
