//! Containers whose commands are processes of this machine; the rest is the node in memory.

use std::process::Stdio;
use std::time::Duration;

use node_api::containers::{
    Connection, Container, ContainerConfig, ContainerStats, Containers, ExecRequest, Output,
    Resources, Streams, Usage,
};
use node_api::fake::Node;
use node_api::{ContainerId, Error, Future, SandboxId};
use tokio::net::TcpStream;
use tokio::process::Command;

pub(crate) struct Host(pub(crate) Node);

impl Containers for Host {
    fn create(&self, sandbox: &SandboxId, config: ContainerConfig) -> Future<'_, ContainerId> {
        self.0.create(sandbox, config)
    }

    fn start(&self, id: &ContainerId) -> Future<'_, ()> {
        self.0.start(id)
    }

    fn stop(&self, id: &ContainerId, grace: Duration) -> Future<'_, ()> {
        Containers::stop(&self.0, id, grace)
    }

    fn remove(&self, id: &ContainerId) -> Future<'_, ()> {
        Containers::remove(&self.0, id)
    }

    fn list(&self, sandbox: Option<&SandboxId>) -> Vec<Container> {
        Containers::list(&self.0, sandbox)
    }

    fn get(&self, id: &ContainerId) -> Option<Container> {
        self.0.get(id)
    }

    fn update_resources(&self, id: &ContainerId, resources: Resources) -> Future<'_, ()> {
        self.0.update_resources(id, resources)
    }

    fn resources(&self, id: &ContainerId) -> Future<'_, Resources> {
        self.0.resources(id)
    }

    fn exec(&self, _: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        Box::pin(async move {
            let pipe = |wanted| if wanted { Stdio::piped() } else { Stdio::null() };
            let mut child = Command::new(&request.command[0])
                .args(&request.command[1..])
                .stdin(pipe(request.stdin))
                .stdout(pipe(request.stdout))
                .stderr(pipe(request.stderr))
                .kill_on_drop(true)
                .spawn()
                .map_err(|err| Error::Refused(format!("exec: {:?}: {err}", request.command[0])))?;
            Ok(Streams {
                stdin: child.stdin.take().map(|it| Box::new(it) as _),
                stdout: child.stdout.take().map(|it| Box::new(it) as _),
                stderr: child.stderr.take().map(|it| Box::new(it) as _),
                resize: None,
                exit: Box::pin(async move {
                    let status = child.wait().await;
                    let status = status.map_err(|err| Error::node("waiting", err))?;
                    Ok(status.code().unwrap_or(137))
                }),
            })
        })
    }

    fn exec_output(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
        limit: usize,
    ) -> Future<'_, Output> {
        self.0.exec_output(id, command, timeout, limit)
    }

    fn attach(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        Containers::attach(&self.0, id, request)
    }

    fn connect(&self, _: &SandboxId, port: u16) -> Future<'_, Box<dyn Connection>> {
        Box::pin(async move {
            let stream = TcpStream::connect(("127.0.0.1", port)).await;
            let stream = stream.map_err(|err| Error::node(format!("dialing port {port}"), err))?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }

    fn usage(&self, id: &ContainerId) -> Future<'_, Usage> {
        Containers::usage(&self.0, id)
    }

    fn stats(&self, id: &ContainerId) -> Future<'_, ContainerStats> {
        Containers::stats(&self.0, id)
    }
}
