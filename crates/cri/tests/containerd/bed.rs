//! What a test stands on: a containerd, a cgroup and an image of busybox.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cri::{Config, Cri};
use futures_util::StreamExt as _;
use lifecycle::Tasks;
use node_api::containers::{ContainerConfig, ContainerState, Containers, Exit};
use node_api::sandboxes::{SandboxConfig, Sandboxes};
use node_api::{ContainerId, Images as _, PodRef, PodUid, SandboxId};
use stdx::World;

use crate::daemon::{Daemon, IMAGE};
use crate::image::Image;

/// Only so that a test that waits for nothing ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

static COUNT: AtomicU32 = AtomicU32::new(0);

fn unique() -> String {
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) struct Bed {
    pub(crate) daemon: Daemon,
    cgroup: Cgroup,
}

/// The pods' cgroups are below it, in every hierarchy.
struct Cgroup(String);

impl Bed {
    pub(crate) fn new() -> Self {
        Self { daemon: Daemon::start(&[]), cgroup: Cgroup(format!("xebec-cri-{}", unique())) }
    }

    pub(crate) async fn open(&self) -> Opened {
        let tasks = Tasks::new();
        let config = Config {
            cluster: "00c0ffee".parse().unwrap(),
            socket: self.daemon.socket(),
            cgroup_root: self.cgroup.0.clone(),
            log_size_max: 10 << 20,
            log_files_max: 5,
        };
        let opened = Cri::open(config, World::system(), &tasks).await;
        Opened {
            node: opened.unwrap_or_else(|err| panic!("{err:?}: {}", self.daemon.log())),
            tasks,
        }
    }

    pub(crate) fn sandbox(&self, name: &str) -> SandboxConfig {
        let uid = format!("{name}-{}", unique());
        SandboxConfig {
            cgroup: format!("kubepods/pod{uid}"),
            ..node_api::fake::plain_sandbox(PodRef {
                namespace: "test".to_owned(),
                name: name.to_owned(),
                uid: PodUid::new(uid.clone()),
            })
        }
    }

    /// A container that runs a shell script.
    pub(crate) fn container(&self, name: &str, script: &str) -> ContainerConfig {
        let image = Image::busybox();
        ContainerConfig {
            command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
            log_path: self.daemon.path("logs").join(unique()).join("0.log"),
            ..node_api::fake::plain_container(
                name,
                node_api::ImageId::new(crate::image::digest(&image.config)),
            )
        }
    }

    /// Removes everything, and sees that it is gone.
    pub(crate) async fn leave(self, node: Opened) {
        let sandboxes: &dyn Sandboxes = &node.node;
        for sandbox in sandboxes.list() {
            sandboxes.remove(&sandbox.id).await.unwrap();
        }
        node.tasks.shutdown(PATIENCE).await.unwrap();
        self.daemon.leave();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let hierarchies = linux::cgroups::Hierarchies::detect().unwrap();
        let _ = hierarchies.cgroup(&self.0).unwrap().remove();
    }
}

pub(crate) struct Opened {
    pub(crate) node: Cri,
    pub(crate) tasks: Tasks,
}

impl Opened {
    pub(crate) fn sandboxes(&self) -> &dyn Sandboxes {
        &self.node
    }

    pub(crate) fn containers(&self) -> &dyn Containers {
        &self.node
    }

    pub(crate) fn has_image(&self) -> bool {
        self.node.find(IMAGE).unwrap().is_some()
    }

    pub(crate) async fn started(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
    ) -> ContainerId {
        let id = self.containers().create(sandbox, config.clone()).await.unwrap();
        self.containers().start(&id).await.unwrap();
        id
    }

    /// Waits until it has exited.
    pub(crate) async fn exit(&self, id: &ContainerId) -> Exit {
        let mut events = self.sandboxes().events();
        loop {
            let container = self.containers().get(id).expect("the container is known");
            if let ContainerState::Exited(exit) = container.state {
                return exit;
            }
            let next = tokio::time::timeout(PATIENCE, events.next()).await;
            next.expect("an event").expect("events go on");
        }
    }
}
