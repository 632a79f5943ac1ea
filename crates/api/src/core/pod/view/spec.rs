//! What those keep of a pod's spec who place pods, route to them or pretend to run them. Pods of
//! one template are equal in it but for the node, so there is one for all of them.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use k8s_openapi::api::core::v1::{Affinity, Toleration};
use serde::Deserialize;

use super::held::Held;
use super::volumes::Volume;
use crate::interned::Table;
use crate::{Interned, Pairs};

static SPECS: LazyLock<Table<PodSpecView>> = LazyLock::new(Table::default);

/// What a pod asks for, wherever it runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSpecView {
    pub containers: Box<[ContainerView]>,
    pub init_containers: Box<[ContainerView]>,
    /// Empty: the default one.
    pub scheduler_name: Interned,
    pub priority: i32,
    pub node_selector: Pairs,
    pub affinity: Option<Box<Affinity>>,
    pub tolerations: Box<[Toleration]>,
    pub overhead: Pairs,
    /// Of the pod as a whole, whatever its containers ask for.
    pub requests: Pairs,
    pub has_gates: bool,
    /// Whether it may not be placed where it would be spread worse than it says.
    pub must_spread: bool,
    pub has_claims: bool,
    pub has_ephemeral_claims: bool,
    pub host_network: bool,
    /// Empty: none was asked for.
    pub hostname: Interned,
    pub subdomain: Interned,
    /// The PodGroup that it is scheduled with; empty: none.
    pub pod_group: Interned,
}

// No field is a number that differs from itself.
impl Eq for PodSpecView {}

/// Of what most specs differ in; the others are compared.
impl Hash for PodSpecView {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.containers, &self.init_containers, &self.node_selector).hash(state);
        (&self.priority, &self.hostname, &self.tolerations.len()).hash(state);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerView {
    pub name: Interned,
    pub image: Interned,
    /// Of init containers: goes on running beside the others.
    pub is_sidecar: bool,
    pub requests: Pairs,
    /// While it is being resized: what counts in place of `requests`, because its node holds more
    /// for it than it asks for now, or will never give it that. Empty: `requests` do.
    pub held: Pairs,
    pub ports: Box<[PortView]>,
}

impl ContainerView {
    /// What a pod on a node takes of it for this container.
    pub fn counted(&self) -> &Pairs {
        if self.held.is_empty() { &self.requests } else { &self.held }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortView {
    /// Empty: none.
    pub name: Interned,
    pub number: i32,
    /// 0: none.
    pub host_port: i32,
    /// Empty: every address.
    pub host_ip: Interned,
    /// Empty: `TCP`.
    pub protocol: Interned,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parts {
    node_name: Option<Interned>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    scheduler_name: Option<Interned>,
    priority: Option<i32>,
    node_selector: Option<Pairs>,
    affinity: Option<Box<Affinity>>,
    tolerations: Option<Box<[Toleration]>>,
    overhead: Option<Pairs>,
    resources: Option<Resources>,
    scheduling_gates: Option<Vec<There>>,
    topology_spread_constraints: Option<Vec<Spread>>,
    host_network: Option<bool>,
    hostname: Option<Interned>,
    subdomain: Option<Interned>,
    scheduling_group: Option<SchedulingGroup>,
    /// Of each pod: not shared.
    pub(super) resource_claims: Option<Vec<super::claims::SpecClaim>>,
    pub(super) volumes: Option<Vec<Volume>>,
    pub(super) readiness_gates: Option<Vec<Gate>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gate {
    pub(super) condition_type: Option<Interned>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchedulingGroup {
    pod_group_name: Option<Interned>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: Option<Interned>,
    image: Option<Interned>,
    restart_policy: Option<Interned>,
    resources: Option<Resources>,
    ports: Option<Vec<Port>>,
}

#[derive(Deserialize)]
struct Resources {
    requests: Option<Pairs>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port {
    name: Option<Interned>,
    container_port: Option<i32>,
    host_port: Option<i32>,
    #[serde(rename = "hostIP")]
    host_ip: Option<Interned>,
    protocol: Option<Interned>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spread {
    when_unsatisfiable: Option<Interned>,
}

/// That something is there, whatever it is.
#[derive(Deserialize)]
pub(super) struct There {}

impl Parts {
    /// The node, and the rest as all have it who ask for the same.
    pub(super) fn shared(self, held: &Held<'_>) -> (Interned, Arc<PodSpecView>) {
        let volumes = self.volumes.unwrap_or_default();
        let is_hard = |it: &Spread| it.when_unsatisfiable.as_deref() == Some("DoNotSchedule");
        let spec = PodSpecView {
            containers: containers(self.containers, held),
            init_containers: containers(self.init_containers, held),
            scheduler_name: self.scheduler_name.unwrap_or_default(),
            priority: self.priority.unwrap_or(0),
            node_selector: self.node_selector.unwrap_or_default(),
            affinity: self.affinity,
            tolerations: self.tolerations.unwrap_or_default(),
            overhead: self.overhead.unwrap_or_default(),
            requests: self.resources.and_then(|it| it.requests).unwrap_or_default(),
            has_gates: self.scheduling_gates.is_some_and(|it| !it.is_empty()),
            must_spread: self.topology_spread_constraints.iter().flatten().any(is_hard),
            has_claims: volumes.iter().any(Volume::is_claim),
            has_ephemeral_claims: volumes.iter().any(Volume::is_ephemeral),
            host_network: self.host_network.unwrap_or(false),
            hostname: self.hostname.unwrap_or_default(),
            subdomain: self.subdomain.unwrap_or_default(),
            pod_group: self.scheduling_group.and_then(|it| it.pod_group_name).unwrap_or_default(),
        };
        (self.node_name.unwrap_or_default(), SPECS.one(spec))
    }
}

fn containers(containers: Option<Vec<Container>>, held: &Held<'_>) -> Box<[ContainerView]> {
    let containers = containers.unwrap_or_default().into_iter();
    containers
        .map(|it| {
            let name = it.name.unwrap_or_default();
            let requests = it.resources.and_then(|it| it.requests).unwrap_or_default();
            ContainerView {
                held: held.of(&name, &requests),
                name,
                image: it.image.unwrap_or_default(),
                is_sidecar: it.restart_policy.as_deref() == Some("Always"),
                requests,
                ports: it.ports.unwrap_or_default().into_iter().map(port).collect(),
            }
        })
        .collect()
}

fn port(port: Port) -> PortView {
    PortView {
        name: port.name.unwrap_or_default(),
        number: port.container_port.unwrap_or(0),
        host_port: port.host_port.unwrap_or(0),
        host_ip: port.host_ip.unwrap_or_default(),
        protocol: port.protocol.unwrap_or_default(),
    }
}
