//! Set-up by the program of the present: a holder lives as long as its pod, and the code with which
//! it was started is as old. So `xebec` sends its own program and what that is to do along with a
//! request, and the holder's child executes it instead of setting up by itself: what was mended in
//! set-up reaches pods that run.
//!
//! Two versions meet here, and this is all that they must agree on: the program is executed as
//! `xebec setup <name>...`; 0 to 2 are the standard streams; the descriptors from 3 on are what the
//! names say, in their order. `instructions` are the present program's words to itself, which the
//! holder does not read.
//!
//! The program comes from a read-only mount that is attached nowhere, as the holder's own does: see
//! [`crate::embedded`]'s `Program`. A name that is not known is refused: it may stand for
//! something that must not be passed over.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use linux::process::{self, SharedPid};
use linux::seqpacket;
use rustix::fs::{MemfdFlags, SealFlags};
use serde::{Deserialize, Serialize};

use super::refusal::{OrRefuse as _, Refusal, Result, describe};
use super::{BesideOthers, Join, Launch, Stdio, give_up};

/// The first argument that makes the binary set a container or a command up.
pub const ARGUMENT: &str = "setup";

/// Of mimalloc, which is the program's allocator: what lives long, or only for a moment, needs no
/// huge pages (which the allocator then turns off for the whole process; see
/// [`linux::process::allow_huge_pages`]), and what is free goes back at once.
pub(crate) const ENVIRONMENT: &[(&str, &str)] =
    &[("MIMALLOC_ALLOW_THP", "0"), ("MIMALLOC_PURGE_DELAY", "0")];

/// What a descriptor is. Only ever added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Instructions,
    /// Where the sentence goes if the program is not executed.
    Report,
    /// Memory for the pid of the process that executes, where that is another one.
    Told,
    /// Where the master of a terminal goes; without it the standard streams are the program's.
    Terminal,
    /// A process in the PID namespace to join; for a command, the container's first.
    Process,
    /// See [`BesideOthers::procs`].
    Procs,
    /// See [`BesideOthers::pids`].
    Pids,
}

const ROLES: &[(Role, &str)] = &[
    (Role::Instructions, "instructions"),
    (Role::Report, "report"),
    (Role::Told, "told"),
    (Role::Terminal, "terminal"),
    (Role::Process, "process"),
    (Role::Procs, "procs"),
    (Role::Pids, "pids"),
];

impl Role {
    fn name(self) -> &'static str {
        ROLES.iter().find(|it| it.0 == self).map_or("", |it| it.1)
    }

    fn parse(name: &str) -> Option<Self> {
        ROLES.iter().find(|it| it.1 == name).map(|it| it.0)
    }
}

/// What came with a request.
pub(crate) struct Handover {
    pub(crate) program: OwnedFd,
    pub(crate) instructions: OwnedFd,
}

/// From the present program to itself. The file that is executed may have been replaced since this
/// program was started; hence the version.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Instructions {
    version: u32,
    task: Task,
}

const VERSION: u32 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    Container { spec: PathBuf, layers: Vec<PathBuf>, upper: PathBuf, work: PathBuf },
    Command { spec: PathBuf, command: Vec<String> },
}

impl Task {
    /// In memory that nobody can change any more.
    pub(crate) fn write(self) -> io::Result<OwnedFd> {
        let text = serde_json::to_vec(&Instructions { version: VERSION, task: self })?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("instructions", flags)?);
        file.write_all_at(&text, 0)?;
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Ok(file.into())
    }

    fn read(file: OwnedFd) -> Result<Self> {
        let doing = || "read what is to be set up".to_owned();
        let file = File::from(file);
        let length = file.metadata().or_refuse(doing)?.len();
        let mut text = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut text, 0).or_refuse(doing)?;
        #[derive(Deserialize)]
        struct Stamp {
            version: u32,
        }
        let Stamp { version } =
            serde_json::from_slice(&text).map_err(io::Error::from).or_refuse(doing)?;
        if version != VERSION {
            return Err(Refusal(format!(
                "the program was replaced by one of another version (its set-up is of version {VERSION}, not {version}); restart xebec"
            )));
        }
        let instructions: Instructions =
            serde_json::from_slice(&text).map_err(io::Error::from).or_refuse(doing)?;
        Ok(instructions.task)
    }
}

/// What the holder has for its child, but for the standard streams.
#[derive(Default)]
struct Kit {
    instructions: Option<OwnedFd>,
    report: Option<OwnedFd>,
    told: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    process: Option<OwnedFd>,
    procs: Option<OwnedFd>,
    pids: Option<OwnedFd>,
}

impl Kit {
    fn place(&mut self, role: Role) -> &mut Option<OwnedFd> {
        match role {
            Role::Instructions => &mut self.instructions,
            Role::Report => &mut self.report,
            Role::Told => &mut self.told,
            Role::Terminal => &mut self.terminal,
            Role::Process => &mut self.process,
            Role::Procs => &mut self.procs,
            Role::Pids => &mut self.pids,
        }
    }

    /// Those that are there, in the order of the list.
    fn into_list(mut self) -> Vec<(Role, OwnedFd)> {
        let take = |(role, _): &(Role, &str)| Some((*role, self.place(*role).take()?));
        ROLES.iter().filter_map(take).collect()
    }
}

/// In the child made by [`super::fork`]: as [`super::start`], by the program that was sent.
pub(crate) fn start(handover: Handover, launch: Launch) -> ! {
    let Launch { stdio, mut report, beside, .. } = launch;
    let kit = match beside {
        None => Kit::default(),
        Some(BesideOthers { process, procs, pids, told }) => Kit {
            process: Some(process),
            procs: Some(procs),
            pids,
            told: told.into_file(),
            ..Kit::default()
        },
    };
    let result = hand_over(handover, kit, stdio, &mut report);
    give_up(result, &report)
}

/// As [`super::exec`], by the program that was sent.
pub(crate) fn exec(handover: Handover, join: Join) -> ! {
    let Join { container, stdio, mut report, told, .. } = join;
    let kit = Kit { process: Some(container), told: told.into_file(), ..Kit::default() };
    let result = hand_over(handover, kit, stdio, &mut report);
    give_up(result, &report)
}

/// Replaces this process. If it cannot, only `report` is still what it was.
fn hand_over(
    handover: Handover,
    mut kit: Kit,
    stdio: Stdio,
    report: &mut OwnedFd,
) -> Result<Infallible> {
    let Handover { program, instructions } = handover;
    kit.report = Some(report.try_clone().or_refuse(|| "copy descriptors".to_owned())?);
    kit.instructions = Some(instructions);
    let streams = match stdio {
        Stdio::Streams { stdin, stdout, stderr } => [stdin, stdout, stderr],
        Stdio::Terminal { socket } => {
            kit.terminal = Some(socket.into());
            [null()?, null()?, null()?]
        }
    };
    process::die_with_parent().or_refuse(|| "die with the holder".to_owned())?;
    // Not dropped when it fails: their numbers are others' then.
    let (streams, list) = (ManuallyDrop::new(streams), ManuallyDrop::new(kit.into_list()));
    let words = arguments(list.iter().map(|it| it.0));
    let variables = ENVIRONMENT.iter().map(|(name, value)| format!("{name}={value}"));
    let variables: Vec<_> = variables.filter_map(|it| CString::new(it).ok()).collect();
    let given = streams.iter().chain(list.iter().map(|it| &it.1));
    let given: Vec<BorrowedFd<'_>> = given.map(AsFd::as_fd).collect();
    let err = process::exec_with((program.as_fd(), report), &given, &words, &variables);
    let refusal = Refusal(format!("execute the set-up: {}", describe(&err)));
    Err(refusal)
}

fn null() -> Result<OwnedFd> {
    let null = File::options().read(true).write(true).open("/dev/null");
    null.map(OwnedFd::from).or_refuse(|| "open /dev/null".to_owned())
}

fn arguments(roles: impl Iterator<Item = Role>) -> Vec<CString> {
    let words = ["xebec", ARGUMENT].into_iter().chain(roles.map(Role::name));
    words.filter_map(|it| CString::new(it).ok()).collect()
}

/// `arguments` are those after [`ARGUMENT`]. Before anything else of the program is started.
pub fn run(arguments: &[OsString]) -> ! {
    // What a container's processes could see of this one is nothing that they have not given.
    let _ = process::hide();
    // The holder has them turned off for itself; programs would inherit that (prctl(2),
    // PR_SET_THP_DISABLE). A kernel without them has nothing to allow.
    let _ = process::allow_huge_pages();
    match receive(arguments) {
        Ok((kit, report)) => match set_up(kit, report) {
            Ok(never) => match never {},
            Err((refusal, report)) => give_up(Err(refusal), &report),
        },
        // There is nobody to be told.
        Err(_) => process::exit_now(super::CODE_REFUSED),
    }
}

/// What was handed over, with the report apart.
fn receive(arguments: &[OsString]) -> io::Result<(Result<Kit>, OwnedFd)> {
    let descriptors = process::inherited(arguments.len())?;
    let mut kit = Kit::default();
    let mut unknown = None;
    for (name, descriptor) in arguments.iter().zip(descriptors) {
        match name.to_str().and_then(Role::parse) {
            Some(role) => *kit.place(role) = Some(descriptor),
            None => unknown = Some(name.to_string_lossy().into_owned()),
        }
    }
    let report = kit.report.take().ok_or(io::ErrorKind::InvalidInput)?;
    let kit = match unknown {
        None => Ok(kit),
        Some(name) => Err(Refusal(format!("the holder hands over {name:?}, which is not known"))),
    };
    Ok((kit, report))
}

fn set_up(
    kit: Result<Kit>,
    report: OwnedFd,
) -> std::result::Result<Infallible, (Refusal, OwnedFd)> {
    let gather = || -> Result<(Task, Stdio, Option<SharedPid>, Kit)> {
        let mut kit = kit?;
        let instructions = needed(kit.instructions.take(), Role::Instructions)?;
        let told = kit.told.take().map(SharedPid::from_file).transpose();
        let told = told.or_refuse(|| "map what the holder is told".to_owned())?;
        let stdio = stdio(kit.terminal.take()).or_refuse(|| "take standard streams".to_owned())?;
        Ok((Task::read(instructions)?, stdio, told, kit))
    };
    let (task, stdio, told, mut kit) = match gather() {
        Ok(gathered) => gathered,
        Err(refusal) => return Err((refusal, report)),
    };
    match task {
        Task::Container { spec, layers, upper, work } => {
            let beside = match (kit.process.take(), kit.procs.take(), told) {
                (None, None, None) => None,
                (Some(process), Some(procs), Some(told)) => {
                    Some(BesideOthers { process, procs, pids: kit.pids.take(), told })
                }
                // Whether others are there decides where set-up is out of sight.
                _ => {
                    let why = "the holder hands over only a part of a PID namespace";
                    return Err((Refusal(why.to_owned()), report));
                }
            };
            super::start(Launch { spec, layers, upper, work, stdio, report, beside })
        }
        Task::Command { spec, command } => {
            let process = needed(kit.process.take(), Role::Process);
            let told = needed(told, Role::Told);
            match process.and_then(|container| Ok((container, told?))) {
                Ok((container, told)) => {
                    super::exec(Join { spec, container, command, stdio, report, told })
                }
                Err(refusal) => Err((refusal, report)),
            }
        }
    }
}

fn needed<T>(descriptor: Option<T>, role: Role) -> Result<T> {
    descriptor.ok_or_else(|| Refusal(format!("the holder hands over no {:?}", role.name())))
}

fn stdio(terminal: Option<OwnedFd>) -> io::Result<Stdio> {
    if let Some(socket) = terminal {
        return Ok(Stdio::Terminal { socket: seqpacket::Connection::from(socket) });
    }
    Ok(Stdio::Streams {
        stdin: io::stdin().as_fd().try_clone_to_owned()?,
        stdout: io::stdout().as_fd().try_clone_to_owned()?,
        stderr: io::stderr().as_fd().try_clone_to_owned()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn null() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    /// Holders of today meet programs of tomorrow, and the other way round.
    #[test]
    fn what_is_handed_over_keeps_its_names_and_its_order() {
        let check = |kit: Kit, expected: &str| {
            let words = arguments(kit.into_list().iter().map(|it| it.0));
            let words: Vec<_> = words.iter().map(|it| it.to_str().unwrap()).collect();
            assert_eq!(words.join(" "), expected);
        };
        let kit = || Kit { instructions: Some(null()), report: Some(null()), ..Kit::default() };
        check(kit(), "xebec setup instructions report");
        let terminal = Kit { terminal: Some(null()), ..kit() };
        check(terminal, "xebec setup instructions report terminal");
        let command = Kit { told: Some(null()), process: Some(null()), ..kit() };
        check(command, "xebec setup instructions report told process");
        let [told, process, procs, pids] = std::array::from_fn(|_| Some(null()));
        let beside = Kit { told, process, procs, pids, ..kit() };
        check(beside, "xebec setup instructions report told process procs pids");
        for (role, name) in ROLES {
            assert_eq!(Role::parse(name), Some(*role));
        }
    }

    #[test]
    fn instructions_come_back_as_they_were_and_only_to_the_same_version() {
        let task = || Task::Command { spec: "/c/config.json".into(), command: vec!["ls".into()] };
        assert_eq!(Task::read(task().write().unwrap()).map_err(|it| it.0), Ok(task()));
        let file = File::from(rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(br#"{"version":7,"task":"Something"}"#, 0).unwrap();
        let refusal = Task::read(file.into()).map_err(|it| it.0).unwrap_err();
        assert!(refusal.contains("replaced by one of another version"), "{refusal}");
    }
}
