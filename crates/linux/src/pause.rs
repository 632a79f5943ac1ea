//! The whole life of a process that is there to be the first of a PID namespace: a program of a few
//! machine instructions that waits, while the kernel reaps the orphans that become its children.
//!
//! Whoever may trace it (CAP_SYS_PTRACE) sees all that it has, so it has nothing: it is executed,
//! so that no memory of the process that forked it is left; its root is empty and read-only, and
//! nothing of the host's is mapped; it is nobody, without capabilities, and can gain none; and a
//! filter leaves it hardly any system call, whatever it is made to do. Nobody else sees its memory:
//! the file cannot be read, only executed, and so the kernel lets nobody dump it (execve(2),
//! prctl(2) under PR_SET_DUMPABLE).

use std::ffi::CString;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::process::{Gid, Uid};

use crate::mounts::{self, Attributes, Depth, Detached};
use crate::{capabilities, process, seccomp};

/// As upstream's is called.
const NAME: &str = "pause";
/// The user and group that own nothing, by convention.
const NOBODY: u32 = 65534;

/// `prctl(PR_SET_NAME, "pause"); for (;;) pause();`
#[cfg(target_arch = "x86_64")]
const CODE: &[u8] = b"\xb8\x9d\x00\x00\x00\xbf\x0f\x00\x00\x00\x48\x8d\x35\x0b\x00\x00\x00\x0f\x05\
    \xb8\x22\x00\x00\x00\x0f\x05\xeb\xf7pause\0";
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;

/// `prctl(PR_SET_NAME, "pause"); for (;;) ppoll(0, 0, 0, 0, 0);`
#[cfg(target_arch = "aarch64")]
const CODE: &[u8] = b"\xe8\x14\x80\xd2\xe0\x01\x80\xd2\x41\x01\x00\x10\x01\x00\x00\xd4\
    \x00\x00\x80\xd2\x01\x00\x80\xd2\x02\x00\x80\xd2\x03\x00\x80\xd2\x04\x00\x80\xd2\
    \x28\x09\x80\xd2\x01\x00\x00\xd4\xf9\xff\xff\x17pause\0";
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

const ADDRESS: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

/// An ELF file with one segment, which is executable and not writable (elf(5)).
fn program() -> Vec<u8> {
    let length = HEADERS + CODE.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // Executable, for this machine, version 1.
    for half in [2, MACHINE, 1, 0] {
        file.extend(half.to_le_bytes());
    }
    // Entry, program headers, no section headers; no flags.
    for word in [ADDRESS + HEADERS, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0_u32.to_le_bytes());
    // Sizes and numbers of headers: this one's, one program header, no sections.
    for half in [64_u16, 56, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    // To be loaded, readable and executable.
    for half in [1_u32, 5] {
        file.extend(half.to_le_bytes());
    }
    for word in [0, ADDRESS, ADDRESS, length, length, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(CODE);
    file
}

/// What the program does, what executes it, and what ends it.
const CALLS: &[&str] = &[
    "execveat",
    "exit",
    "exit_group",
    "pause",
    "ppoll",
    "prctl",
    "restart_syscall",
    "rt_sigreturn",
];

fn filter() -> seccomp::Program {
    const EPERM: u16 = 1;
    let allowed = seccomp::Rule {
        syscalls: CALLS.iter().map(|it| (*it).to_owned()).collect(),
        action: seccomp::Action::Allow,
        conditions: Vec::new(),
    };
    let profile = seccomp::Profile {
        default: seccomp::Action::Errno(EPERM),
        architectures: Vec::new(),
        rules: vec![allowed],
    };
    seccomp::compile(&profile).expect("a short profile without conditions compiles")
}

/// Becomes that program, and ends with the parent. The process must be alone in its PID namespace
/// and have mounts of its own that nobody else needs; `place` is a directory to mount the new root
/// on. `kept` closes on exec, and tells by that.
pub fn become_pause(place: BorrowedFd<'_>, kept: BorrowedFd<'_>) -> io::Result<()> {
    let (root, program) = program_alone()?;
    let root = root.attach(place)?;
    mounts::pivot(root.as_fd())?;
    let attributes = Attributes { read_only: Some(true), ..Attributes::default() };
    mounts::set_attributes(root.as_fd(), attributes, Depth::One)?;
    capabilities::limit_bounding(capabilities::Capabilities::NONE)?;
    rustix::thread::set_thread_groups(&[])?;
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    give_up_rights()?;
    process::die_with_parent()?;
    // It may have died before: then nobody is at the other end.
    let mut polled =
        [rustix::event::PollFd::from_borrowed_fd(kept, rustix::event::PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&now))?;
    if polled[0].revents().contains(rustix::event::PollFlags::HUP) {
        return Err(io::Error::other("the parent has ended"));
    }
    execute(program.as_fd(), kept, &[CString::new(format!("/{NAME}"))?])
}

/// Becomes that program, and outlives whoever made it: the first process of a machine within the
/// machine, which keeps its namespaces. It keeps its mounts, since others join it in them, and its
/// user, so that only whoever may do anything can end it from outside; from inside nobody can.
/// `arguments` are for whoever looks at the machine's processes. `kept` as for [`become_pause`].
pub fn become_init(arguments: &[CString], kept: BorrowedFd<'_>) -> io::Result<()> {
    let (_root, program) = program_alone()?;
    capabilities::limit_bounding(capabilities::Capabilities::NONE)?;
    rustix::thread::set_thread_groups(&[])?;
    give_up_rights()?;
    execute(program.as_fd(), kept, arguments)
}

/// For good, and for what is executed.
fn give_up_rights() -> io::Result<()> {
    let none = capabilities::Capabilities::NONE;
    capabilities::set(none, none, none)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Returns only if it could not: the reason cannot be said any more if it was executing itself, but
/// whoever has the other end of `kept` sees the end.
fn execute(program: BorrowedFd<'_>, kept: BorrowedFd<'_>, arguments: &[CString]) -> io::Result<()> {
    process::reset_signals()?;
    // SAFETY: SIG_IGN is a valid disposition, and survives execution. A parent that ignores SIGCHLD
    // has no zombies (waitpid(2)).
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    process::close_descriptors(0, &[kept, program])?;
    filter().install()?;
    Err(process::exec_file(program, arguments, &[]))
}

/// A file system with nothing in it, attached nowhere yet, and the program, which was in it for a
/// moment, and is open.
fn program_alone() -> io::Result<(Detached, OwnedFd)> {
    let options = [("mode", "555"), ("size", "64k"), ("nr_inodes", "16")];
    let options: Vec<_> = options.map(|(key, it)| (key.to_owned(), Some(it.to_owned()))).into();
    let attributes =
        Attributes { no_suid: Some(true), no_devices: Some(true), ..Attributes::default() };
    let root = Detached::new("tmpfs", "tmpfs", &options, attributes).map_err(io::Error::other)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    // Nobody may read it, which is what makes the process one that cannot be dumped.
    let file = rustix::fs::openat(&root, NAME, flags, Mode::from_raw_mode(0o111))?;
    std::fs::File::from(file).write_all(&program())?;
    let program = rustix::fs::openat(&root, NAME, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::unlinkat(&root, NAME, AtFlags::empty())?;
    Ok((root, program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_runs_and_waits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        std::fs::write(&path, program()).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        let mut child = std::process::Command::new(&path).spawn().unwrap();
        let status = || std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let waits = |it: &str| it.contains("Name:\tpause") && it.contains("State:\tS");
        for _ in 0..500 {
            if waits(&status()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(waits(&status()), "{}", status());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
