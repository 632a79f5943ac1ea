//! postStart and preStop. What a hook says is not shown in events: it may be secret, as upstream
//! has it.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler};
use node_api::{ContainerId, Containers};

use crate::probes::{http, port};

/// Nobody set a limit: the caller's deadline is what ends a hook. This one only bounds what cannot
/// be cancelled from here.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// How much of a command's output is kept for the error.
const OUTPUT_MAX: usize = 1024;

/// Reason and text of the event when a hook fails.
pub const FAILED_POST_START: (&str, &str) = ("FailedPostStartHook", "PostStartHook failed");
pub const FAILED_PRE_STOP: (&str, &str) = ("FailedPreStopHook", "PreStopHook failed");

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("command {command:?} exited with {code}: {output}")]
    Exited { command: String, code: i32, output: String },
    #[error("running command {command:?}")]
    Exec {
        command: String,
        #[source]
        source: node_api::Error,
    },
    #[error("{0}")]
    Http(String),
    #[error("invalid handler: neither exec, httpGet, sleep nor tcpSocket")]
    Empty,
}

/// Runs to its end; the caller sets a deadline by dropping it. `address` is the pod's, for HTTP
/// hooks without a host.
pub async fn run(
    containers: &dyn Containers,
    container: &Container,
    id: &ContainerId,
    hook: &LifecycleHandler,
    address: Option<IpAddr>,
) -> Result<(), Error> {
    if let Some(exec) = &hook.exec {
        return run_command(containers, id, exec.command.clone().unwrap_or_default()).await;
    }
    if let Some(get) = &hook.http_get {
        return call(container, get, address).await.map_err(Error::Http);
    }
    if let Some(sleep) = &hook.sleep {
        let seconds = u64::try_from(sleep.seconds).unwrap_or_default();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        return Ok(());
    }
    // Upstream takes it and does nothing.
    if hook.tcp_socket.is_some() { Ok(()) } else { Err(Error::Empty) }
}

async fn run_command(
    containers: &dyn Containers,
    id: &ContainerId,
    command: Vec<String>,
) -> Result<(), Error> {
    let line = command.join(" ");
    match containers.exec_output(id, command, TIMEOUT, OUTPUT_MAX).await {
        Ok(output) if output.code == 0 => Ok(()),
        Ok(output) => {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            Err(Error::Exited { command: line, code: output.code, output: text })
        }
        Err(source) => Err(Error::Exec { command: line, source }),
    }
}

/// Any answer will do.
async fn call(
    container: &Container,
    get: &HTTPGetAction,
    address: Option<IpAddr>,
) -> Result<(), String> {
    let host = get.host.clone().filter(|it| !it.is_empty());
    let host = host.or_else(|| address.map(|it| it.to_string())).ok_or("pod has no address")?;
    let port = port(&get.port, container)?;
    let request = http::Request::new(get, &host, port, http::HOOK_AGENT)?;
    request.send(TIMEOUT).await.map(|_| ())
}

/// What is left for a container to end by itself, after its preStop hook took its share. The hook
/// is not given more than the grace period, and the container always gets a little: upstream's two
/// seconds.
pub fn grace_left(grace: Duration, hook_took: Duration) -> Duration {
    const LEAST: Duration = Duration::from_secs(2);
    grace.saturating_sub(hook_took).max(LEAST)
}
