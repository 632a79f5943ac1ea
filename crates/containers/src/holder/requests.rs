//! What a client can ask of the holder, one function for each.

use std::os::fd::{AsFd as _, OwnedFd};

use linux::process::Signal;

use super::container::{Container, Process};
use super::exec::Exec;
use super::launch::{self, Launched};
use super::life;
use super::output::{Attached, Output};
use super::poll::{Source, Token};
use super::serve::Holder;
use crate::logs::LogFile;
use crate::protocol::{ContainerStatus, Life, Refusal, Reply, Request, Streams, VERSION};
use crate::records::{self, HeldRecord};
use crate::setup::Handover;

/// Started and not forgotten, in one pod. Their states fit into one message.
const CONTAINERS_MAX: usize = 256;
/// At a time, in one pod.
const EXECS_MAX: usize = 256;

/// `Ok(None)`: the answer comes later.
pub(super) type Answer = Result<Option<(Reply, Vec<OwnedFd>)>, Refusal>;

fn done() -> Answer {
    Ok(Some((Reply::Done, Vec::new())))
}

/// The last two, where something was handed over.
fn take_handover(
    mut descriptors: Vec<OwnedFd>,
    is_there: bool,
) -> Result<(Vec<OwnedFd>, Option<Handover>), Refusal> {
    if !is_there {
        return Ok((descriptors, None));
    }
    match (descriptors.pop(), descriptors.pop()) {
        (Some(instructions), Some(program)) => {
            Ok((descriptors, Some(Handover { program, instructions })))
        }
        _ => Err(Refusal::Kernel("no program to set up with came along".to_owned())),
    }
}

impl Holder {
    pub(super) fn request(
        &mut self,
        connection: Token,
        id: u64,
        request: Request,
        descriptors: Vec<OwnedFd>,
    ) {
        let answer = match request {
            Request::Hello { .. } => self.hello(connection),
            Request::State => self.state(),
            Request::Start { container, handover } => take_handover(descriptors, handover)
                .and_then(|(_, handover)| self.start((connection, id), container, handover)),
            Request::Signal { container, signal } => self.signal(&container, signal),
            Request::KillAll { container } => self.kill_all(&container),
            Request::Forget { container } => self.forget(&container),
            Request::Exec { container, command, streams, handover } => {
                take_handover(descriptors, handover).and_then(|(descriptors, handover)| {
                    let wanted = launch::Wanted { command, streams, descriptors, handover };
                    self.exec((connection, id), &container, wanted)
                })
            }
            Request::Attach { container, streams } => {
                self.attach(connection, &container, streams, descriptors)
            }
            Request::Resize { container, width, height } => self.resize(&container, width, height),
            Request::CloseStdin { container } => self.close_stdin(&container),
            Request::Connect { port } => self.connect((connection, id), port),
            Request::Shutdown => self.shut_down((connection, id)),
        };
        match answer {
            Ok(Some((reply, descriptors))) => self.reply_with(connection, id, reply, descriptors),
            Ok(None) => {}
            Err(refusal) => self.reply(connection, id, Reply::Refused(refusal)),
        }
    }

    fn container(&mut self, id: &str) -> Result<&mut Container, Refusal> {
        self.containers.get_mut(id).ok_or(Refusal::NoContainer)
    }

    fn hello(&mut self, connection: Token) -> Answer {
        if let Some(it) = self.connections.get_mut(&connection) {
            it.wants_events = true;
        }
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Ok(Some((Reply::Welcome { version: VERSION, pid }, Vec::new())))
    }

    fn state(&self) -> Answer {
        let containers = self
            .containers
            .iter()
            .map(|(id, it)| ContainerStatus { container: id.clone(), life: it.life.clone() })
            .collect();
        Ok(Some((Reply::State { containers }, Vec::new())))
    }

    fn start(&mut self, starter: (Token, u64), id: String, handover: Option<Handover>) -> Answer {
        if self.containers.contains_key(&id) {
            return Err(Refusal::StartedBefore);
        }
        if self.containers.len() >= CONTAINERS_MAX {
            return Err(Refusal::TooMany(CONTAINERS_MAX));
        }
        if self.shutdown.is_some() {
            return Err(Refusal::Kernel("the sandbox is being stopped".to_owned()));
        }
        // The id names a directory: it must not lead out of ours.
        if id.is_empty() || !id.bytes().all(|it| it.is_ascii_alphanumeric()) {
            return Err(Refusal::NoContainer);
        }
        let directory = self.directory.join("containers").join(&id);
        let record: HeldRecord = records::read_and_forget(&directory)
            .map_err(|err| Refusal::Kernel(stdx::error_chain(&err)))?
            .ok_or(Refusal::NoContainer)?;
        let path = record.config.log_path.clone();
        let log = LogFile::open(path, self.log_limits).map_err(|err| {
            let path = record.config.log_path.display();
            Refusal::CouldNotStart(format!("opening the log {path}: {err}"))
        })?;
        let launched = launch::container(self, &directory, &record, handover)
            .map_err(|err| Refusal::CouldNotStart(stdx::error_chain(&err)))?;
        let mut container = Container {
            life: Life::Starting,
            directory,
            record,
            process: None,
            log,
            outputs: Vec::new(),
            attached: Vec::new(),
            stdin: None,
            terminal: None,
            starter: Some(starter),
        };
        self.watch(&id, &mut container, launched)
            .map_err(|err| Refusal::Kernel(format!("watching the container: {err}")))?;
        self.containers.insert(id, container);
        Ok(None)
    }

    fn watch(
        &mut self,
        id: &str,
        container: &mut Container,
        launched: Launched,
    ) -> std::io::Result<()> {
        let source = |it: &str| it.to_owned();
        for (stream, descriptor) in launched.outputs {
            let output = Source::Output { container: source(id), stream };
            let token = self.poll.add(&descriptor, output)?;
            container.outputs.push(Output::new(stream, token, descriptor));
        }
        let setup =
            self.poll.add(&launched.setup.report, Source::Setup { container: source(id) })?;
        let exit = Source::ContainerExit { container: source(id) };
        let exit = match launched.setup.is_program() {
            true => Some(self.poll.add(&launched.pidfd, exit)?),
            false => None,
        };
        container.stdin = launched.stdin;
        container.process = Some(Process {
            pid: launched.pid,
            pidfd: launched.pidfd,
            exit,
            setup: Some((launched.setup, setup)),
        });
        Ok(())
    }

    fn signal(&mut self, id: &str, signal: i32) -> Answer {
        self.container(id)?.signal(signal)?;
        done()
    }

    fn kill_all(&mut self, id: &str) -> Answer {
        let container = self.containers.get(id).ok_or(Refusal::NoContainer)?;
        if let Some(process) = &container.process {
            let _ = linux::process::kill(process.pidfd.as_fd(), Signal::KILL);
            let _ = self.cgroups.kill(&container.record.cgroup);
        }
        done()
    }

    fn forget(&mut self, id: &str) -> Answer {
        match self.containers.get(id) {
            Some(it) if it.process.is_some() => {
                Err(Refusal::Kernel("it is still running".to_owned()))
            }
            _ => {
                self.containers.remove(id);
                done()
            }
        }
    }

    fn exec(&mut self, starter: (Token, u64), id: &str, wanted: launch::Wanted) -> Answer {
        if self.execs.len() >= EXECS_MAX {
            return Err(Refusal::TooMany(EXECS_MAX));
        }
        if self.execs.contains_key(&starter.0) {
            return Err(Refusal::StartedBefore);
        }
        let container = self.containers.get(id).ok_or(Refusal::NoContainer)?;
        life::running(&container.life)?;
        let launched = container
            .process
            .as_ref()
            .ok_or(Refusal::NotRunning)?
            .pidfd
            .try_clone()
            .map_err(launch::Error::MakeStreams)
            .and_then(|it| launch::command(container, it, wanted))
            .map_err(|err| Refusal::CouldNotStart(stdx::error_chain(&err)))?;
        let exec = Exec::watch(&mut self.poll, starter, launched)
            .map_err(|err| Refusal::Kernel(format!("watching the command: {err}")))?;
        self.execs.insert(starter.0, exec);
        Ok(None)
    }

    fn attach(
        &mut self,
        connection: Token,
        id: &str,
        streams: Streams,
        descriptors: Vec<OwnedFd>,
    ) -> Answer {
        let container = self.container(id)?;
        life::running(&container.life)?;
        let kernel = |err: std::io::Error| Refusal::Kernel(format!("attaching: {err}"));
        let mut descriptors = descriptors.into_iter();
        let attached = Attached {
            connection,
            stdout: streams.stdout.then(|| descriptors.next()).flatten(),
            stderr: streams.stderr.then(|| descriptors.next()).flatten(),
        };
        container.attach(attached).map_err(kernel)?;
        let stdin = match &container.stdin {
            Some(stdin) if streams.stdin => vec![stdin.try_clone().map_err(kernel)?],
            _ => Vec::new(),
        };
        Ok(Some((Reply::Done, stdin)))
    }

    fn resize(&mut self, id: &str, width: u16, height: u16) -> Answer {
        let container = self.container(id)?;
        let terminal = container.terminal.as_ref().ok_or(Refusal::NotRunning)?;
        linux::terminal::set_size(terminal.as_fd(), width, height)
            .map_err(|err| Refusal::Kernel(format!("resizing the terminal: {err}")))?;
        done()
    }

    fn close_stdin(&mut self, id: &str) -> Answer {
        self.container(id)?.stdin = None;
        done()
    }

    /// Nothing is started any more; the loop ends with the last container.
    fn shut_down(&mut self, asker: (Token, u64)) -> Answer {
        self.shutdown = Some(asker);
        let running: Vec<String> = self.containers.keys().cloned().collect();
        for id in running {
            let _ = self.kill_all(&id);
        }
        for exec in self.execs.values() {
            exec.kill();
        }
        Ok(None)
    }
}
