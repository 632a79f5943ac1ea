//! Containers in memory, which do what their scripts say.

use std::time::Duration;

use tokio::time::Instant;

use super::Node;
use super::programs::{End, Exec, SIGKILL};
use super::state::{Entry, State};
use crate::containers::{
    Connection, Container, ContainerConfig, ContainerState, ContainerStats, Containers,
    ExecRequest, Exit, FilesystemUsage, Output, Resources, Streams, Usage, wrong_target,
};
use crate::{ContainerId, Error, Future, SandboxId};

/// Bytes in flight of a faked connection.
const PIPE: usize = 64 * 1024;
/// The exit code of a container that could not be started.
const START_FAILED: i32 = 128;

impl Containers for Node {
    fn create(&self, sandbox: &SandboxId, config: ContainerConfig) -> Future<'_, ContainerId> {
        let sandbox = sandbox.clone();
        Box::pin(async move {
            let label = self.state().sandbox_label(&sandbox);
            let call = format!("containers.create {label} {} #{}", config.name, config.attempt);
            self.enter(call).await?;
            let (id, created) = (ContainerId::new(self.hex64()), self.now());
            self.change(|state| state.create_container(id, sandbox, config, created))
        })
    }

    fn start(&self, id: &ContainerId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let label = self.state().label(&id);
            self.enter(format!("containers.start {label}")).await?;
            let now = self.now();
            self.change(|state| state.start(&id, now))
        })
    }

    fn stop(&self, id: &ContainerId, grace: Duration) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let label = self.state().label(&id);
            self.enter(format!("containers.stop {label} {grace:?}")).await?;
            self.change(|state| state.ask_to_stop(&id, grace));
            self.wait(|state| !state.is_running(&id)).await;
            Ok(())
        })
    }

    fn remove(&self, id: &ContainerId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let label = self.state().label(&id);
            self.enter(format!("containers.remove {label}")).await?;
            let now = self.now();
            self.change(|state| {
                state.kill(&id, now);
                state.containers.retain(|it| it.container.id != id);
            });
            Ok(())
        })
    }

    fn list(&self, sandbox: Option<&SandboxId>) -> Vec<Container> {
        self.change(|state| {
            let all = state.containers.iter().map(|it| &it.container);
            all.filter(|it| sandbox.is_none_or(|id| it.sandbox == *id)).cloned().collect()
        })
    }

    fn get(&self, id: &ContainerId) -> Option<Container> {
        self.change(|state| state.entry(id).map(|it| it.container.clone()))
    }

    fn update_resources(&self, id: &ContainerId, resources: Resources) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let label = self.state().label(&id);
            self.enter(format!("containers.update_resources {label}")).await?;
            self.change(|state| {
                let entry = state.entry_mut(&id).ok_or(Error::NoContainer(id))?;
                entry.container.config.resources = resources;
                Ok(())
            })
        })
    }

    fn resources(&self, id: &ContainerId) -> Future<'_, Resources> {
        let resources = self.change(|state| {
            let entry = state.entry(id).ok_or_else(|| Error::NoContainer(id.clone()))?;
            Ok(entry.container.config.resources.clone())
        });
        Box::pin(std::future::ready(resources))
    }

    fn exec(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        let id = id.clone();
        Box::pin(async move {
            let exec = self.run_command("exec", &id, &request.command).await?;
            Ok(super::streams::of_exec(exec, &request))
        })
    }

    fn exec_output(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
        limit: usize,
    ) -> Future<'_, Output> {
        let id = id.clone();
        Box::pin(async move {
            let exec = self.run_command("exec_output", &id, &command).await?;
            let Some(takes) = exec.takes.filter(|it| *it <= timeout) else {
                tokio::time::sleep(timeout).await;
                return Err(Error::TimedOut(timeout));
            };
            tokio::time::sleep(takes).await;
            let cut = |it: bytes::Bytes| it.slice(..it.len().min(limit));
            Ok(Output { code: exec.code, stdout: cut(exec.stdout), stderr: cut(exec.stderr) })
        })
    }

    fn attach(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        let id = id.clone();
        Box::pin(async move {
            let label = self.state().label(&id);
            self.enter(format!("containers.attach {label}")).await?;
            let output = self.change(|state| {
                let output = state.running(&id)?.program.output.clone();
                Ok::<_, Error>(output)
            })?;
            let node = self.clone();
            let exit = async move {
                node.wait(|state| !state.is_running(&id)).await;
                match node.get(&id).map(|it| it.state) {
                    Some(ContainerState::Exited(exit)) => Ok(exit.code),
                    _ => Err(Error::NoContainer(id)),
                }
            };
            Ok(super::streams::of_container(output, &request, Box::pin(exit)))
        })
    }

    fn connect(&self, sandbox: &SandboxId, port: u16) -> Future<'_, Box<dyn Connection>> {
        let sandbox = sandbox.clone();
        Box::pin(async move {
            let label = self.state().sandbox_label(&sandbox);
            self.enter(format!("containers.connect {label}:{port}")).await?;
            self.state().ready_sandbox(&sandbox)?;
            let listener = self.state().listeners.get(&port).cloned();
            let (ours, theirs) = tokio::io::duplex(PIPE);
            let sent = listener.is_some_and(|it| it.try_send(theirs).is_ok());
            if !sent {
                let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                return Err(Error::node(format!("connecting to port {port}"), refused));
            }
            Ok(Box::new(ours) as Box<dyn Connection>)
        })
    }

    fn usage(&self, id: &ContainerId) -> Future<'_, Usage> {
        let usage = self.change(|state| {
            state.entry(id).ok_or_else(|| Error::NoContainer(id.clone()))?;
            Ok(state.usages.get(id).copied().unwrap_or_default())
        });
        Box::pin(std::future::ready(usage))
    }

    fn stats(&self, id: &ContainerId) -> Future<'_, ContainerStats> {
        let id = id.clone();
        Box::pin(async move {
            let usage = self.usage(&id).await?;
            Ok(ContainerStats {
                at: self.now(),
                usage,
                writable_layer: Some(FilesystemUsage::default()),
            })
        })
    }

    fn reopen_log(&self, id: &ContainerId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let label = self.state().label(&id);
            self.enter(format!("containers.reopen_log {label}")).await?;
            self.change(|state| state.running(&id).map(|_| ()))
        })
    }
}

impl Node {
    async fn run_command(
        &self,
        call: &str,
        id: &ContainerId,
        command: &[String],
    ) -> Result<Exec, Error> {
        let label = self.state().label(id);
        self.enter(format!("containers.{call} {label} {}", command.join(" "))).await?;
        let respond = self.change(|state| {
            let name = state.running(id)?.container.config.name.clone();
            Ok::<_, Error>(state.execs.get(&name).cloned())
        })?;
        let exec = respond.map_or_else(|| Exec::exits(0), |respond| respond(command));
        match exec.refusal {
            Some(message) => Err(Error::Refused(message)),
            None => Ok(exec),
        }
    }
}

impl State {
    fn create_container(
        &mut self,
        id: ContainerId,
        sandbox: SandboxId,
        config: ContainerConfig,
        created: jiff::Timestamp,
    ) -> Result<ContainerId, Error> {
        self.ready_sandbox(&sandbox)?;
        if !config.cdi_devices.is_empty() {
            return Err(Error::unsupported("a device of the Container Device Interface (CDI)"));
        }
        let is_same = |it: &&Entry| {
            let other = &it.container;
            other.sandbox == sandbox
                && other.config.name == config.name
                && other.config.attempt == config.attempt
        };
        if let Some(same) = self.containers.iter().find(is_same) {
            return Ok(same.container.id.clone());
        }
        if let Some(target) = &config.target {
            let found = self.entry(target).map(|it| &it.container);
            if let Some(why) = wrong_target(target, found, &sandbox) {
                return Err(Error::Refused(why));
            }
        }
        let program = self.next_program(&config.name);
        let state = ContainerState::Created;
        let container = Container { id: id.clone(), sandbox, config, created, state };
        self.containers.push(Entry { container, program, end: None });
        Ok(id)
    }

    fn start(&mut self, id: &ContainerId, now: jiff::Timestamp) -> Result<(), Error> {
        let entry = self.entry_mut(id).ok_or_else(|| Error::NoContainer(id.clone()))?;
        if entry.container.state != ContainerState::Created {
            return match entry.is_running() {
                true => Ok(()),
                false => Err(Error::NotRunning(id.clone())),
            };
        }
        let result = match entry.program.refusal.clone() {
            Some(message) => {
                entry.container.state = ContainerState::Exited(Exit {
                    code: START_FAILED,
                    signal: None,
                    oom_killed: false,
                    started: None,
                    finished: now,
                    message: Some(message.clone()),
                });
                Err(Error::Refused(message))
            }
            None => {
                entry.container.state = ContainerState::Running { started: now };
                entry.end = entry.program.end.map(|(after, end)| (Instant::now() + after, end));
                Ok(())
            }
        };
        self.tell(id);
        result
    }

    /// Makes its end known: by itself, by its answer to the stop signal, or when the grace is over.
    fn ask_to_stop(&mut self, id: &ContainerId, grace: Duration) {
        let Some(entry) = self.entry_mut(id).filter(|it| it.is_running()) else { return };
        let now = Instant::now();
        let killed = (now + grace, End::signal(SIGKILL));
        let answered = entry.program.on_stop.map(|(after, end)| (now + after, end));
        let ends = [entry.end, answered, Some(killed)];
        entry.end = ends.into_iter().flatten().min_by_key(|(at, _)| *at);
    }

    fn running(&self, id: &ContainerId) -> Result<&Entry, Error> {
        let entry = self.entry(id).ok_or_else(|| Error::NoContainer(id.clone()))?;
        if entry.is_running() { Ok(entry) } else { Err(Error::NotRunning(id.clone())) }
    }
}
