//! The elements that one Service has in the kernel's sets and maps. Pure.

use std::collections::{BTreeMap, BTreeSet};

use linux::netlink::nftables::{Data, Key, Value};

use super::levels::Level;
use super::ruleset::ElementId;
use super::sets::{self, Choice, Scope, key_of, way_of};
use crate::service_port::frontend::{Frontend, cluster_frontend, external_frontends};
use crate::service_port::{Endpoint, ServicePort, TrafficPolicy};

/// The endpoints of a port, named by its ClusterIP, by slot. All frontends of the port have the
/// same.
pub(super) type Slots = BTreeMap<(Frontend, Scope), Vec<Endpoint>>;

/// Whether any traffic of the port chooses among these endpoints. External traffic that stays on
/// this node still needs all for clients in the cluster.
pub(super) fn has_scope(port: &ServicePort, scope: Scope) -> bool {
    let is_external = port.has_external_frontends();
    match scope {
        Scope::Cluster => is_external || port.internal_policy == TrafficPolicy::Cluster,
        Scope::Local => {
            port.internal_policy == TrafficPolicy::Local
                || is_external && port.external_policy == TrafficPolicy::Local
        }
    }
}

const fn scope_of(policy: TrafficPolicy) -> Scope {
    match policy {
        TrafficPolicy::Cluster => Scope::Cluster,
        TrafficPolicy::Local => Scope::Local,
    }
}

/// What one Service has in the kernel where nobody else claims its frontends.
#[derive(Debug, Default)]
pub(super) struct Rendering {
    /// Each with the frontend that it is of, once.
    pub(super) of_frontends: Vec<(Frontend, ElementId, Option<Data>)>,
    /// Those that are of no frontend, and that other Services may have, too.
    pub(super) shared: BTreeSet<ElementId>,
    pub(super) choices: BTreeSet<Choice>,
}

impl Rendering {
    pub(super) fn of(ports: &[ServicePort], slots: &Slots) -> Self {
        let mut rendering = Self::default();
        for port in ports {
            rendering.port(port, slots);
        }
        // The first of two ports at one frontend has it, as of two Services.
        rendering.of_frontends.sort_by(|one, other| one.1.cmp(&other.1));
        rendering.of_frontends.dedup_by(|one, other| one.1 == other.1);
        rendering
    }

    fn add(&mut self, frontend: Frontend, set: &'static str, key: impl Into<Key>) {
        self.of_frontends.push((frontend, (set, key.into()), None));
    }

    fn map(&mut self, frontend: Frontend, set: &'static str, key: impl Into<Key>, data: Data) {
        self.of_frontends.push((frontend, (set, key.into()), Some(data)));
    }

    fn port(&mut self, port: &ServicePort, slots: &Slots) {
        let frontend = cluster_frontend(port);
        self.shared.insert((sets::CLUSTER_IPS, Value::new().address(port.cluster_ip).into()));
        // Of both scopes, even if the ClusterIP needs one: from here a restart takes them over.
        for scope in Scope::BOTH {
            self.endpoints(port, scope, frontend, slots);
        }
        for endpoint in &port.endpoints.local {
            self.shared.insert((sets::HAIRPIN, sets::hairpin(endpoint.address)));
        }
        let scope = scope_of(port.internal_policy);
        if scope == Scope::Local {
            self.add(frontend, sets::INTERNAL_LOCAL, key_of(frontend));
        }
        self.choice(port, scope, frontend, slots);
        self.refusal(port, scope, frontend, slots);
        for frontend in external_frontends(port) {
            self.external(port, frontend, slots);
        }
        self.guard(port);
    }

    fn endpoints(&mut self, port: &ServicePort, scope: Scope, frontend: Frontend, slots: &Slots) {
        for (slot, endpoint) in slots_of(port, scope, slots).iter().enumerate() {
            let data = sets::endpoint(*endpoint);
            self.map(frontend, sets::ENDPOINTS, sets::slot(frontend, scope, slot), data);
            if port.affinity.is_some() {
                self.add(frontend, scope.members(), sets::member(frontend, *endpoint));
            }
        }
    }

    /// Nothing if there is nothing to choose from.
    fn choice(&mut self, port: &ServicePort, scope: Scope, frontend: Frontend, slots: &Slots) {
        let Some(level) = Level::of(slots_of(port, scope, slots).len()) else { return };
        match port.affinity {
            None => self.add(frontend, level.set(scope), key_of(frontend)),
            Some(affinity) => {
                let choice = Choice { affinity, scope, way: way_of(frontend), level };
                self.choices.insert(choice);
                self.map(frontend, scope.sticky(), key_of(frontend), choice.verdict());
            }
        }
    }

    /// A frontend without endpoints: nobody has any, or only this node has none.
    fn refusal(&mut self, port: &ServicePort, scope: Scope, frontend: Frontend, slots: &Slots) {
        if !slots_of(port, scope, slots).is_empty() {
            return;
        }
        let has_endpoints = !port.endpoints.cluster.is_empty();
        let set = if has_endpoints { sets::NO_LOCAL_ENDPOINTS } else { sets::NO_ENDPOINTS };
        self.add(frontend, set, key_of(frontend));
    }

    fn external(&mut self, port: &ServicePort, frontend: Frontend, slots: &Slots) {
        let scope = scope_of(port.external_policy);
        let set = match scope {
            Scope::Cluster => sets::EXTERNAL,
            Scope::Local => sets::EXTERNAL_LOCAL,
        };
        self.add(frontend, set, key_of(frontend));
        for scope in BTreeSet::from([Scope::Cluster, scope]) {
            self.endpoints(port, scope, frontend, slots);
            self.choice(port, scope, frontend, slots);
        }
        self.refusal(port, scope, frontend, slots);
    }

    fn guard(&mut self, port: &ServicePort) {
        let Some(source_ranges) = &port.source_ranges else { return };
        for address in &port.load_balancer_ips {
            let frontend = Frontend { address: *address, ..cluster_frontend(port) };
            self.add(frontend, sets::GUARDED, key_of(frontend));
            for range in source_ranges {
                self.add(frontend, sets::SOURCES, sets::source_range(frontend, *range));
            }
        }
    }
}

fn slots_of<'a>(port: &ServicePort, scope: Scope, slots: &'a Slots) -> &'a [Endpoint] {
    slots.get(&(cluster_frontend(port), scope)).map(Vec::as_slice).unwrap_or_default()
}
