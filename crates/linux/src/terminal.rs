//! Pseudoterminals.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// Both ends of a terminal. Programs get the `peer`.
#[derive(Debug)]
pub struct Terminal {
    pub master: OwnedFd,
    pub peer: OwnedFd,
}

/// Opens a terminal of the `devpts` instance whose `ptmx` is at this path. The peer is opened
/// through the master, never by its path, which whoever owns the file system could point elsewhere.
pub fn open(ptmx: &str) -> io::Result<Terminal> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let master = rustix::fs::open(ptmx, flags, Mode::empty())?;
    if !is_ptmx(&master)? {
        return Err(io::Error::other(format!("{ptmx} is not the master of a devpts")));
    }
    rustix::pty::unlockpt(&master)?;
    let peer = rustix::pty::ioctl_tiocgptpeer(
        &master,
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    )?;
    Ok(Terminal { master, peer })
}

/// Character device 5:2 on devpts.
fn is_ptmx(master: &OwnedFd) -> io::Result<bool> {
    const DEVPTS_SUPER_MAGIC: i64 = 0x1cd1;
    let stat = rustix::fs::fstat(master)?;
    let system = rustix::fs::fstatfs(master)?;
    let is_device = rustix::fs::major(stat.st_rdev) == 5 && rustix::fs::minor(stat.st_rdev) == 2;
    Ok(is_device && system.f_type as i64 == DEVPTS_SUPER_MAGIC)
}

pub fn set_size(terminal: BorrowedFd<'_>, width: u16, height: u16) -> io::Result<()> {
    let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

pub fn size(terminal: BorrowedFd<'_>) -> io::Result<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(terminal)?;
    Ok((size.ws_col, size.ws_row))
}

/// Makes it the terminal of this process's session, which must be new (see
/// [`crate::process::new_session`]).
pub fn make_controlling(terminal: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::process::ioctl_tiocsctty(terminal)?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_is_typed_arrives() {
        let Ok(terminal) = open("/dev/pts/ptmx").or_else(|_| open("/dev/ptmx")) else {
            println!("SKIPPED: no devpts here");
            return;
        };
        set_size(terminal.master.as_fd(), 132, 43).unwrap();
        assert_eq!(size(terminal.peer.as_fd()).unwrap(), (132, 43));
        let mut master = std::fs::File::from(terminal.master);
        master.write_all(b"hello\n").unwrap();
        let mut line = [0; 16];
        let n = std::fs::File::from(terminal.peer).read(&mut line).unwrap();
        assert_eq!(&line[..n], b"hello\n");
    }

    #[test]
    fn another_file_is_not_taken_for_a_terminal() {
        assert!(open("/dev/null").unwrap_err().to_string().contains("not the master"));
    }
}
