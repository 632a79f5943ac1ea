//! `kubectl proxy`, on a port and on a socket.

use std::process::Stdio;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::Child;

use crate::cases::{Case, case};
use crate::expect::says;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-cli] Kubectl client Proxy server should support --unix-socket=/path [Conformance]",
        socket
    ),
    case!(
        "[sig-cli] Kubectl client Proxy server should support proxy with --port 0 [Conformance]",
        port
    ),
];

/// The proxy, which ends with the value, and the line that it says when it serves.
async fn start(scope: &Scope, flag: &str) -> Result<(Child, String)> {
    let mut command = scope.kubectl()?.command(&scope.namespace, &["proxy", flag]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let output = child.stdout.take().context("its output")?;
    let mut line = String::new();
    scope.doing("waiting until kubectl proxy says that it serves");
    BufReader::new(output).read_line(&mut line).await?;
    says("kubectl proxy", &line, &["Starting to serve on "])?;
    Ok((child, line.trim().to_owned()))
}

/// `/api/` names at least one version.
async fn check(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    stream.write_all(b"GET /api/ HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| anyhow!("saw {answer:?}"))?;
    says("the proxy's answer", head.lines().next().unwrap_or_default(), &["200"])?;
    let document: Value = serde_json::from_str(body).with_context(|| body.to_owned())?;
    let versions = document["versions"].as_array();
    ensure!(versions.is_some_and(|it| !it.is_empty()), "expected versions, saw {document}");
    Ok(())
}

async fn port(scope: &Scope) -> Result<()> {
    let (_child, line) = start(scope, "--port=0").await?;
    let address = line.rsplit(' ').next().unwrap_or_default();
    let stream = TcpStream::connect(address).await.with_context(|| address.to_owned())?;
    check(stream).await
}

async fn socket(scope: &Scope) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("proxy");
    let (_child, _) = start(scope, &format!("--unix-socket={}", path.display())).await?;
    check(UnixStream::connect(&path).await?).await
}
