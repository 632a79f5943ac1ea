//! The suite that every implementation passes.

use node_api::containers::ContainerConfig;
use node_api::contract::{self, Command, Fixture, Program};
use node_api::sandboxes::SandboxConfig;
use node_api::{Error, Images};

use crate::bed::Bed;
use crate::daemon::IMAGE;
use crate::image::Image;
use crate::registry;

impl Fixture for Bed {
    fn sandbox(&self, name: &str) -> SandboxConfig {
        Self::sandbox(self, name)
    }

    fn container(&self, name: &str, program: Program) -> ContainerConfig {
        match program {
            // As the first process of its namespace a shell without a trap would not hear SIGTERM.
            Program::RunsForever => {
                Self::container(self, name, "trap 'exit 143' TERM; while :; do sleep 0.05; done")
            }
            Program::IgnoresStop => {
                Self::container(self, name, "trap '' TERM; while :; do sleep 1; done")
            }
            Program::Exits(code) => Self::container(self, name, &format!("exit {code}")),
            Program::CannotStart => ContainerConfig {
                command: vec!["/does/not/exist".to_owned()],
                ..Self::container(self, name, "")
            },
        }
    }

    fn command(&self, command: Command) -> Vec<String> {
        let script = match command {
            Command::Says => "printf out; printf err >&2; exit 3",
            Command::Echoes => "cat",
            Command::RunsForever => "sleep 1000",
        };
        vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()]
    }
}

/// CNI's plugins give one host port to two pods, so nobody looks at those.
pub(crate) async fn sandboxes_keep_their_promises() {
    let bed = Bed::new();
    let node = bed.open().await;
    contract::sandboxes::all(&node.node, &node.node, &bed, None).await;
    bed.leave(node).await;
}

pub(crate) async fn containers_keep_their_promises() {
    let bed = Bed::new();
    let node = bed.open().await;
    contract::containers::all(&node.node, &node.node, &bed).await;
    bed.leave(node).await;
}

pub(crate) async fn images_keep_their_promises() {
    let bed = Bed::new();
    let node = bed.open().await;
    let port = registry::serve(Image::with("PATH=/bin:/sbin")).await;
    let present = format!("127.0.0.1:{port}/box:1");
    let missing = format!("127.0.0.1:{port}/nothing:1");
    contract::images::all(&node.node, &present, &missing).await;
    assert!(node.has_image(), "the other image is still there");
    // It has two names, and CRI cannot take one of them away.
    let error = Images::remove(&node.node, IMAGE).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert!(node.has_image());
    bed.leave(node).await;
}
