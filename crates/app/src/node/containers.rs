//! Who runs the containers: we ourselves, or whoever speaks CRI on the socket that was named.

use std::path::Path;
use std::sync::Arc;

use ::containers::Embedded;
use ::containers::cgroups::Tree;
use anyhow::{Context as _, Result};
use cri::Cri;
use lifecycle::Tasks;
use node_api::{Cgroups, Containers, Images, PodNetwork, Sandboxes};
use stdx::World;

use super::{LOG_FILES_MAX, LOG_SIZE_MAX, Settings};

/// The parts of a kubelet that depend on it.
pub(super) struct Opened {
    pub(super) sandboxes: Arc<dyn Sandboxes>,
    pub(super) containers: Arc<dyn Containers>,
    pub(super) images: Arc<dyn Images>,
    pub(super) cgroups: Arc<dyn Cgroups>,
}

/// Which of them, and how.
pub(crate) enum ContainersConfig {
    Embedded(::containers::Config),
    Cri(cri::Config),
}

impl ContainersConfig {
    pub(crate) fn new(settings: &Settings, data_dir: &Path) -> Result<Self> {
        match cri_config(settings) {
            Some(config) => Ok(Self::Cri(config)),
            None => super::containers_config(settings, data_dir).map(Self::Embedded),
        }
    }

    /// Of the logs of each container.
    #[must_use]
    pub(crate) fn with_log_limits(mut self, size_max: u64, files_max: u32) -> Self {
        let (size, files) = match &mut self {
            Self::Embedded(it) => (&mut it.log_size_max, &mut it.log_files_max),
            Self::Cri(it) => (&mut it.log_size_max, &mut it.log_files_max),
        };
        (*size, *files) = (size_max, files_max);
        self
    }

    /// A runtime behind a socket brings a network of its own.
    pub(super) async fn open(
        self,
        data_dir: &Path,
        network: Arc<dyn PodNetwork>,
        world: &World,
        tasks: &Tasks,
    ) -> Result<Opened> {
        match self {
            Self::Embedded(config) => {
                let images = super::open_images(data_dir)?;
                let embedded =
                    Embedded::open(config, images.clone(), network, world.clone(), tasks)
                        .await
                        .context("opening the containers")?;
                Ok(Opened {
                    sandboxes: Arc::new(embedded.clone()),
                    containers: Arc::new(embedded.clone()),
                    images: Arc::new(images),
                    cgroups: Arc::new(embedded.cgroups()),
                })
            }
            Self::Cri(config) => {
                let cgroups = Tree::open(&config.cgroup_root);
                let cgroups = cgroups.context("opening the pods' cgroups")?;
                let cri = open_cri(config, world, tasks).await?;
                Ok(Opened {
                    sandboxes: Arc::new(cri.clone()),
                    containers: Arc::new(cri.clone()),
                    images: Arc::new(cri),
                    cgroups: Arc::new(cgroups),
                })
            }
        }
    }
}

/// `None`: the containers are our own.
pub(super) fn cri_config(settings: &Settings) -> Option<cri::Config> {
    Some(cri::Config {
        cluster: settings.cluster,
        socket: settings.container_runtime.clone()?,
        cgroup_root: settings.cgroup_root.clone(),
        log_size_max: LOG_SIZE_MAX,
        log_files_max: LOG_FILES_MAX,
    })
}

pub(super) async fn open_cri(config: cri::Config, world: &World, tasks: &Tasks) -> Result<Cri> {
    let socket = config.socket.clone();
    Cri::open(config, world.clone(), tasks).await.with_context(|| {
        format!(
            "opening the container runtime at {}: see --container-runtime-endpoint",
            socket.display()
        )
    })
}
