//! Links whose other end is a program (TUN): what is sent there is read from a descriptor, and what
//! is written to that comes in over the link. Packets are bare IP packets.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

const DEVICE: &str = "/dev/net/tun";
/// Of linux/if_tun.h: no Ethernet, and nothing before the packet.
const FLAGS: libc::c_short = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
/// One of the name that is there is none of ours.
const EXCLUSIVE: libc::c_short = libc::IFF_TUN_EXCL as libc::c_short;

/// The program's end of a link. One program has it at a time.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// A new link in the network namespace of the calling thread, down, which goes with this value
    /// until it is kept. Refused (`EBUSY`) if there is one of the name.
    pub fn create(name: &str) -> io::Result<Self> {
        open(name, FLAGS | EXCLUSIVE)
    }

    /// The end of one that is there and that was kept, in the network namespace of the calling
    /// thread. Refused (`EBUSY`) while another program has it. Reading never waits.
    pub fn attach(name: &str) -> io::Result<Self> {
        open(name, FLAGS)
    }

    /// From now on the link outlives its program.
    pub fn keep(&self) -> io::Result<()> {
        // SAFETY: TUNSETPERSIST takes a number and touches no memory.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TUNSETPERSIST as _, 1) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn open(name: &str, flags: libc::c_short) -> io::Result<Tun> {
    let file = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = Tun(rustix::fs::open(DEVICE, file, Mode::empty())?);
    // SAFETY: an ifreq of zeros is a valid one with an empty name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = flags;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which lives until the call returns.
    let result = unsafe { libc::ioctl(tun.0.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(tun) }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Tun> for OwnedFd {
    fn from(tun: Tun) -> Self {
        tun.0
    }
}
