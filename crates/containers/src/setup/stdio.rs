//! Standard streams and terminals.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};

use linux::mounts::{Depth, Detached};
use linux::process;
use rustix::fs::{AtFlags, FileType};

use super::Stdio;
use super::refusal::{OrRefuse as _, Result};

/// Where a terminal is opened: in the container's root.
const PTMX: &str = "/dev/pts/ptmx";

/// Puts the streams at 0 to 2. With `console` a terminal is also at `/dev/console`; whether it is
/// one is returned, so that the process which executes the program makes it that of its session.
pub(super) fn place(stdio: Stdio, owner: u32, console: Console) -> Result<bool> {
    let is_terminal = matches!(stdio, Stdio::Terminal { .. });
    let streams = match stdio {
        Stdio::Streams { stdin, stdout, stderr } => [stdin, stdout, stderr],
        Stdio::Terminal { socket } => {
            let doing = || "open a terminal".to_owned();
            let terminal = linux::terminal::open(PTMX).or_refuse(doing)?;
            if console == Console::Bound {
                bind_console(terminal.peer.as_fd())?;
            }
            socket
                .send(b"t", &[terminal.master.as_fd()])
                .or_refuse(|| "send the terminal".to_owned())?;
            let copy = || terminal.peer.try_clone().or_refuse(doing);
            [copy()?, copy()?, terminal.peer]
        }
    };
    // Copies above 2 first: the originals may be at 0 to 2 themselves, in another order.
    let copies: Vec<OwnedFd> = streams
        .iter()
        .map(|it| rustix::io::fcntl_dupfd_cloexec(it, 3))
        .collect::<rustix::io::Result<_>>()
        .or_refuse(|| "place standard streams".to_owned())?;
    for (number, stream) in (0..).zip(&copies) {
        own(stream, owner)?;
        process::place_descriptor(stream.as_fd(), number)
            .or_refuse(|| "place standard streams".to_owned())?;
    }
    // An original that was at 0 to 2 has been replaced, and is not closed.
    for stream in streams {
        if stream.as_raw_fd() < 3 {
            let _ = stream.into_raw_fd();
        }
    }
    Ok(is_terminal)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Console {
    Bound,
    Unbound,
}

/// What the user opens again as `/dev/stdout` must be the user's. `/dev/null` is everybody's
/// already.
fn own(stream: &OwnedFd, owner: u32) -> Result<()> {
    let doing = || "own standard streams".to_owned();
    let stat = rustix::fs::fstat(stream).or_refuse(doing)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_null = kind == FileType::CharacterDevice && rustix::fs::major(stat.st_rdev) == 1;
    if stat.st_uid == owner || is_null {
        return Ok(());
    }
    let owner = Some(rustix::process::Uid::from_raw(owner));
    match rustix::fs::fchown(stream, owner, None) {
        // Sockets of others, read-only file systems: the stream itself still works.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM | rustix::io::Errno::ROFS) => Ok(()),
        result => result.or_refuse(doing),
    }
}

fn bind_console(peer: BorrowedFd<'_>) -> Result<()> {
    let doing = || "bind /dev/console".to_owned();
    // Made by us in our own /dev, but an image's volume could be mounted over it.
    let root = linux::rooted::Root::open(std::path::Path::new("/")).or_refuse(doing)?;
    let Ok(target) = root.find_plain("/dev/console") else { return Ok(()) };
    let kind = rustix::fs::statat(&target, "", AtFlags::EMPTY_PATH).or_refuse(doing)?.st_mode;
    if FileType::from_raw_mode(kind) != FileType::RegularFile {
        return Ok(());
    }
    let copy = Detached::copy_of(peer, Depth::One).or_refuse(doing)?;
    copy.attach(target.as_fd()).or_refuse(doing)?;
    Ok(())
}
