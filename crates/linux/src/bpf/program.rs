//! Programs that the kernel has checked.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;

use super::attachment::{Hook, PROGRAM_KIND};
use super::call::{Attributes, Command, describe, name_at, u32_at};
use super::{Code, Error};

/// Bound of what is kept of the verifier's words.
const LOG_MAX: usize = 1 << 20;
/// Lines of them that an error carries: the last say what was wrong.
const LOG_LINES: usize = 12;
/// `struct bpf_prog_info`, as far as it is read.
const DESCRIPTION: usize = 80;
/// More maps than any program here has.
const MAPS_MAX: usize = 64;
/// No helper that is used here asks for another.
const LICENSE: &[u8] = b"Apache-2.0\0";

#[derive(Debug)]
pub struct Program {
    descriptor: OwnedFd,
}

/// What the kernel says of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramDescription {
    pub id: u32,
    pub name: String,
    /// A hash of the instructions, in which all maps are alike.
    pub tag: [u8; 8],
    /// Of the maps that it uses, sorted.
    pub maps: Vec<u32>,
}

impl Program {
    /// A refusal of the code has the verifier's last lines.
    pub fn load(name: &str, hook: Hook, code: &Code) -> Result<Self, Error> {
        let source = match Self::try_load(name, hook, code, None)? {
            Ok(descriptor) => return Ok(Self { descriptor }),
            Err(err) => err,
        };
        // Words are slow to make, so they are asked for when there is something to say.
        let mut log = vec![0; LOG_MAX];
        if let Ok(descriptor) = Self::try_load(name, hook, code, Some(&mut log))? {
            return Ok(Self { descriptor });
        }
        let log: Vec<u8> = log.into_iter().take_while(|it| *it != 0).collect();
        let log = String::from_utf8_lossy(&log);
        if log.trim().is_empty() {
            return Err(Error::call(format!("load program {name} ({hook:?})"), source));
        }
        let lines: Vec<_> = log.trim().lines().rev().take(LOG_LINES).collect();
        let log = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
        Err(Error::Verify { name: name.to_owned(), log, source })
    }

    fn try_load(
        name: &str,
        hook: Hook,
        code: &Code,
        log: Option<&mut [u8]>,
    ) -> Result<io::Result<OwnedFd>, Error> {
        let length = u32::try_from(code.n_instructions()).unwrap_or(u32::MAX);
        let mut attributes = Attributes::new()
            .u32(0, PROGRAM_KIND)
            .u32(4, length)
            .input(8, code.as_bytes())
            .input(16, LICENSE)
            .name(48, name)?
            .u32(68, hook.number());
        if let Some(log) = log {
            let length = u32::try_from(log.len()).unwrap_or(u32::MAX);
            attributes = attributes.u32(24, 1).u32(28, length).output(32, log);
        }
        // SAFETY: there are as many instructions as the count says, the licence ends with a zero,
        // and the log has room for its length.
        Ok(unsafe { attributes.open(Command::ProgramLoad) })
    }

    /// `None`: it is gone.
    pub fn by_id(id: u32) -> Result<Option<Self>, Error> {
        // SAFETY: there are numbers alone.
        match unsafe { Attributes::new().u32(0, id).open(Command::ProgramById) } {
            Ok(descriptor) => Ok(Some(Self { descriptor })),
            Err(err) if err.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
            Err(source) => Err(Error::call(format!("open program {id}"), source)),
        }
    }

    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    pub fn describe(&self) -> Result<ProgramDescription, Error> {
        let mut maps = [0u32; MAPS_MAX];
        let mut description = [0u8; DESCRIPTION];
        description[52..56].copy_from_slice(&(MAPS_MAX as u32).to_ne_bytes());
        description[56..64].copy_from_slice(&(maps.as_mut_ptr() as u64).to_ne_bytes());
        // SAFETY: the description points to an array of as many maps as it says, and to nothing
        // else.
        unsafe { describe(self.descriptor(), &mut description) }
            .map_err(|source| Error::call("look at a program", source))?;
        let n_maps = usize::try_from(u32_at(&description, 52)).unwrap_or(0).min(MAPS_MAX);
        let mut maps = maps[..n_maps].to_vec();
        maps.sort_unstable();
        let mut tag = [0; 8];
        tag.copy_from_slice(&description[8..16]);
        Ok(ProgramDescription {
            id: u32_at(&description, 4),
            name: name_at(&description, 64),
            tag,
            maps,
        })
    }
}
