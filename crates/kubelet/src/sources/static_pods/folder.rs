//! Changes of a folder, from the kernel (inotify(7)).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

pub(super) struct Folder {
    events: AsyncFd<OwnedFd>,
}

impl Folder {
    pub(super) fn watch(path: &Path) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&events, path, flags)?;
        #[expect(deprecated, reason = "an OwnedFd never changes; the new name is unsafe to call")]
        let events = AsyncFd::new(events)?;
        Ok(Self { events })
    }

    /// Returns when something changed since the last call; several changes may be one.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.events.readable().await?;
            let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
            let mut reader = inotify::Reader::new(self.events.get_ref(), &mut buffer);
            let mut n_events = 0;
            let end = loop {
                match reader.next() {
                    Ok(_) => n_events += 1,
                    Err(err) => break err,
                }
            };
            if end != rustix::io::Errno::WOULDBLOCK {
                return Err(end.into());
            }
            ready.clear_ready();
            if n_events > 0 {
                return Ok(());
            }
        }
    }
}
