//! Finding and executing the program, with its directory and limits.

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use linux::process::{self, Sibling};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Access, AtFlags, FileType, Mode};
use rustix::process::{Resource, Rlimit};

use super::Beside;
use super::identity::{self, Identity};
use super::refusal::{OrRefuse as _, Refusal, Result, describe};
use crate::spec::{self, Spec};

/// What is left to do when everything else is.
pub(super) struct Last<'a> {
    pub(super) report: BorrowedFd<'a>,
    /// Standard input is to be the session's terminal.
    pub(super) terminal: bool,
    /// Another process executes; see the header of [`super`].
    pub(super) beside: Option<Beside>,
}

/// The last part of becoming a program, the same for a container and for a command in it. The root
/// is the container's, the standard streams are in place, and nothing else of the host's is open
/// but the report.
pub(super) fn become_program(
    spec: &Spec,
    args: &[String],
    identity: &Identity,
    last: Last<'_>,
) -> Result<std::convert::Infallible> {
    let sets = identity::parse_capabilities(&spec.process.capabilities)?;
    let filter = spec.linux.seccomp.as_ref().map(compile).transpose()?;
    let install = |filter: &Option<linux::seccomp::Program>| match filter {
        Some(filter) => {
            filter.install().or_refuse(|| "unable to install seccomp filter".to_owned())
        }
        None => Ok(()),
    };
    set_limits(&spec.process.rlimits)?;
    // Root may enter directories that the user may not, and the other way round on network file
    // systems.
    let has_entered = enter(&spec.process.cwd).is_ok();
    identity::limit(&sets)?;
    let is_confined = spec.process.no_new_privileges;
    if is_confined {
        rustix::thread::set_no_new_privs(true).or_refuse(|| "no new privileges".to_owned())?;
    } else {
        // Without "no new privileges" it takes CAP_SYS_ADMIN, which is about to go.
        install(&filter)?;
    }
    identity::assume(identity, &sets)?;
    if !has_entered {
        enter(&spec.process.cwd)?;
    }
    rustix::process::umask(Mode::from_raw_mode(spec.process.user.umask.unwrap_or(0o022)));
    let environment = environment(spec, identity);
    let program = find(args, &environment)?;
    let arguments = c_strings(args)?;
    let variables = c_strings(&environment)?;
    let path =
        CString::new(program.clone()).map_err(|_| Refusal("null byte in path".to_owned()))?;
    last.appear()?;
    process::reset_signals().or_refuse(|| "reset signals".to_owned())?;
    if is_confined {
        install(&filter)?;
    }
    let err = process::exec(&path, &arguments, &variables);
    Err(Refusal(format!("exec {program}: {}", describe(&err))))
}

fn compile(profile: &spec::Seccomp) -> Result<linux::seccomp::Program> {
    profile.compile().map_err(|err| Refusal(stdx::error_chain(&err)))
}

impl Last<'_> {
    /// From here on this process may be seen by others in the container, and dies with the holder.
    fn appear(self) -> Result<()> {
        if let Some(beside) = &self.beside {
            // Changing the user has left it to fs.suid_dumpable (prctl(2)).
            process::hide().or_refuse(|| "hide from the container".to_owned())?;
            match process::fork_sibling(&beside.told).or_refuse(|| "fork".to_owned())? {
                Sibling::Elder => process::exit_now(0),
                Sibling::Younger => {}
            }
            process::new_session().or_refuse(|| "setsid".to_owned())?;
        }
        if self.terminal {
            linux::terminal::make_controlling(rustix::stdio::stdin())
                .or_refuse(|| "open a terminal".to_owned())?;
        }
        process::die_with_parent().or_refuse(|| "die with the holder".to_owned())?;
        // It may have died before: then nobody reads what we report.
        let mut polled = [PollFd::from_borrowed_fd(self.report, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now))
            .or_refuse(|| "look for the holder".to_owned())?;
        if polled[0].revents().contains(PollFlags::ERR) {
            return Err(Refusal("the holder has ended".to_owned()));
        }
        Ok(())
    }
}

/// The directory must be inside the root: one that was reached through a leaked descriptor has no
/// path here (CVE-2024-21626).
fn enter(directory: &str) -> Result<()> {
    rustix::process::chdir(directory)
        .or_refuse(|| format!("chdir to cwd ({directory:?}) set in config.json failed"))?;
    let here = rustix::process::getcwd(Vec::new()).or_refuse(|| {
        format!(
            "current working directory {directory:?} is outside of container mount namespace root"
        )
    })?;
    if here.to_bytes().first() != Some(&b'/') {
        return Err(Refusal(
            "current working directory is outside of container mount namespace root -- possible container breakout detected".to_owned(),
        ));
    }
    Ok(())
}

/// `HOME` is the user's unless something else was asked for.
fn environment(spec: &Spec, identity: &Identity) -> Vec<String> {
    let mut environment = spec.process.env.clone();
    if !environment.iter().any(|it| it.starts_with("HOME=")) {
        environment.push(format!("HOME={}", identity.home));
    }
    environment
}

/// As Go's `exec.LookPath` finds it, whose messages users know.
fn find(args: &[String], environment: &[String]) -> Result<String> {
    let Some(name) = args.first() else {
        return Err(Refusal("no command specified".to_owned()));
    };
    if name.contains('/') {
        return match is_executable(name) {
            Ok(()) => Ok(name.clone()),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
                Err(Refusal(format!("exec: {name:?}: stat {name}: no such file or directory")))
            }
            Err(err) => Err(Refusal(format!("exec: {name:?}: {}", describe(&err.into())))),
        };
    }
    let path = environment.iter().find_map(|it| it.strip_prefix("PATH=")).unwrap_or_default();
    for directory in path.split(':').filter(|_| !name.is_empty()) {
        let directory = if directory.is_empty() { "." } else { directory };
        let candidate = format!("{directory}/{name}");
        if is_executable(&candidate).is_ok() {
            return Ok(candidate);
        }
    }
    Err(Refusal(format!("exec: {name:?}: executable file not found in $PATH")))
}

fn is_executable(path: &str) -> rustix::io::Result<()> {
    let stat = rustix::fs::stat(path)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Err(rustix::io::Errno::ISDIR);
    }
    rustix::fs::accessat(rustix::fs::CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
}

fn c_strings(texts: &[String]) -> Result<Vec<CString>> {
    texts
        .iter()
        .map(|it| {
            CString::new(it.as_str()).map_err(|_| Refusal("null byte in an argument".to_owned()))
        })
        .collect()
}

fn set_limits(limits: &[spec::Rlimit]) -> Result<()> {
    for limit in limits {
        let doing = || format!("setrlimit {}", limit.kind);
        let resource = match limit.kind.as_str() {
            "RLIMIT_AS" => Resource::As,
            "RLIMIT_CORE" => Resource::Core,
            "RLIMIT_CPU" => Resource::Cpu,
            "RLIMIT_DATA" => Resource::Data,
            "RLIMIT_FSIZE" => Resource::Fsize,
            "RLIMIT_LOCKS" => Resource::Locks,
            "RLIMIT_MEMLOCK" => Resource::Memlock,
            "RLIMIT_MSGQUEUE" => Resource::Msgqueue,
            "RLIMIT_NICE" => Resource::Nice,
            "RLIMIT_NOFILE" => Resource::Nofile,
            "RLIMIT_NPROC" => Resource::Nproc,
            "RLIMIT_RSS" => Resource::Rss,
            "RLIMIT_RTPRIO" => Resource::Rtprio,
            "RLIMIT_RTTIME" => Resource::Rttime,
            "RLIMIT_SIGPENDING" => Resource::Sigpending,
            "RLIMIT_STACK" => Resource::Stack,
            other => return Err(Refusal(format!("wrong rlimit value: {other}"))),
        };
        let value = Rlimit { current: Some(limit.soft), maximum: Some(limit.hard) };
        rustix::process::setrlimit(resource, value).or_refuse(doing)?;
    }
    Ok(())
}
