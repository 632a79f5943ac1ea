//! Any container runtime that speaks CRI v1 on a Unix socket, as the node's containers and images.
//!
//! [`Cri`] implements [`node_api::Sandboxes`], [`node_api::Containers`] and [`node_api::Images`].
//! Promises: reads come from memory; every call has a deadline and a bound for its answer; what may
//! be asked twice is asked again when the socket comes back, and silence is not taken for death.
//! The runtime brings the pods' network (CNI); pods' cgroups are the kubelet's, and their names go
//! along as `cgroup_parent`.

mod book;
mod containers;
mod convert;
mod error;
mod follow;
mod images;
mod link;
mod logs;
mod messages;
mod methods;
mod refusals;
mod sandboxes;
mod streams;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lifecycle::Tasks;
use node_api::images::Image;
use node_api::sandboxes::{Status, Version};
use node_api::{ClusterId, Error, network};
use stdx::World;
use tokio::sync::{Notify, watch};

use book::Book;
use link::{Link, Repeat};
use messages::VersionRequest;
use refusals::Abilities;

pub struct Config {
    /// Whose pods they are: others in the same runtime are left alone.
    pub cluster: ClusterId,
    /// The runtime's socket.
    pub socket: PathBuf,
    /// The cgroup that the pods' cgroups are below, from the hierarchies' root.
    pub cgroup_root: String,
    pub log_size_max: u64,
    pub log_files_max: u32,
}

#[derive(Debug, thiserror::Error)]
#[error("container runtime endpoint {0:?} is not of the form unix:///path/of/the/socket")]
pub struct ParseEndpointError(String);

/// `unix:///run/containerd/containerd.sock`; a plain path is taken too, as upstream takes it.
pub fn parse_endpoint(text: &str) -> Result<PathBuf, ParseEndpointError> {
    let path = PathBuf::from(text.strip_prefix("unix://").unwrap_or(text));
    match path.is_absolute() && path.file_name().is_some() {
        true => Ok(path),
        false => Err(ParseEndpointError(text.to_owned())),
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Cri {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    link: Link,
    world: World,
    tasks: Tasks,
    version: Version,
    book: Book,
    /// In the runtime's order. Read by `find`, which may not wait.
    images: Mutex<Arc<Vec<Image>>>,
    abilities: Mutex<Abilities>,
    status: watch::Sender<Status>,
    network: watch::Sender<network::Status>,
    /// Something happened that the next look should not wait for.
    look: Notify,
}

impl Cri {
    /// Returns when the runtime has told who it is and what it has.
    pub async fn open(config: Config, world: World, tasks: &Tasks) -> Result<Self, Error> {
        let tasks = tasks.child("cri");
        let link = Link::new(&config.socket, &tasks);
        let question = VersionRequest { version: "v1".to_owned() };
        let answer = link.call(methods::VERSION, &question, Repeat::Safe).await;
        let answer =
            answer.map_err(|err| err.into_node("asking the container runtime's version"))?;
        let version = Version {
            name: answer.runtime_name,
            version: answer.runtime_version,
            api_version: answer.runtime_api_version,
        };
        let inner = Inner {
            abilities: Mutex::new(Abilities::of(&version)),
            config,
            link,
            world,
            tasks,
            version,
            book: Book::default(),
            images: Mutex::default(),
            status: watch::Sender::default(),
            network: watch::Sender::default(),
            look: Notify::new(),
        };
        let inner = Arc::new(inner);
        inner.look_at_all().await?;
        follow::spawn(&inner);
        logs::spawn(&inner);
        Ok(Self { inner })
    }
}

impl Inner {
    fn abilities(&self) -> MutexGuard<'_, Abilities> {
        self.abilities.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::parse_endpoint;

    #[test]
    fn endpoints_are_sockets_of_this_machine() {
        let check = |text: &str, expected: Option<&str>| {
            let path = parse_endpoint(text).ok();
            assert_eq!(path.as_deref().and_then(|it| it.to_str()), expected, "{text}");
        };
        check("unix:///run/containerd/containerd.sock", Some("/run/containerd/containerd.sock"));
        check("/run/crio/crio.sock", Some("/run/crio/crio.sock"));
        check("tcp://127.0.0.1:80", None);
        check("unix://relative", None);
        check("", None);
    }
}
