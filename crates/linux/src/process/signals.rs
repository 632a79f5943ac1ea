//! Signals by number and by the names that images use.

use std::io;

/// A signal's number. Kept as a number because images may ask for real-time signals, which have no
/// names in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(i32);

const NAMES: &[(&str, i32)] = &[
    ("ABRT", libc::SIGABRT),
    ("ALRM", libc::SIGALRM),
    ("BUS", libc::SIGBUS),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("FPE", libc::SIGFPE),
    ("HUP", libc::SIGHUP),
    ("ILL", libc::SIGILL),
    ("INT", libc::SIGINT),
    ("IO", libc::SIGIO),
    ("IOT", libc::SIGABRT),
    ("KILL", libc::SIGKILL),
    ("PIPE", libc::SIGPIPE),
    ("POLL", libc::SIGIO),
    ("PROF", libc::SIGPROF),
    ("PWR", libc::SIGPWR),
    ("QUIT", libc::SIGQUIT),
    ("SEGV", libc::SIGSEGV),
    ("STKFLT", libc::SIGSTKFLT),
    ("STOP", libc::SIGSTOP),
    ("SYS", libc::SIGSYS),
    ("TERM", libc::SIGTERM),
    ("TRAP", libc::SIGTRAP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("VTALRM", libc::SIGVTALRM),
    ("WINCH", libc::SIGWINCH),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
];

/// libc keeps the first two real-time signals to itself, and images count from the third
/// (signal(7)).
const REAL_TIME_MIN: i32 = 34;
const REAL_TIME_MAX: i32 = 64;

impl Signal {
    pub const TERM: Self = Self(libc::SIGTERM);
    pub const KILL: Self = Self(libc::SIGKILL);
    pub const HUP: Self = Self(libc::SIGHUP);
    pub const INT: Self = Self(libc::SIGINT);

    pub fn number(self) -> i32 {
        self.0
    }

    pub fn from_number(number: i32) -> Option<Self> {
        (1..=REAL_TIME_MAX).contains(&number).then_some(Self(number))
    }

    /// `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`, `RTMAX-1`, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse() {
            return Self::from_number(number);
        }
        let name = text.to_ascii_uppercase();
        let name = name.strip_prefix("SIG").unwrap_or(&name);
        if let Some(offset) = name.strip_prefix("RTMIN") {
            return real_time(REAL_TIME_MIN, offset, '+', 1);
        }
        if let Some(offset) = name.strip_prefix("RTMAX") {
            return real_time(REAL_TIME_MAX, offset, '-', -1);
        }
        NAMES.iter().find(|(it, _)| *it == name).map(|(_, number)| Self(*number))
    }
}

fn real_time(base: i32, offset: &str, sign: char, direction: i32) -> Option<Signal> {
    let offset: i32 = match offset.strip_prefix(sign) {
        Some(digits) if digits.bytes().all(|it| it.is_ascii_digit()) => digits.parse().ok()?,
        None if offset.is_empty() => 0,
        _ => return None,
    };
    let number = base.checked_add(offset.checked_mul(direction)?)?;
    (REAL_TIME_MIN..=REAL_TIME_MAX).contains(&number).then_some(Signal(number))
}

/// Every signal to its default, none blocked: what a program expects to be started with. Ignored
/// signals survive execution, and Rust ignores SIGPIPE.
pub fn reset_signals() -> io::Result<()> {
    // The kernel's `struct sigaction` in the form for SIG_DFL: all zero. Not libc's function, which
    // hides two signals.
    const SET_SIZE: usize = 8;
    let default = [0u64; 4];
    for number in 1..=REAL_TIME_MAX {
        // SAFETY: no handler is set, so no code runs; the kernel reads the action and writes
        // nothing. KILL and STOP are refused, which is as well.
        unsafe {
            let none = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), none, SET_SIZE)
        };
    }
    // SAFETY: the set is initialized by sigemptyset before it is read.
    let result = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
