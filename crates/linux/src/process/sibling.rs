//! A child that belongs to somebody else: the caller's parent gets it, and learns of it without a
//! word being said.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

use super::Pid;

/// A number that is the same for a process, all that it forks afterwards, and whoever has its file.
#[derive(Debug)]
pub struct SharedPid {
    number: NonNull<AtomicI32>,
    file: Option<OwnedFd>,
}

impl SharedPid {
    pub fn new() -> io::Result<Self> {
        let file = rustix::fs::memfd_create("pid", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, size_of::<AtomicI32>() as u64)?;
        let number = map(&file)?;
        Ok(Self { number, file: Some(file) })
    }

    /// The one that another process has made. The file is not needed any more.
    pub fn from_file(file: OwnedFd) -> io::Result<Self> {
        Ok(Self { number: map(&file)?, file: None })
    }

    /// For a program that is executed: memory does not outlive that, a descriptor can.
    pub fn into_file(mut self) -> Option<OwnedFd> {
        self.file.take()
    }

    /// The number stays. For those who close descriptors by their numbers.
    pub fn close_file(&mut self) {
        self.file = None;
    }

    /// `None` until something was forked.
    pub fn get(&self) -> Option<Pid> {
        // SAFETY: mapped, zeroed and aligned by mmap(2) for as long as this lives; other processes
        // write it as a whole.
        Pid::from_raw(unsafe { self.number.as_ref() }.load(Ordering::Acquire))
    }
}

fn map(file: &OwnedFd) -> io::Result<NonNull<AtomicI32>> {
    // What is beyond the end of the file cannot be touched.
    let length = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    if length < size_of::<AtomicI32>() as u64 {
        return Err(io::Error::other("there is no room for a pid"));
    }
    // SAFETY: a new mapping, at no address in particular, of a file that has as many bytes.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<AtomicI32>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(mapped.cast()).ok_or_else(|| io::Error::other("mmap returned null"))
}

impl Drop for SharedPid {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this size, and nobody else in this process has its address.
        unsafe { libc::munmap(self.number.as_ptr().cast(), size_of::<AtomicI32>()) };
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
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, told.number.as_ptr(), 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Sibling::Younger),
        _ => Ok(Sibling::Elder),
    }
}
