//! What a node that has joined has and knows, kept for its next start and for whoever removes it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use stdx::Cidr;

use crate::cluster::Cluster;
use crate::data_dir::DataDir;

/// Changed by several parts of the node while it runs.
pub(super) struct Record {
    cluster: Mutex<Cluster>,
    data: DataDir,
}

impl Record {
    pub(super) fn new(cluster: Cluster, data: DataDir) -> Arc<Self> {
        Arc::new(Self { cluster: Mutex::new(cluster), data })
    }

    pub(super) fn folder(&self) -> &Path {
        self.data.path()
    }

    pub(super) fn note_ranges(&self, given: &[Cidr]) -> Result<()> {
        self.change(|cluster| {
            if let Some(node) = &mut cluster.node {
                node.pod_cidrs = given.to_vec();
            }
        })
    }

    pub(super) fn note_servers(&self, known: &[SocketAddr]) -> Result<()> {
        self.change(|cluster| {
            if let Some(joined) = &mut cluster.joined {
                joined.others = known.to_vec();
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut Cluster)) -> Result<()> {
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut cluster);
        cluster.save(self.data.path())
    }
}
