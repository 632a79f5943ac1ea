//! What the worker gives up before it reads the first byte that somebody else has sent: it has the
//! descriptors that it is given, and may make sockets of IP, and that is all.

use std::io;

use linux::seccomp::{self, Action, Condition, Profile, Rule, Test};
use linux::{capabilities, process};
use rustix::process::{Gid, Uid};
use rustix::thread;

/// Nobody else's: neither a user's, nor one that Debian, systemd or containers give away.
const ID: u32 = 81_850;

/// What its sockets, pipes, memory and waiting take.
const CALLS: &[&str] = &[
    "accept4",
    "bind",
    "brk",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "connect",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "exit",
    "exit_group",
    "fcntl",
    "futex",
    "getpeername",
    "getpid",
    "getrandom",
    "getsockname",
    "getsockopt",
    "gettid",
    "ioctl",
    "listen",
    "madvise",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "pipe2",
    "poll",
    "ppoll",
    "read",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "restart_syscall",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_yield",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "sigaltstack",
    "splice",
    "write",
    "writev",
];
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const EPERM: u16 = 1;

/// Of this thread, and of those that it starts.
pub(super) fn give_up() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        let none = capabilities::Capabilities::NONE;
        capabilities::limit_bounding(none)?;
        thread::set_thread_groups(&[])?;
        let (uid, gid) = (Uid::from_raw(ID), Gid::from_raw(ID));
        thread::set_thread_res_gid(gid, gid, gid)?;
        thread::set_thread_res_uid(uid, uid, uid)?;
        capabilities::set(none, none, none)?;
    }
    thread::set_no_new_privs(true)?;
    process::hide()?;
    let filter = seccomp::compile(&profile()).map_err(io::Error::other)?;
    filter.install()
}

fn profile() -> Profile {
    let allow = |calls: &[&str], conditions| Rule {
        syscalls: calls.iter().map(|it| (*it).to_owned()).collect(),
        action: Action::Allow,
        conditions,
    };
    let of = |family| vec![Condition { argument: 0, test: Test::Equal(family) }];
    let sockets = [AF_INET, AF_INET6].map(|it| allow(&["socket"], of(it)));
    let rules = sockets.into_iter().chain([allow(CALLS, Vec::new())]).collect();
    Profile { default: Action::Errno(EPERM), architectures: Vec::new(), rules }
}
