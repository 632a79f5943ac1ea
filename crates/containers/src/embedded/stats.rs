//! Who we are, and what containers and sandboxes use.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use node_api::containers::{ContainerStats, FilesystemUsage};
use node_api::sandboxes::{
    Handler, InterfaceUsage, NetworkNamespace, SandboxStats, Status, Traffic, Version,
};
use node_api::{Cgroups as _, ContainerId, Error, SandboxId};

use super::Inner;
use crate::spec::{HANDLERS, NAME};

pub(super) fn version() -> Version {
    Version {
        name: NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api_version: "v1".to_owned(),
    }
}

/// There is nothing between us and the kernel that could be away.
pub(super) fn status() -> Status {
    let handler = Handler { recursive_read_only_mounts: true, user_namespaces: false };
    let handlers = HANDLERS.iter().map(|name| ((*name).to_owned(), handler));
    Status { fault: None, handlers: handlers.collect() }
}

impl Inner {
    pub(super) async fn container_stats(&self, id: &ContainerId) -> Result<ContainerStats, Error> {
        let known = self.known(id)?;
        let usage = self.cgroups.usage(&known.record.cgroup).await?;
        let upper = self.container_directory(&known.sandbox, id).join("upper");
        let counted = tokio::task::spawn_blocking(move || count(&upper))
            .await
            .unwrap_or_else(|err| Err(err.into()))
            .map_err(|err| Error::node(format!("measuring what container {id} wrote"), err))?;
        Ok(ContainerStats { at: self.world.clock.now(), usage, writable_layer: Some(counted) })
    }

    pub(super) async fn sandbox_stats(&self, id: &SandboxId) -> Result<SandboxStats, Error> {
        let Some((sandbox, holder)) = self.book.sandbox(id) else {
            return Err(Error::NoSandbox(id.clone()));
        };
        let usage = self.cgroups.usage(&sandbox.config.cgroup).await?;
        let n_processes = self.cgroups.n_processes(&sandbox.config.cgroup).await?;
        let interfaces = match (sandbox.config.network, holder.process()) {
            (NetworkNamespace::Pod, Some(process)) => interfaces(process.pid())?,
            _ => Vec::new(),
        };
        Ok(SandboxStats { at: self.world.clock.now(), usage, interfaces, n_processes })
    }
}

/// Of the namespace that this process is in; none if it has ended meanwhile.
fn interfaces(holder: i32) -> Result<Vec<InterfaceUsage>, Error> {
    match fs::read_to_string(format!("/proc/{holder}/net/dev")) {
        Ok(text) => Ok(parse(&text)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(err) => Err(Error::node("reading what a pod has sent and received", err)),
    }
}

/// Lines such as `eth0: 100 2 0 0 0 0 0 0 300 4 1 ...`: eight numbers for what was received, then
/// eight for what was sent; bytes are the first and errors the third (proc_pid_net(5)).
fn parse(text: &str) -> Vec<InterfaceUsage> {
    let line = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> =
            numbers.split_ascii_whitespace().map(|it| it.parse().ok()).collect::<Option<_>>()?;
        let traffic =
            |at: usize| Some(Traffic { bytes: *numbers.get(at)?, errors: *numbers.get(at + 2)? });
        let name = name.trim().to_owned();
        let usage = InterfaceUsage { name, received: traffic(0)?, sent: traffic(8)? };
        (usage.name != "lo").then_some(usage)
    };
    text.lines().filter_map(line).collect()
}

/// Bytes on disk and inodes below a directory. What goes meanwhile is not counted.
fn count(directory: &Path) -> io::Result<FilesystemUsage> {
    let mut usage =
        FilesystemUsage { mountpoint: directory.to_owned(), ..FilesystemUsage::default() };
    let mut left: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            usage.used_bytes += metadata.blocks() * 512;
            usage.inodes_used += 1;
            if metadata.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_from_the_kernels_table() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs|bytes\n    \
                    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  \
                    eth0: 100 2 3 0 0 0 0 0 300 4 5 0 0 0 0 0\n";
        let expected = InterfaceUsage {
            name: "eth0".to_owned(),
            received: Traffic { bytes: 100, errors: 3 },
            sent: Traffic { bytes: 300, errors: 5 },
        };
        assert_eq!(parse(text), [expected]);
    }
}
