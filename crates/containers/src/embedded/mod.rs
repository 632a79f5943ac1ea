//! The node's own containers: directories, holders and what is known of them.
//!
//! Layout: `<directory>/sandboxes/<id>/{sandbox.json, holder.json, sock, resolv.conf, hostname,
//! shm/, containers/<id>/...}`, and for a container `{container.json, config.json, started.json,
//! exit.json, root/, upper/, work/}`.

mod adopt;
mod book;
mod containers;
mod follow;
mod found;
mod link;
mod pipes;
mod pod_files;
mod process;
mod recorded;
mod roots;
mod sandboxes;
mod seccomp_profile;
mod spawn;
mod stats;
mod streams;
mod terminal;
mod unreadable;
mod watched;

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lifecycle::Tasks;
use node_api::containers::{
    Connection, Container, ContainerConfig, ContainerStats, Containers, ExecRequest, Output,
    Resources, Streams, Usage,
};
use node_api::sandboxes::{Sandbox, SandboxConfig, SandboxStats, Status, Version};
use node_api::{
    Cgroups as _, ContainerId, Error, Events, Future, PodNetwork, SandboxId, Sandboxes, network,
};
use stdx::World;
use tokio::sync::{oneshot, watch};

use self::book::Book;
pub use self::roots::{Root, Roots};
use self::sandboxes::IfSilent;
use self::spawn::Program;
pub use self::unreadable::Unreadable;
use crate::Config;
use crate::cgroups::Tree;
use crate::spec::Machine;

/// Implements [`Sandboxes`] and [`Containers`]. Cheap to clone.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    program: Arc<Program>,
    roots: Box<dyn Roots>,
    network: Arc<dyn PodNetwork>,
    cgroups: Tree,
    machine: Machine,
    world: World,
    tasks: Tasks,
    book: Book,
    status: watch::Sender<Status>,
}

impl Embedded {
    /// Finds every holder that is still there, and adopts it.
    pub async fn open(
        config: Config,
        images: impl Roots + 'static,
        network: Arc<dyn PodNetwork>,
        world: World,
        tasks: &Tasks,
    ) -> Result<Self, Error> {
        let cgroups = Tree::open(&config.cgroup_root)?;
        let program = Program::open(&config.program).map_err(|err| {
            Error::node(format!("opening {} for holders", config.program.display()), err)
        })?;
        let inner = Inner {
            config,
            program: Arc::new(program),
            roots: Box::new(images),
            network,
            cgroups,
            machine: Machine::detect().map_err(|err| Error::node("looking at the machine", err))?,
            world,
            tasks: tasks.child("containers"),
            book: Book::default(),
            status: watch::Sender::new(stats::status()),
        };
        let directory = inner.sandboxes_directory();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .map_err(|err| Error::node(format!("making {}", directory.display()), err))?;
        // Holders are out of our own cgroup: whoever stops that one must not stop pods.
        inner.cgroups.ensure("holders", Resources::default()).await?;
        let inner = Arc::new(inner);
        inner.adopt_all().await?;
        Ok(Self { inner })
    }

    /// The tree that pods' and containers' cgroups are in.
    pub fn cgroups(&self) -> Tree {
        self.inner.cgroups.clone()
    }

    /// What was found and left alone, because it cannot be read.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.inner.book.unreadable().into_iter().map(|it| it.report).collect()
    }

    /// Stops and removes everything: sandboxes, cgroups, files. Also what is silent or unreadable:
    /// nothing is to be left.
    pub async fn purge(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        for kept in self.inner.book.unreadable() {
            errors.extend(self.inner.purge_unreadable(&kept).await.err());
        }
        for sandbox in self.inner.book.sandboxes() {
            errors.extend(self.inner.remove_sandbox(&sandbox.id, IfSilent::Kill).await.err());
        }
        for name in ["holders", "kubepods", ""] {
            errors.extend(self.inner.remove_unused_cgroup(name).await.err());
        }
        errors.extend(self.inner.remove_directory().await.err());
        errors
    }
}

impl Inner {
    fn sandboxes_directory(&self) -> PathBuf {
        self.config.directory.join("sandboxes")
    }

    fn sandbox_directory(&self, id: &SandboxId) -> PathBuf {
        self.sandboxes_directory().join(id.as_str())
    }

    fn container_directory(&self, sandbox: &SandboxId, id: &ContainerId) -> PathBuf {
        self.sandbox_directory(sandbox).join("containers").join(id.as_str())
    }

    /// 64 hexadecimal digits.
    fn new_id(&self) -> String {
        let mut bytes = [0; 32];
        self.world.random.fill(&mut bytes);
        bytes.iter().map(|it| format!("{it:02x}")).collect()
    }

    /// Runs to its end even if the caller loses interest: what it does must not be left half done.
    async fn finish<T, F>(self: &Arc<Self>, name: &str, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: std::future::Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (done, result) = oneshot::channel();
        self.tasks.spawn(name, |_| async move {
            let _ = done.send(work.await);
        });
        result.await.unwrap_or_else(|_| Err(Error::node(name, "it ended early")))
    }

    /// Others may use the same names, perhaps we ourselves: only what nobody uses is ours to
    /// remove.
    async fn remove_unused_cgroup(&self, name: &str) -> Result<(), Error> {
        let path = self.cgroups.path(name);
        if path == "/" {
            return Ok(());
        }
        let doing = format!("removing cgroup {path}");
        let is_root = name.is_empty();
        let remove = move || -> Result<(), linux::cgroups::Error> {
            let cgroup = linux::cgroups::Hierarchies::detect()?.cgroup(&path)?;
            let is_used =
                !cgroup.processes()?.is_empty() || (is_root && !cgroup.children()?.is_empty());
            if !is_used {
                cgroup.remove()?;
            }
            Ok(())
        };
        match tokio::task::spawn_blocking(remove).await {
            Ok(removed) => removed.map_err(|err| Error::node(doing, err)),
            Err(err) => Err(Error::node(doing, err)),
        }
    }

    async fn remove_directory(&self) -> Result<(), Error> {
        let directory = self.config.directory.clone();
        let doing = format!("removing {}", directory.display());
        tokio::task::spawn_blocking(move || sandboxes::remove_directory(&directory))
            .await
            .unwrap_or_else(|err| Err(err.into()))
            .map_err(|err| Error::node(doing, err))
    }
}

impl Sandboxes for Embedded {
    fn version(&self) -> Version {
        stats::version()
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.inner.status.subscribe()
    }

    fn stats(&self, id: &SandboxId) -> Future<'_, SandboxStats> {
        let id = id.clone();
        Box::pin(async move { self.inner.sandbox_stats(&id).await })
    }

    fn create(&self, config: SandboxConfig) -> Future<'_, Sandbox> {
        Box::pin(async move {
            let inner = self.inner.clone();
            let work = async move { inner.create_sandbox(config).await };
            self.inner.finish("create-sandbox", work).await
        })
    }

    fn stop(&self, id: &SandboxId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let inner = self.inner.clone();
            let work = async move { inner.stop_sandbox(&id, IfSilent::Refuse).await };
            self.inner.finish("stop-sandbox", work).await
        })
    }

    fn remove(&self, id: &SandboxId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let inner = self.inner.clone();
            let work = async move { inner.remove_sandbox(&id, IfSilent::Refuse).await };
            self.inner.finish("remove-sandbox", work).await
        })
    }

    fn list(&self) -> Vec<Sandbox> {
        self.inner.book.sandboxes()
    }

    fn events(&self) -> Events {
        self.inner.book.events()
    }

    fn network(&self) -> watch::Receiver<network::Status> {
        self.inner.network.status()
    }
}

impl Containers for Embedded {
    fn create(&self, sandbox: &SandboxId, config: ContainerConfig) -> Future<'_, ContainerId> {
        let sandbox = sandbox.clone();
        Box::pin(async move {
            let inner = self.inner.clone();
            let work = async move { inner.create_container(&sandbox, config).await };
            self.inner.finish("create-container", work).await
        })
    }

    fn start(&self, id: &ContainerId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let inner = self.inner.clone();
            let work = async move { inner.start_container(&id).await };
            self.inner.finish("start-container", work).await
        })
    }

    /// Waits for the container alone: a caller that goes away leaves nothing half done.
    fn stop(&self, id: &ContainerId, grace: Duration) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move { self.inner.stop_container(&id, grace).await })
    }

    fn remove(&self, id: &ContainerId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let inner = self.inner.clone();
            let work = async move { inner.remove_container(&id).await };
            self.inner.finish("remove-container", work).await
        })
    }

    fn list(&self, sandbox: Option<&SandboxId>) -> Vec<Container> {
        self.inner.book.containers(sandbox)
    }

    fn get(&self, id: &ContainerId) -> Option<Container> {
        self.inner.book.container(id)
    }

    fn update_resources(&self, id: &ContainerId, resources: Resources) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let inner = self.inner.clone();
            let work = async move { inner.update_resources(&id, resources).await };
            self.inner.finish("update-container", work).await
        })
    }

    fn resources(&self, id: &ContainerId) -> Future<'_, Resources> {
        let id = id.clone();
        Box::pin(async move { self.inner.resources(&id).await })
    }

    fn exec(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        let id = id.clone();
        Box::pin(async move { self.inner.exec(&id, request).await })
    }

    fn exec_output(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
        limit: usize,
    ) -> Future<'_, Output> {
        let id = id.clone();
        Box::pin(async move { self.inner.exec_output(&id, command, timeout, limit).await })
    }

    fn attach(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        let id = id.clone();
        Box::pin(async move { self.inner.attach(&id, request).await })
    }

    fn connect(&self, sandbox: &SandboxId, port: u16) -> Future<'_, Box<dyn Connection>> {
        let sandbox = sandbox.clone();
        Box::pin(async move { self.inner.connect(&sandbox, port).await })
    }

    fn usage(&self, id: &ContainerId) -> Future<'_, Usage> {
        let id = id.clone();
        Box::pin(async move { self.inner.usage(&id).await })
    }

    fn stats(&self, id: &ContainerId) -> Future<'_, ContainerStats> {
        let id = id.clone();
        Box::pin(async move { self.inner.container_stats(&id).await })
    }
}
