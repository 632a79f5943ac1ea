//! Filters of system calls: profiles, their compilation to one BPF program, and installing it
//! (seccomp(2)).
//!
//! Promises: a system call of an architecture that is not listed kills the process; a program's
//! length is a few instructions for each run of neighboring calls with the same answer, and it
//! decides in a binary search.

mod compile;
mod syscalls;
#[cfg(test)]
mod tests;

use std::io;

pub use compile::compile;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    KillProcess,
    KillThread,
    Trap,
    Errno(u16),
    Trace(u16),
    Log,
    Allow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    X86,
    X86_64,
    X32,
    Arm,
    Aarch64,
}

impl Architecture {
    /// That of this program.
    pub const NATIVE: Self =
        if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };
}

/// What is done with each system call.
#[derive(Clone, Debug)]
pub struct Profile {
    /// For calls that no rule matches.
    pub default: Action,
    /// The native one is always among them. X32 and 32-bit Arm are answered with ENOSYS and by
    /// killing, because nobody has programs for them; 32-bit x86 is filtered by the same rules.
    pub architectures: Vec<Architecture>,
    /// For one call, rules with conditions come before those without, and earlier ones before later
    /// ones.
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
pub struct Rule {
    /// Names; those that the architecture does not have are passed over.
    pub syscalls: Vec<String>,
    pub action: Action,
    /// All must hold.
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which argument, 0 to 5.
    pub argument: u8,
    pub test: Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    NotEqual(u64),
    Less(u64),
    LessOrEqual(u64),
    Equal(u64),
    GreaterOrEqual(u64),
    Greater(u64),
    MaskedEqual { mask: u64, value: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("seccomp profile looks at argument {0}; system calls have arguments 0 to 5")]
    NoSuchArgument(u8),
    #[error("seccomp profile compiles to {0} instructions; the kernel takes {max}", max = Program::LENGTH_MAX)]
    TooLong(usize),
}

/// One instruction, laid out as the kernel's `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) operand: u32,
}

/// A compiled profile.
#[derive(Clone, Debug)]
pub struct Program(pub(crate) Vec<Instruction>);

impl Program {
    /// BPF_MAXINSNS.
    const LENGTH_MAX: usize = 4096;

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Filters this thread and what it starts, for ever. Needs CAP_SYS_ADMIN or "no new
    /// privileges".
    pub fn install(&self) -> io::Result<()> {
        const SECCOMP_SET_MODE_FILTER: libc::c_ulong = 1;
        // Without it kernels before 5.16 slow the program down to guard against speculation; runc
        // sets it too.
        const SECCOMP_FILTER_FLAG_SPEC_ALLOW: libc::c_ulong = 1 << 2;
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).map_err(io::Error::other)?,
            filter: self.0.as_ptr().cast_mut().cast(),
        };
        // SAFETY: `Instruction` is laid out as `sock_filter`; the kernel copies the program and
        // writes nothing.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                SECCOMP_SET_MODE_FILTER,
                SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                &raw const program,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
