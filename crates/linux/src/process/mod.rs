//! Processes: fork with namespaces, wait and kill by pidfd, execute, and what a process says about
//! itself.
//!
//! A pidfd names one process for ever, a pid does not: hence everything here that reaches another
//! process takes a pidfd.

mod descriptors;
mod huge_pages;
mod identity;
mod memory;
mod sibling;
mod signals;
#[cfg(test)]
mod tests;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd as _, OwnedFd};

pub use descriptors::{descriptor_limit, raise_descriptor_limit};
pub use huge_pages::{allow_huge_pages, refuse_huge_pages};
pub use identity::Identity;
pub use memory::drop_touched_pages;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
pub use rustix::process::Pid;
use rustix::process::{WaitId, WaitIdOptions};
pub use sibling::{SharedPid, Sibling, fork_sibling};
pub use signals::{Signal, reset_signals};

use crate::namespaces::Namespaces;

/// What [`fork`] does besides forking.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneFlags {
    /// Made new for the child.
    pub namespaces: Namespaces,
    /// The child becomes a sibling of the caller, not its child.
    pub sibling: bool,
}

#[derive(Debug)]
pub enum Fork {
    Parent { pid: Pid, pidfd: OwnedFd },
    Child,
}

/// Forks. The child is a copy of the caller and may do anything, because there is one thread: with
/// more the call is refused (a lock that another thread holds would stay locked in the child for
/// ever).
pub fn fork(flags: CloneFlags) -> io::Result<Fork> {
    if thread_count()? != 1 {
        return Err(io::Error::other("fork needs a process with a single thread"));
    }
    let mut pidfd: libc::c_int = -1;
    let mut clone_flags = libc::CLONE_PIDFD as u64 | u64::from(flags.namespaces.bits());
    let mut exit_signal = libc::SIGCHLD as u64;
    if flags.sibling {
        clone_flags |= libc::CLONE_PARENT as u64;
        // clone(2): with CLONE_PARENT the exit signal is the caller's own.
        exit_signal = 0;
    }
    let arguments = CloneArguments {
        flags: clone_flags,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal,
        ..CloneArguments::default()
    };
    // SAFETY: no CLONE_VM and no stack, so the child returns here on a copy of this stack, as after
    // fork(2); the only thread was counted above, so no lock of libc or of the allocator is held by
    // anybody else.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments)) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent {
            pid: i32::try_from(pid)
                .ok()
                .and_then(Pid::from_raw)
                .ok_or_else(|| io::Error::other("clone3 returned no pid"))?,
            // SAFETY: CLONE_PIDFD has stored a new descriptor that nobody else knows.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        }),
    }
}

/// `struct clone_args` of clone(2).
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

pub fn thread_count() -> io::Result<usize> {
    // The directory of the process's threads has a link for each, besides its own two
    // (proc_pid_task(5)).
    let links = rustix::fs::stat("/proc/self/task")?.st_nlink;
    Ok(usize::try_from(links).unwrap_or(usize::MAX).saturating_sub(2))
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Exited(i32),
    Signaled(i32),
}

impl Status {
    /// 128 + n when signal n ended it, as a shell says it.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
        }
    }

    pub fn signal(self) -> Option<i32> {
        match self {
            Self::Exited(_) => None,
            Self::Signaled(signal) => Some(signal),
        }
    }
}

/// Waits for a child to end, and reaps it.
pub fn wait(pidfd: BorrowedFd<'_>) -> io::Result<Status> {
    loop {
        match wait_with(pidfd, WaitIdOptions::EXITED) {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
}

/// Reaps a child that has ended; `None` while it runs. A pidfd is readable when its process has
/// ended.
pub fn try_wait(pidfd: BorrowedFd<'_>) -> io::Result<Option<Status>> {
    wait_with(pidfd, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
}

fn wait_with(pidfd: BorrowedFd<'_>, options: WaitIdOptions) -> io::Result<Option<Status>> {
    let Some(status) = rustix::process::waitid(WaitId::PidFd(pidfd), options)? else {
        return Ok(None);
    };
    Ok(Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exited(code),
        (None, signal) => Status::Signaled(signal.unwrap_or(0)),
    }))
}

/// Sends a signal to the process, whatever its pid is by now. A process that has ended counts as
/// killed.
pub fn kill(pidfd: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    // SAFETY: the third argument, a siginfo, may be null (pidfd_send_signal(2)); no memory is
    // touched.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal.number(),
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    match result {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            err if err.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            err => Err(err),
        },
    }
}

pub fn open(pid: Pid) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Whether it has ended, be it reaped or not. Once true it stays so.
pub fn has_ended(pidfd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut ready = [PollFd::new(&pidfd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(rustix::io::retry_on_intr(|| poll(&mut ready, Some(&at_once)))? > 0)
}

/// The kernel sends this process SIGKILL when its parent ends. Lost when the process changes its
/// user (prctl(2)), so it is set after that.
pub fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Orphans below this process become its children.
pub fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// A session of its own: no controlling terminal, and signals of ours do not reach it.
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Nobody without CAP_SYS_PTRACE sees the memory, descriptors or executable of this process.
/// Executing undoes it.
pub fn hide() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}

/// A session keyring of its own, so that keys of the caller's are out of reach.
pub fn new_session_keyring() -> io::Result<()> {
    // SAFETY: a null name makes an anonymous keyring (keyctl(2)); no memory is touched.
    let result = unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Replaces this process. Returns only the reason why it could not.
pub fn exec(program: &CString, arguments: &[CString], environment: &[CString]) -> io::Error {
    let arguments = null_terminated(arguments);
    let environment = null_terminated(environment);
    // SAFETY: all are null-terminated arrays of null-terminated strings that live until the call
    // returns.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// The same by a descriptor, which may be one that only names the file.
pub fn exec_file(
    program: BorrowedFd<'_>,
    arguments: &[CString],
    environment: &[CString],
) -> io::Error {
    let arguments = null_terminated(arguments);
    let environment = null_terminated(environment);
    // SAFETY: as for `exec`; the path is empty, and the descriptor is open.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}

/// As [`exec_file`], with these descriptors at 0, 1, 2 and so on. When it returns, the numbers of
/// descriptors are not what they were, but for `kept`, which is open at a number of its own: nothing
/// is left to do but to say why, there, and to end.
pub fn exec_with(
    (program, kept): (BorrowedFd<'_>, &mut OwnedFd),
    descriptors: &[BorrowedFd<'_>],
    arguments: &[CString],
    environment: &[CString],
) -> io::Error {
    let mut place = || -> rustix::io::Result<OwnedFd> {
        let beyond = i32::try_from(descriptors.len()).unwrap_or(i32::MAX);
        let copy = |it: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(it, beyond);
        let program = copy(program)?;
        // Not dropped: its number may be one of those that are about to change.
        let old = std::mem::replace(kept, copy(kept.as_fd())?);
        let _ = old.into_raw_fd();
        let copies =
            descriptors.iter().map(|it| copy(*it)).collect::<rustix::io::Result<Vec<_>>>()?;
        for (number, copy) in (0..).zip(copies) {
            // SAFETY: whatever is at `number` is replaced, also under Rust values that own it; the
            // caller does not use those any more, which the documentation demands.
            if unsafe { libc::dup2(copy.as_raw_fd(), number) } < 0 {
                return Err(rustix::io::Errno::BADF);
            }
        }
        Ok(program)
    };
    match place() {
        Ok(program) => exec_file(program.as_fd(), arguments, environment),
        Err(err) => err.into(),
    }
}

/// The descriptors from 3 on that this program was executed with: the first thing that it asks for,
/// and only once. They are closed when something else is executed.
pub fn inherited(count: usize) -> io::Result<Vec<OwnedFd>> {
    let last = i32::try_from(count).map_or(i32::MAX, |it| it.saturating_add(3));
    let take = |number| {
        // SAFETY: only looked at; if nothing is open there, that is an error.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
        // SAFETY: it is open, and whoever executed this program has given it to nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    };
    (3..last).map(take).collect()
}

/// Whether it is a child of this process, ended or not, that was not reaped yet.
pub fn is_child(pidfd: BorrowedFd<'_>) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::PidFd(pidfd), options).is_ok()
}

fn null_terminated(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|it| it.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Ends this process at once: no destructors, no exit handlers. The right end of a forked child,
/// whose copies of the parent's buffers must not be flushed twice.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor from `first` on, but `kept`.
pub fn close_descriptors(first: u32, kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut kept: Vec<u32> =
        kept.iter().filter_map(|it| u32::try_from(it.as_raw_fd()).ok()).collect();
    kept.sort_unstable();
    let mut start = first;
    for fd in kept {
        if fd > start {
            close_range(start, fd - 1)?;
        }
        start = start.max(fd + 1);
    }
    close_range(start, u32::MAX)
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: descriptors owned by Rust values are closed under them; the callers are about to
    // execute or to exit and do not use those values any more, which their documentation demands.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Places `fd` at `number` without close-on-exec; used for the standard streams of what is executed
/// next.
pub fn place_descriptor(fd: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        return Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?);
    }
    // SAFETY: dup2 replaces whatever is at `number`; callers use 0 to 2 only, which Rust never
    // owns.
    let result = unsafe { libc::dup2(fd.as_raw_fd(), number) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
