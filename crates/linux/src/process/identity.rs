//! One process, named so that the name can be written down: a pid comes again, a pid with the
//! moment at which its process started does not, within one boot of the machine.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::Errno;

use super::Pid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pid: i32,
    /// In clock ticks since the machine was booted (proc_pid_stat(5), field 22).
    pub start_time: u64,
    /// The kernel's random name for this boot.
    pub boot: String,
}

impl Identity {
    pub fn own() -> io::Result<Self> {
        Self::of(rustix::process::getpid())
    }

    /// Of a process that surely lives while this is called.
    pub fn of(pid: Pid) -> io::Result<Self> {
        let pid = pid.as_raw_nonzero().get();
        let start_time = start_time(pid)?.ok_or_else(|| io::Error::from(Errno::SRCH))?;
        Ok(Self { pid, start_time, boot: boot()? })
    }

    /// `None`: it has ended, be it reaped or not.
    pub fn open(&self) -> io::Result<Option<OwnedFd>> {
        let pid = if self.pid > 0 { Pid::from_raw(self.pid) } else { None };
        let Some(pid) = pid else { return Ok(None) };
        if boot()? != self.boot {
            return Ok(None);
        }
        let pidfd = match super::open(pid) {
            Ok(pidfd) => pidfd,
            Err(err) if is_gone(&err) => return Ok(None),
            Err(err) => return Err(err),
        };
        // Read after the descriptor was opened: if the number had been given to another process in
        // between, that one started later.
        let is_same = start_time(self.pid)? == Some(self.start_time);
        Ok((is_same && !super::has_ended(pidfd.as_fd())?).then_some(pidfd))
    }
}

/// pidfd_open(2): EINVAL for a number that is no process but a thread's, such as one that came
/// again.
fn is_gone(err: &io::Error) -> bool {
    [Errno::SRCH, Errno::INVAL].iter().any(|it| err.raw_os_error() == Some(it.raw_os_error()))
}

fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// `None`: there is no such process.
fn start_time(pid: i32) -> io::Result<Option<u64>> {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => match parse_start_time(&stat) {
            Some(time) => Ok(Some(time)),
            None => Err(io::Error::other(format!("/proc/{pid}/stat has no start time"))),
        },
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        // It ended while the file was open.
        Err(err) if err.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(err) => Err(err),
    }
}

/// The second field, the program's name, is in parentheses and may have any byte in it: fields are
/// counted from the last parenthesis on.
fn parse_start_time(stat: &[u8]) -> Option<u64> {
    const FIELD: usize = 22;
    const FIRST_AFTER_NAME: usize = 3;
    let name_end = stat.iter().rposition(|it| *it == b')')?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(FIELD - FIRST_AFTER_NAME)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let check = |name: &str, expected: Option<u64>| {
            let stat = format!(
                "17 ({name}) S 1 17 17 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 9 10 18446744073709551615"
            );
            assert_eq!(parse_start_time(stat.as_bytes()), expected, "{name:?}");
        };
        check("xebec", Some(123_456));
        check("a) S 1 (b", Some(123_456));
        assert_eq!(parse_start_time(b""), None);
        assert_eq!(parse_start_time(b"17 (x) S 1"), None);
    }

    #[test]
    fn a_process_is_found_as_long_as_it_lives() {
        let own = Identity::own().unwrap();
        assert!(own.open().unwrap().is_some());
        let other = |change: fn(&mut Identity)| {
            let mut it = own.clone();
            change(&mut it);
            it.open().unwrap().is_some()
        };
        assert!(!other(|it| it.start_time += 1), "another process with its number");
        assert!(!other(|it| it.boot.push('0')), "before the machine was booted");
        assert!(!other(|it| it.pid = 0));
        assert!(!other(|it| it.pid = -1));
        assert!(!other(|it| it.pid = i32::MAX));
    }

    #[test]
    fn one_that_has_ended_is_gone_though_nobody_has_reaped_it() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let identity = Identity::of(pid).unwrap();
        let pidfd = identity.open().unwrap().unwrap();
        child.kill().unwrap();
        let mut ended = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut ended, None).unwrap();
        assert!(identity.open().unwrap().is_none());
        child.wait().unwrap();
        assert!(identity.open().unwrap().is_none());
    }
}
