//! The whole life of a process that is there to be the first of a PID namespace.

use crate::process;

/// Waits for the end of its parent, while the kernel reaps the orphans that become its children. Only in a forked child.
pub fn run() -> ! {
    // The parent's sockets and pipes must end with the parent.
    let _ = process::close_descriptors(0, &[]);
    // SAFETY: SIG_IGN is a valid disposition. A parent that ignores SIGCHLD has no zombies (waitpid(2)).
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    if process::die_with_parent().is_err() {
        process::exit_now(1);
    }
    let _ = process::drop_touched_pages();
    loop {
        // SAFETY: pause(2) has no preconditions.
        unsafe { libc::pause() };
    }
}
