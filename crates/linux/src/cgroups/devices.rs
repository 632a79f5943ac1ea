//! Which devices may be made, read and written: files on version 1, a small eBPF program on version
//! 2.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

use super::{Error, write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    Any,
    Block,
    Character,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub read: bool,
    pub write: bool,
    pub make: bool,
}

impl Access {
    pub const ALL: Self = Self { read: true, write: true, make: true };
    pub const MAKE: Self = Self { read: false, write: false, make: true };

    /// From letters of `rwm`.
    pub fn parse(text: &str) -> Self {
        Self { read: text.contains('r'), write: text.contains('w'), make: text.contains('m') }
    }

    fn letters(self) -> String {
        [(self.read, 'r'), (self.write, 'w'), (self.make, 'm')]
            .iter()
            .filter(|(has, _)| *has)
            .map(|(_, letter)| *letter)
            .collect()
    }

    /// BPF_DEVCG_ACC_* of linux/bpf.h.
    fn bits(self) -> i32 {
        i32::from(self.make) | i32::from(self.read) << 1 | i32::from(self.write) << 2
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRule {
    pub allow: bool,
    pub kind: DeviceKind,
    /// `None`: all.
    pub major: Option<u32>,
    pub minor: Option<u32>,
    pub access: Access,
}

/// A rule for everything replaces the list; others add to it.
pub(super) fn apply_v1(directory: &Path, rules: &[DeviceRule]) -> Result<(), Error> {
    for rule in rules {
        let file = directory.join(if rule.allow { "devices.allow" } else { "devices.deny" });
        let number = |it: Option<u32>| it.map_or_else(|| "*".to_owned(), |it| it.to_string());
        let kind = match rule.kind {
            DeviceKind::Any => {
                write(&file, "a")?;
                continue;
            }
            DeviceKind::Block => 'b',
            DeviceKind::Character => 'c',
        };
        let (major, minor) = (number(rule.major), number(rule.minor));
        write(&file, &format!("{kind} {major}:{minor} {}", rule.access.letters()))?;
    }
    Ok(())
}

pub(super) fn apply_v2(directory: &Path, rules: &[DeviceRule]) -> Result<(), Error> {
    let attach = || -> io::Result<()> {
        let program = load(&compile(rules))?;
        let cgroup = std::fs::File::open(directory)?;
        // All programs from here to the root must allow; ours is the only one here.
        let mut attributes = AttachAttributes {
            target: cgroup.as_raw_fd().cast_unsigned(),
            program: program.as_raw_fd().cast_unsigned(),
            kind: BPF_CGROUP_DEVICE,
            flags: 0,
        };
        bpf(BPF_PROG_ATTACH, (&raw mut attributes).cast(), size_of_val(&attributes))?;
        Ok(())
    };
    attach().map_err(|source| Error::Devices { path: directory.to_owned(), source })
}

const BPF_PROG_LOAD: i32 = 5;
const BPF_PROG_ATTACH: i32 = 8;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

#[repr(C)]
struct LoadAttributes {
    kind: u32,
    length: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
struct AttachAttributes {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

fn bpf(command: i32, attributes: *mut libc::c_void, size: usize) -> io::Result<i64> {
    // SAFETY: callers hand over a prefix of `union bpf_attr` of this size, whose pointers are valid
    // for the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"Apache-2.0";
    let mut attributes = LoadAttributes {
        kind: BPF_PROG_TYPE_CGROUP_DEVICE,
        length: u32::try_from(program.len()).map_err(io::Error::other)?,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buffer: 0,
        kernel_version: 0,
        flags: 0,
    };
    let fd = bpf(BPF_PROG_LOAD, (&raw mut attributes).cast(), size_of_val(&attributes))?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The context (register 1) is `struct bpf_cgroup_dev_ctx`: kind in the lower and access in the
/// upper half of the first word, then major and minor. The last rule that matches decides; the
/// program returns 1 to allow.
fn compile(rules: &[DeviceRule]) -> Vec<Instruction> {
    const LOAD_WORD: u8 = 0x61;
    const MOVE: u8 = 0xbc;
    const MOVE_IMMEDIATE: u8 = 0xb7;
    const AND: u8 = 0x54;
    const SHIFT_RIGHT: u8 = 0x74;
    const JUMP_NOT_EQUAL: u8 = 0x55;
    const JUMP_NOT_EQUAL_REGISTER: u8 = 0x5d;
    const EXIT: u8 = 0x95;
    const BLOCK: i32 = 1;
    const CHARACTER: i32 = 2;
    let insn = |code: u8, to: u8, from: u8, offset: i16, immediate: i32| Instruction {
        code,
        registers: to | from << 4,
        offset,
        immediate,
    };
    // r2: kind, r3: access, r4: major, r5: minor, r6: scratch.
    let mut code = vec![
        insn(LOAD_WORD, 2, 1, 0, 0),
        insn(MOVE, 3, 2, 0, 0),
        insn(AND, 2, 0, 0, 0xffff),
        insn(SHIFT_RIGHT, 3, 0, 0, 16),
        insn(LOAD_WORD, 4, 1, 4, 0),
        insn(LOAD_WORD, 5, 1, 8, 0),
    ];
    for rule in rules.iter().rev() {
        // From the end of the rule to its start, so that the distance to the end is known.
        let mut block =
            vec![insn(EXIT, 0, 0, 0, 0), insn(MOVE_IMMEDIATE, 0, 0, 0, i32::from(rule.allow))];
        let distance = |block: &Vec<Instruction>| i16::try_from(block.len()).unwrap_or(i16::MAX);
        let mut unless = |register: u8, value: Option<i32>| {
            if let Some(value) = value {
                block.push(insn(JUMP_NOT_EQUAL, register, 0, distance(&block), value));
            }
        };
        unless(5, rule.minor.map(u32::cast_signed));
        unless(4, rule.major.map(u32::cast_signed));
        unless(
            2,
            match rule.kind {
                DeviceKind::Any => None,
                DeviceKind::Block => Some(BLOCK),
                DeviceKind::Character => Some(CHARACTER),
            },
        );
        if rule.access != Access::ALL {
            // Everything that is asked for must be in the rule: (asked & rule) == asked.
            block.push(insn(JUMP_NOT_EQUAL_REGISTER, 6, 3, distance(&block), 0));
            block.push(insn(AND, 6, 0, 0, rule.access.bits()));
            block.push(insn(MOVE, 6, 3, 0, 0));
        }
        code.extend(block.into_iter().rev());
        if rule.kind == DeviceKind::Any && rule.access == Access::ALL {
            // What comes after cannot be reached, and the kernel refuses such code.
            return code;
        }
    }
    code.extend([insn(MOVE_IMMEDIATE, 0, 0, 0, 0), insn(EXIT, 0, 0, 0, 0)]);
    code
}
