//! The suite on the fake.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stdx::{Cidr, World};

use super::{Command, Fixture, Program};
use crate::containers::ContainerConfig;
use crate::fake::{Exec, Node};
use crate::network::Namespace;
use crate::sandboxes::SandboxConfig;
use crate::{ImageId, PodRef, PodUid};

/// Scripts the node for every configuration it gives out.
struct Scripted {
    node: Node,
    world: World,
}

impl Scripted {
    fn new() -> Self {
        let world = World::simulated(1);
        Self { node: Node::new(&world), world }
    }
}

impl Fixture for Scripted {
    fn sandbox(&self, name: &str) -> SandboxConfig {
        SandboxConfig {
            cgroup: "kubepods/pod1".to_owned(),
            ..crate::fake::plain_sandbox(PodRef {
                namespace: "contract".to_owned(),
                name: name.to_owned(),
                uid: PodUid::new(self.world.random.uuid()),
            })
        }
    }

    fn container(&self, name: &str, program: Program) -> ContainerConfig {
        let scripted = match program {
            Program::RunsForever => crate::fake::Program::forever(),
            Program::IgnoresStop => crate::fake::Program::forever().ignores_stop(),
            Program::Exits(code) => crate::fake::Program::exits(Duration::from_secs(1), code),
            Program::CannotStart => crate::fake::Program::refused("no such file"),
        };
        self.node.script(name, [scripted]);
        self.node.on_exec(name, |command| match command.join(" ").as_str() {
            "says" => Exec::exits(3).stdout("out").stderr("err"),
            "echoes" => Exec::echoes(),
            _ => Exec::forever(),
        });
        ContainerConfig {
            log_path: format!("/fake/logs/{name}/0.log").into(),
            ..crate::fake::plain_container(name, ImageId::new("sha256:0"))
        }
    }

    fn command(&self, command: Command) -> Vec<String> {
        let word = match command {
            Command::Says => "says",
            Command::Echoes => "echoes",
            Command::RunsForever => "forever",
        };
        vec![word.to_owned()]
    }
}

#[derive(Debug)]
struct NoNamespaces;

impl super::network::Namespaces for NoNamespaces {
    fn make(&self, _name: &str) -> Arc<dyn Namespace> {
        Arc::new(Self)
    }
}

impl Namespace for NoNamespaces {
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn the_fake_keeps_the_promises_of_sandboxes() {
    let fixture = Scripted::new();
    super::sandboxes::all(&fixture.node, &fixture.node, &fixture, Some(8080)).await;
}

#[tokio::test(start_paused = true)]
async fn the_fake_keeps_the_promises_of_containers() {
    let fixture = Scripted::new();
    super::containers::all(&fixture.node, &fixture.node, &fixture).await;
}

#[tokio::test(start_paused = true)]
async fn the_fake_keeps_the_promises_of_images() {
    let node = Scripted::new().node;
    node.serve_image("nginx", crate::images::ImageConfig::default()).unwrap();
    super::images::all(&node, "nginx", "registry.test/missing:1").await;
}

#[tokio::test(start_paused = true)]
async fn the_fake_keeps_the_promises_of_volumes() {
    super::volumes::all(&Scripted::new().node, Path::new("/srv")).await;
}

#[tokio::test(start_paused = true)]
async fn the_fake_keeps_the_promises_of_cgroups() {
    super::cgroups::all(&Scripted::new().node, "contract").await;
}

#[tokio::test(start_paused = true)]
async fn the_fake_keeps_the_promises_of_the_network() {
    let node = Scripted::new().node;
    let cidrs = ["10.244.0.0/24", "fd00::/64"].map(|it| it.parse::<Cidr>().unwrap());
    for cidrs in [vec![cidrs[0]], vec![cidrs[1]], cidrs.to_vec(), vec![cidrs[1], cidrs[0]]] {
        node.set_pod_cidrs(cidrs.clone());
        let families: Vec<_> = cidrs.iter().map(|it| it.family()).collect();
        super::network::all(&node, &NoNamespaces, &families, 8080).await;
    }
    let (lose, mend) = (|it: &_| node.lose_network(it, "gone"), |it: &_| node.mend_network(it));
    super::network::a_loss_is_told_until_it_is_mended(&node, &NoNamespaces, lose, mend).await;
}
