//! The holder's loop: waits for one thing to happen, does what follows, waits again. No threads,
//! and one timer: when nothing has happened for a while, the pages of what was done are given back,
//! once.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use jiff::Timestamp;
use linux::process::Signal;
use linux::seqpacket::Listener;
use node_api::sandboxes::{PidNamespace, SandboxConfig};
use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use stdx::{Clock as _, SystemClock};

use super::connecting::Connecting;
use super::connection::{Connection, Sent};
use super::container::Container;
use super::exec::Exec;
use super::launch::Executed;
use super::life::Step;
use super::output::Output;
use super::pod_init::PodInit;
use super::poll::{Poll, Source, Token};
use super::startup::SetUp;
use crate::cgroups;
use crate::logs::Stream;
use crate::protocol::{self, Event, Life, Message, Reply};
use crate::records::{self, Limits, StartedRecord};

/// One from `xebec`, and one for each command, attached client or connection in the making.
const CONNECTIONS_MAX: usize = 512;

/// Giving pages back takes a millisecond and makes the next event a little slower: not while there
/// is something to do.
const REST_AFTER: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

pub(super) struct Holder {
    pub(super) directory: PathBuf,
    pub(super) config: SandboxConfig,
    pub(super) log_limits: Limits,
    pub(super) cgroups: cgroups::Tree,
    pub(super) pod_init: Option<PodInit>,
    pub(super) poll: Poll,
    listener: Listener,
    pub(super) connections: BTreeMap<Token, Connection>,
    /// Those that were started and not yet forgotten.
    pub(super) containers: BTreeMap<String, Container>,
    /// By the connection that asked for them.
    pub(super) execs: BTreeMap<Token, Exec>,
    pub(super) connecting: BTreeMap<Token, Connecting>,
    /// Who asked for the end. It comes when no container has a process any more.
    pub(super) shutdown: Option<(Token, u64)>,
    /// Something was done since pages were given back.
    pub(super) has_touched: bool,
}

impl Holder {
    pub(super) fn new(set_up: SetUp, listener: Listener) -> io::Result<Self> {
        let SetUp { directory, config, log_limits, cgroups, pod_init } = set_up;
        let mut poll = Poll::new()?;
        poll.add(&listener, Source::Listener)?;
        if let Some(init) = &pod_init {
            poll.add(init.pidfd(), Source::PodInit)?;
        }
        Ok(Self {
            directory,
            config,
            log_limits,
            cgroups,
            pod_init,
            poll,
            listener,
            connections: BTreeMap::new(),
            containers: BTreeMap::new(),
            execs: BTreeMap::new(),
            connecting: BTreeMap::new(),
            shutdown: None,
            has_touched: true,
        })
    }

    /// Until somebody asks for the end.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while !self.is_at_end() {
            let events = self.poll.wait(self.has_touched.then_some(REST_AFTER))?;
            self.has_touched = !events.is_empty();
            if events.is_empty() {
                // Only saves memory.
                let _ = linux::process::drop_touched_pages();
            }
            for (token, flags) in events {
                if let Some(source) = self.poll.source(token) {
                    self.react(token, source, flags);
                }
            }
        }
        Ok(())
    }

    pub(super) fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn react(&mut self, token: Token, source: Source, flags: EventFlags) {
        match source {
            Source::Listener => self.accept(),
            Source::Connection => self.serve(token, flags),
            Source::Output { container, stream } => {
                let now = self.now();
                if let Some(it) = self.containers.get_mut(&container) {
                    it.pump(stream, &mut self.poll, now);
                }
            }
            Source::Setup { container } => self.container_set_up(&container),
            Source::ContainerExit { container } => self.container_exited(&container),
            Source::ExecSetup { connection } => self.exec_set_up(connection),
            Source::ExecExit { connection } => self.exec_exited(connection),
            Source::Connecting { connection } => self.connected(connection),
            Source::PodInit => self.pod_init_exited(token),
        }
    }

    fn accept(&mut self) {
        let Ok(socket) = self.listener.accept() else { return };
        // Over the limit the socket is closed at once, which the client sees as a holder that has
        // gone.
        if self.connections.len() < CONNECTIONS_MAX
            && let Ok(token) = self.poll.add(&socket, Source::Connection)
        {
            self.connections.insert(token, Connection::new(socket));
        }
    }

    fn serve(&mut self, token: Token, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if flags.contains(EventFlags::OUT) {
            let sent = connection.flush();
            self.after_send(token, sent);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return;
        }
        let Some(connection) = self.connections.get(&token) else { return };
        let packet = match connection.receive() {
            Ok(Some(packet)) => packet,
            Ok(None) => return,
            Err(_) => return self.disconnect(token),
        };
        match protocol::decode_request(&packet.bytes) {
            Ok((id, Ok(request))) => self.request(token, id, request, packet.descriptors),
            Ok((id, Err(refusal))) => self.reply(token, id, Reply::Refused(refusal)),
            Err(_) => self.disconnect(token),
        }
    }

    pub(super) fn reply(&mut self, token: Token, id: u64, reply: Reply) {
        self.reply_with(token, id, reply, Vec::new());
    }

    pub(super) fn reply_with(
        &mut self,
        token: Token,
        id: u64,
        reply: Reply,
        descriptors: Vec<OwnedFd>,
    ) {
        self.send(token, &Message::Reply { id, reply }, descriptors);
    }

    pub(super) fn send(&mut self, token: Token, message: &Message, descriptors: Vec<OwnedFd>) {
        if let Some(connection) = self.connections.get_mut(&token) {
            let sent = connection.send(message, descriptors);
            self.after_send(token, sent);
        }
    }

    fn after_send(&mut self, token: Token, sent: Sent) {
        let Some(connection) = self.connections.get(&token) else { return };
        let flags = match sent {
            Sent::Broken => return self.disconnect(token),
            Sent::Waiting => EventFlags::IN | EventFlags::OUT,
            Sent::All => EventFlags::IN,
        };
        self.poll.change(token, connection.descriptor(), flags);
    }

    /// The client has gone: commands that it started end, and it is attached to nothing any more.
    fn disconnect(&mut self, token: Token) {
        let Some(connection) = self.connections.remove(&token) else { return };
        self.poll.remove(token, connection.descriptor());
        if let Some(exec) = self.execs.get(&token) {
            exec.kill();
        }
        if let Some(made) = self.connecting.remove(&token) {
            self.poll.remove(made.source, &made.socket);
        }
        for container in self.containers.values_mut() {
            container.detach(token);
        }
    }

    /// Its program was executed, or could not be.
    fn container_set_up(&mut self, id: &str) {
        let now = self.now();
        let Some(container) = self.containers.get_mut(id) else { return };
        let Some(process) = &mut container.process else { return };
        let Some((setup, token)) = process.setup.take() else { return };
        self.poll.remove(token, &setup.report);
        let starter = container.starter.take();
        let finished = setup.finish().and_then(|it| self.take_over(id, it));
        let Some(container) = self.containers.get_mut(id) else { return };
        let Some(process) = &mut container.process else { return };
        let pid = process.pid;
        let reply = match finished {
            Ok(terminal) => {
                container.step(Step::Executed, now);
                // Only for those who cannot ask.
                let _ = records::write(&container.directory, &StartedRecord { started: now });
                if let Some(terminal) = terminal {
                    self.watch_terminal(id, terminal);
                }
                self.broadcast(Event::ContainerStarted { container: id.to_owned(), at: now });
                Reply::Started { at: now, pid }
            }
            Err(message) => {
                // It has nothing left to do but to end.
                let _ = linux::process::kill(process.pidfd.as_fd(), Signal::KILL);
                container.step(Step::Failed(message.clone()), now);
                container.reap(&mut self.poll);
                container.drain(&mut self.poll, now);
                self.container_ended(id);
                Reply::Refused(protocol::Refusal::CouldNotStart(message))
            }
        };
        if let Some((connection, request)) = starter {
            self.reply(connection, request, reply);
        }
    }

    /// The program may be executed by another process than the one that set it up. Returns the
    /// terminal.
    fn take_over(&mut self, id: &str, executed: Executed) -> Result<Option<OwnedFd>, String> {
        let Executed { terminal, process } = executed;
        if let (Some(process), Some(container)) = (process, self.containers.get_mut(id)) {
            let exit = Source::ContainerExit { container: id.to_owned() };
            match self.poll.add(&process.1, exit) {
                Ok(exit) => container.replace_process(process, exit),
                Err(err) => {
                    let _ = linux::process::kill(process.1.as_fd(), Signal::KILL);
                    let _ = linux::process::wait(process.1.as_fd());
                    return Err(format!("watching the container: {err}"));
                }
            }
        }
        Ok(terminal)
    }

    /// A terminal is output, input and what is resized, all in one.
    fn watch_terminal(&mut self, id: &str, terminal: OwnedFd) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let source = Source::Output { container: id.to_owned(), stream: Stream::Stdout };
        if rustix::io::ioctl_fionbio(&terminal, true).is_err() {
            return;
        }
        container.terminal = terminal.try_clone().ok();
        if container.record.config.stdin {
            container.stdin = terminal.try_clone().ok();
        }
        if let Ok(token) = self.poll.add(&terminal, source) {
            container.outputs.push(Output::new(Stream::Stdout, token, terminal));
        }
    }

    fn container_exited(&mut self, id: &str) {
        let now = self.now();
        // It may have ended before we have heard that it was executed.
        self.container_set_up(id);
        let Some(container) = self.containers.get_mut(id) else { return };
        let Some(status) = container.reap(&mut self.poll) else { return };
        let cgroup = &container.record.cgroup;
        if self.config.pid != PidNamespace::Container {
            // What its first process has left behind is still there.
            let _ = self.cgroups.kill(cgroup);
        }
        let oom_killed = self.cgroups.oom_kills(cgroup).is_ok_and(|it| it > 0);
        container.drain(&mut self.poll, now);
        container.step(Step::Ended { status, oom_killed }, now);
        self.container_ended(id);
    }

    /// Writes down how it ended, then tells everybody.
    fn container_ended(&mut self, id: &str) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let Life::Exited(exit) = container.life.clone() else { return };
        let _ = records::write(&container.directory, &exit);
        let attached = std::mem::take(&mut container.attached);
        let log_writes_lost = container.log.writes_lost();
        for it in attached {
            let event = Event::CommandExited { code: exit.code };
            self.send(it.connection, &Message::Event(event), Vec::new());
        }
        let event = Event::ContainerExited { container: id.to_owned(), exit, log_writes_lost };
        self.broadcast(event);
    }

    fn broadcast(&mut self, event: Event) {
        let message = Message::Event(event);
        let listeners: Vec<Token> = self
            .connections
            .iter()
            .filter(|(_, it)| it.wants_events)
            .map(|(token, _)| *token)
            .collect();
        for token in listeners {
            self.send(token, &message, Vec::new());
        }
    }

    /// Everything in its namespace has died with it: the containers' own exits tell the rest.
    fn pod_init_exited(&mut self, token: Token) {
        if let Some(init) = self.pod_init.take() {
            self.poll.remove(token, init.pidfd());
            let _ = linux::process::wait(init.pidfd());
        }
    }

    fn is_at_end(&mut self) -> bool {
        let Some((connection, request)) = self.shutdown else { return false };
        let is_at_end = self.containers.values().all(|it| it.process.is_none());
        if is_at_end {
            self.reply(connection, request, Reply::Done);
        }
        is_at_end
    }
}
