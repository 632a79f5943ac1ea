//! eBPF by bpf(2) itself: programs from an assembler with labels, maps, and programs at a cgroup.
//!
//! Promises: what is attached and what is in maps stays when this process ends; every refusal says
//! what was being done, that of a program with the verifier's own words. Numbers are those of
//! `linux/bpf.h`.

mod assembler;
mod attachment;
mod call;
mod instruction;
mod map;
mod program;

use std::io;

pub use assembler::{Assembler, Label};
pub use attachment::{Hook, attach, attached, detach};
pub use instruction::{Code, Condition, Helper, Operand, Operation, Register, Size};
pub use map::{Entries, Map, MapFormat, MapKind};
pub use program::{Program, ProgramDescription};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{doing}")]
    Call {
        doing: String,
        #[source]
        source: io::Error,
    },
    #[error("the kernel refuses program {name}: {log}")]
    Verify {
        name: String,
        log: String,
        #[source]
        source: io::Error,
    },
    #[error("a jump to {label:?}, which is nowhere")]
    Unbound { label: Label },
    #[error("{label:?} is in two places")]
    BoundTwice { label: Label },
    #[error("the jump at {from} to {label:?} at {to} is too far")]
    TooFar { from: usize, to: usize, label: Label },
    #[error("{name:?} is no name: up to {NAME_MAX} letters, digits, underscores and dots")]
    Name { name: String },
    #[error("map {map} has keys of {key} bytes and values of {value}, not {given}")]
    Length { map: String, key: usize, value: usize, given: usize },
}

/// `BPF_OBJ_NAME_LEN`, without the zero at the end.
pub const NAME_MAX: usize = 15;

impl Error {
    fn call(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Call { doing: doing.into(), source }
    }

    /// The kernel's number, where it was the kernel who refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { source, .. } | Self::Verify { source, .. } => source.raw_os_error(),
            Self::Unbound { .. }
            | Self::BoundTwice { .. }
            | Self::TooFar { .. }
            | Self::Name { .. }
            | Self::Length { .. } => None,
        }
    }

    /// Whether the kernel answered with this error number.
    pub fn is(&self, errno: rustix::io::Errno) -> bool {
        self.errno() == Some(errno.raw_os_error())
    }
}
