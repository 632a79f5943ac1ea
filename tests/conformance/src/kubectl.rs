//! The real `kubectl`, with the cluster's kubeconfig and the case's namespace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

#[derive(Clone)]
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    context: Option<String>,
}

/// A run that has ended.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Kubectl {
    /// `None` where there is no such program.
    pub(crate) async fn find(
        program: &Path,
        kubeconfig: &Path,
        context: Option<String>,
    ) -> Option<Self> {
        let version = Command::new(program).args(["version", "--client"]).output().await.ok()?;
        let (program, kubeconfig) = (program.to_owned(), kubeconfig.to_owned());
        version.status.success().then_some(Self { program, kubeconfig, context })
    }

    /// Ends with the value that is returned, at the latest.
    pub(crate) fn command(&self, namespace: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(["--namespace", namespace]);
        if let Some(context) = &self.context {
            command.args(["--context", context]);
        }
        command.args(arguments).kill_on_drop(true).stdin(Stdio::null());
        command
    }

    /// With something on standard input; any end is fine.
    pub(crate) async fn run(
        &self,
        namespace: &str,
        arguments: &[&str],
        input: Option<&str>,
    ) -> Result<Ran> {
        let mut command = self.command(namespace, arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().context("starting kubectl")?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // Who does not read its input says why on standard error.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Ok(Ran { code: output.status.code(), stdout, stderr })
    }

    /// Must succeed; returns standard output.
    pub(crate) async fn ok(&self, namespace: &str, arguments: &[&str]) -> Result<String> {
        self.ok_with(namespace, arguments, None).await
    }

    pub(crate) async fn ok_with(
        &self,
        namespace: &str,
        arguments: &[&str],
        input: Option<&str>,
    ) -> Result<String> {
        let ran = self.run(namespace, arguments, input).await?;
        ensure!(ran.code == Some(0), "kubectl {arguments:?}: expected success, saw {}", ran.stderr);
        Ok(ran.stdout)
    }

    /// Must fail; returns standard error.
    pub(crate) async fn refused(
        &self,
        namespace: &str,
        arguments: &[&str],
        input: Option<&str>,
    ) -> Result<String> {
        let ran = self.run(namespace, arguments, input).await?;
        ensure!(ran.code != Some(0), "kubectl {arguments:?}: expected failure, saw {}", ran.stdout);
        Ok(ran.stderr)
    }
}

/// The program that a variable names, or the one on PATH.
pub(crate) fn program() -> PathBuf {
    let named = std::env::var_os("XEBEC_TEST_KUBECTL");
    PathBuf::from(named.unwrap_or_else(|| OsString::from("kubectl")))
}
