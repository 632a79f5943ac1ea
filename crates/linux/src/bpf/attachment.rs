//! Programs at a cgroup of version 2: the kernel runs them for whatever happens in it and below,
//! until they are detached or the cgroup is removed.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use super::call::{Attributes, Command};
use super::{Error, Program};

/// What a program is asked about. It may change the address that a socket is to talk to, or that it
/// is told it talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    Connect4,
    Connect6,
    SendMessage4,
    SendMessage6,
    ReceiveMessage4,
    ReceiveMessage6,
    PeerName4,
    PeerName6,
}

impl Hook {
    /// `BPF_CGROUP_*`.
    pub(super) const fn number(self) -> u32 {
        match self {
            Self::Connect4 => 10,
            Self::Connect6 => 11,
            Self::SendMessage4 => 14,
            Self::SendMessage6 => 15,
            Self::ReceiveMessage4 => 19,
            Self::ReceiveMessage6 => 20,
            Self::PeerName4 => 29,
            Self::PeerName6 => 30,
        }
    }
}

/// `BPF_PROG_TYPE_CGROUP_SOCK_ADDR`.
pub(super) const PROGRAM_KIND: u32 = 18;

/// Others may attach programs here, too, and below.
const ALLOW_MULTI: u32 = 1 << 1;
const REPLACE: u32 = 1 << 2;
/// The kernel takes no more for one hook of one cgroup.
const PROGRAMS_MAX: usize = 64;

/// Adds a program, or puts it in the place of another, so that no call meets neither.
pub fn attach(
    cgroup: &File,
    hook: Hook,
    program: &Program,
    replaced: Option<&Program>,
) -> Result<(), Error> {
    let flags = if replaced.is_some() { ALLOW_MULTI | REPLACE } else { ALLOW_MULTI };
    let mut attributes = Attributes::new()
        .descriptor(0, cgroup.as_raw_fd())
        .descriptor(4, program.descriptor())
        .u32(8, hook.number())
        .u32(12, flags)
        .descriptor(16, replaced.map_or(0, Program::descriptor));
    // SAFETY: there are numbers alone.
    unsafe { attributes.call(Command::ProgramAttach) }
        .map(drop)
        .map_err(|source| Error::call(format!("attach a program to a cgroup ({hook:?})"), source))
}

pub fn detach(cgroup: &File, hook: Hook, program: &Program) -> Result<(), Error> {
    let mut attributes = Attributes::new()
        .descriptor(0, cgroup.as_raw_fd())
        .descriptor(4, program.descriptor())
        .u32(8, hook.number());
    // SAFETY: there are numbers alone.
    unsafe { attributes.call(Command::ProgramDetach) }
        .map(drop)
        .map_err(|source| Error::call(format!("detach a program from a cgroup ({hook:?})"), source))
}

/// The numbers of the programs at this very cgroup, whoever attached them.
pub fn attached(cgroup: &File, hook: Hook) -> Result<Vec<u32>, Error> {
    let mut ids = [0u32; PROGRAMS_MAX];
    let mut attributes = Attributes::new()
        .descriptor(0, cgroup.as_raw_fd())
        .u32(4, hook.number())
        .output(16, &mut ids)
        .u32(24, PROGRAMS_MAX as u32);
    // SAFETY: there is room for as many numbers as it says.
    let result = unsafe { attributes.call(Command::ProgramQuery) };
    result.map_err(|source| {
        Error::call(format!("list the programs of a cgroup ({hook:?})"), source)
    })?;
    let n_attached = usize::try_from(attributes.read_u32(24)).unwrap_or(0).min(PROGRAMS_MAX);
    Ok(ids[..n_attached].to_vec())
}
