//! Commands with streams, attaching, and ports: CRI answers with the address of a streaming server,
//! which speaks SPDY (its WebSocket of old cannot end one stream alone).

mod command;
mod forward;
mod status;
mod upgrade;

use node_api::containers::{Connection, ExecRequest, Streams};
use node_api::{ContainerId, Error, SandboxId};

use crate::link::Repeat;
use crate::messages as cri;
use crate::{Inner, methods};

impl Inner {
    pub(crate) async fn exec(
        &self,
        id: &ContainerId,
        request: ExecRequest,
    ) -> Result<Streams, Error> {
        self.running(id)?;
        let question = cri::ExecRequest {
            container_id: id.to_string(),
            cmd: request.command.clone(),
            tty: request.tty,
            stdin: request.stdin,
            stdout: request.stdout,
            // A terminal has one output.
            stderr: request.stderr && !request.tty,
        };
        let answer = self.link.call(methods::EXEC, &question, Repeat::Safe).await;
        let answer = answer.map_err(|err| err.into_error("running a command"))?;
        command::open(&answer.url, &request, &self.tasks).await
    }

    pub(crate) async fn attach(
        &self,
        id: &ContainerId,
        request: ExecRequest,
    ) -> Result<Streams, Error> {
        let has_terminal = self.running(id)?.config.tty;
        let request = ExecRequest { tty: has_terminal, ..request };
        let question = cri::AttachRequest {
            container_id: id.to_string(),
            stdin: request.stdin,
            tty: request.tty,
            stdout: request.stdout,
            stderr: request.stderr && !request.tty,
        };
        let answer = self.link.call(methods::ATTACH, &question, Repeat::Safe).await;
        let answer = answer.map_err(|err| err.into_error("attaching to a container"))?;
        command::open(&answer.url, &request, &self.tasks).await
    }

    pub(crate) async fn connect(
        &self,
        sandbox: &SandboxId,
        port: u16,
    ) -> Result<Box<dyn Connection>, Error> {
        if self.book.sandbox(sandbox).is_none() {
            return Err(Error::NoSandbox(sandbox.clone()));
        }
        let question = cri::PortForwardRequest {
            pod_sandbox_id: sandbox.to_string(),
            port: vec![port.into()],
        };
        let answer = self.link.call(methods::PORT_FORWARD, &question, Repeat::Safe).await;
        let answer = answer.map_err(|err| err.into_error("forwarding a port"))?;
        forward::open(&answer.url, port, &self.tasks).await
    }
}
