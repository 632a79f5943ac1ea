//! A child that belongs to somebody else: the caller's parent gets it, and learns of it without a
//! word being said.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

use super::Pid;

/// A number that is the same for a process and all that it forks afterwards.
#[derive(Debug)]
pub struct SharedPid(NonNull<AtomicI32>);

impl SharedPid {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a new mapping, at no address in particular, of memory that no file stands for.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<AtomicI32>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(mapped.cast()).map(Self).ok_or_else(|| io::Error::other("mmap returned null"))
    }

    /// `None` until something was forked.
    pub fn get(&self) -> Option<Pid> {
        // SAFETY: mapped, zeroed and aligned by mmap(2) for as long as this lives; other processes
        // write it as a whole.
        Pid::from_raw(unsafe { self.0.as_ref() }.load(Ordering::Acquire))
    }
}

impl Drop for SharedPid {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size, and nobody else in this process has its address.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<AtomicI32>()) };
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Sibling {
    /// This is the process that forked.
    Elder,
    /// This is the new one.
    Younger,
}

/// Forks a child of the caller's parent, in the PID namespace that the caller has joined for its
/// children. The kernel writes its pid to `told`, as the caller sees it, before it runs. The caller
/// has a single thread; nothing but clone(2) is called, so that a filter of system calls has little
/// to object to.
pub fn fork_sibling(told: &SharedPid) -> io::Result<Sibling> {
    let flags = libc::CLONE_PARENT | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
    // SAFETY: no CLONE_VM and no stack, so the child returns here on a copy of this stack, as after
    // fork(2); the third argument is an aligned number that outlives the call, the others are not
    // looked at without their flags.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, told.0.as_ptr(), 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Sibling::Younger),
        _ => Ok(Sibling::Elder),
    }
}
