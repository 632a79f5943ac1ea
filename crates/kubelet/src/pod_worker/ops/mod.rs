//! What a step asks for, carried out. Each returns what became of it; nobody here decides what is
//! next.

mod api;
mod credentials;
mod image;
mod sandbox;
mod start;
mod stop;
mod volumes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use node_api::PodUid;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::objects::Followed;
use crate::pod_facts::{Lookups, PodFacts};
use crate::tokens::Tokens;

pub(super) use api::{delete_pod, write_status};
pub(super) use sandbox::{create_sandbox, ensure_cgroup, remove_logs, tear_down};
pub(super) use start::{Start, start_container};
pub(super) use stop::stop_container;
pub(super) use volumes::set_up_volumes;

/// What became of an action.
pub(super) enum Outcome {
    Done,
    /// Told and logged already where that helps; to be tried again.
    Failed,
    /// The pod ends: nobody waits for it any more.
    Cancelled,
    Volumes {
        wanted: u64,
        paths: BTreeMap<String, PathBuf>,
        renew_at: Option<Timestamp>,
    },
    NotStarted {
        reason: &'static str,
        message: String,
    },
    /// The pod as the API has it now; `None`: there is no such pod.
    Written(Option<Arc<Pod>>),
}

/// What operations on one pod share.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) context: Arc<Context>,
    pub(super) uid: PodUid,
    pub(super) pod: Arc<Pod>,
    pub(super) followed: Arc<Followed>,
    pub(super) tokens: Arc<Tokens>,
    /// Set when the pod ends.
    pub(super) ending: CancellationToken,
    pub(super) volumes: BTreeMap<String, PathBuf>,
    /// Empty until there is a sandbox.
    pub(super) addresses: Vec<std::net::IpAddr>,
}

impl Scene {
    pub(super) fn facts(&self, lookups: Lookups) -> PodFacts {
        let context = &self.context;
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let mut services = context.services.list_namespace(namespace);
        if namespace != "default" {
            let kubernetes = apimachinery::ObjectKey::new("default", "kubernetes");
            services.extend(context.services.get(&kubernetes));
        }
        let is_host = self.pod.spec.as_ref().and_then(|it| it.host_network) == Some(true);
        let directory = context.pod_directory(&self.uid);
        let pod_ips = if is_host { context.host_ips() } else { self.addresses.clone() };
        PodFacts {
            node_name: context.config.node_name.clone(),
            host_ips: context.host_ips(),
            pod_ips,
            allocatable: context.allocatable,
            lookups,
            services,
            volumes: self.volumes.clone(),
            hosts_file: Some(directory.join("etc-hosts")),
            directory,
        }
    }
}
