//! What the maps should hold for the Services, and what a change of one of them changes. Pure.
//!
//! Not here is what only packets' rules can decide: addresses that only some may use
//! (`loadBalancerSourceRanges`), and frontends without endpoints, which those refuse or drop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::bpf::Entries;

use super::layout::{
    Table, choice_bytes, endpoint_bytes, frontend_bytes, member_bytes, read_endpoint, read_slot,
    slot_bytes,
};
use crate::backends::nftables::slots;
use crate::service_port::frontend::{Frontend, cluster_frontend, external_frontends, frontends};
use crate::service_port::{Endpoint, Protocol, ServicePort, TrafficPolicy};

/// Where sockets that ask for a frontend are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    /// By their slots: stays as like as can be when endpoints come and go.
    endpoints: Arc<[Endpoint]>,
    affinity: Option<Duration>,
}

/// Of one Service.
#[derive(Debug, Default)]
struct Known {
    ports: Vec<ServicePort>,
    /// `None`: none of ours, but no other Service's either.
    choices: BTreeMap<Frontend, Option<Choice>>,
}

/// Entries of one map by their keys.
pub(super) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// From what a map holds to what it should.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) puts: Entries,
    pub(super) removals: Vec<Vec<u8>>,
}

/// Of the maps whose contents are decided here: [`Table::Frontends`], [`Table::Slots`] and
/// [`Table::Members`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) frontends: Difference,
    pub(super) slots: Difference,
    pub(super) members: Difference,
}

#[derive(Debug, Default)]
pub(super) struct Ruleset {
    services: BTreeMap<Arc<ObjectKey>, Known>,
    /// Those that claim a frontend: the first by name has it.
    owners: BTreeMap<Frontend, BTreeSet<Arc<ObjectKey>>>,
    /// What the maps hold of frontends that have changed since they were last told.
    touched: BTreeMap<Frontend, Option<Choice>>,
    /// What the kernel held at the start, of Services that have not come yet.
    adopted: BTreeMap<Frontend, Vec<Endpoint>>,
}

impl Ruleset {
    /// Services that come take the slots that the kernel's map has for them.
    pub(super) fn adopt(&mut self, slots: &Entries) {
        let mut found: BTreeMap<Frontend, BTreeMap<u32, Endpoint>> = BTreeMap::new();
        for (key, value) in slots {
            let read = read_slot(key).zip(read_endpoint(value));
            let Some(((frontend, slot), endpoint)) = read else { continue };
            found.entry(frontend).or_default().insert(slot, endpoint);
        }
        let slots = found.into_iter().map(|(frontend, it)| (frontend, it.into_values().collect()));
        self.adopted = slots.collect();
    }

    /// From now on the Service has these ports; none if it is gone.
    pub(super) fn set(&mut self, service: &ObjectKey, ports: Vec<ServicePort>) {
        let (owner, before) = match self.services.remove_entry(service) {
            Some(it) => it,
            None if ports.is_empty() => return,
            None => (Arc::new(service.clone()), Known::default()),
        };
        let choices = self.choices(&ports, &before.choices);
        let (had, has) = (frontends(&before.ports), frontends(&ports));
        // As it was, before anything moves.
        self.services.insert(owner.clone(), before);
        for frontend in had.union(&has) {
            let choice = self.choice(frontend).cloned();
            self.touched.entry(*frontend).or_insert(choice);
        }
        for frontend in had.difference(&has) {
            if let Some(owners) = self.owners.get_mut(frontend) {
                owners.remove(&owner);
                if owners.is_empty() {
                    self.owners.remove(frontend);
                }
            }
        }
        for frontend in has {
            self.owners.entry(frontend).or_default().insert(owner.clone());
        }
        if ports.is_empty() {
            self.services.remove(&owner);
        } else {
            self.services.insert(owner, Known { ports, choices });
        }
    }

    fn choices(
        &mut self,
        ports: &[ServicePort],
        before: &BTreeMap<Frontend, Option<Choice>>,
    ) -> BTreeMap<Frontend, Option<Choice>> {
        let mut choices = BTreeMap::new();
        for port in ports {
            let at_cluster_ip = cluster_frontend(port);
            let is_guarded = |it: &Frontend| {
                port.source_ranges.is_some() && port.load_balancer_ips.contains(&it.address)
            };
            for frontend in external_frontends(port).chain([at_cluster_ip]) {
                let adopted = self.adopted.remove(&frontend).unwrap_or_default();
                let before = before.get(&frontend).and_then(Option::as_ref);
                let previous = before.map_or(&*adopted, |it| &it.endpoints);
                let endpoints = slots::assign(previous, wanted(port, frontend == at_cluster_ip));
                let is_here = port.protocol != Protocol::Sctp
                    && !endpoints.is_empty()
                    && !is_guarded(&frontend);
                let choice = Choice { endpoints: endpoints.into(), affinity: port.affinity };
                choices.insert(frontend, is_here.then_some(choice));
            }
        }
        choices
    }

    fn choice(&self, frontend: &Frontend) -> Option<&Choice> {
        let owner = self.owners.get(frontend)?.first()?;
        self.services.get(owner)?.choices.get(frontend)?.as_ref()
    }

    /// From what the maps held when changes were last taken to what they should hold now.
    pub(super) fn take_changes(&mut self) -> Changes {
        let (mut before, mut after) = (Maps::default(), Maps::default());
        for (frontend, choice) in std::mem::take(&mut self.touched) {
            let now = self.choice(&frontend);
            if choice.as_ref() != now {
                choice.iter().for_each(|it| before.add(&frontend, it));
                now.into_iter().for_each(|it| after.add(&frontend, it));
            }
        }
        after.since(&before)
    }

    /// All that the maps should hold.
    pub(super) fn maps(&self) -> Maps {
        let mut maps = Maps::default();
        for frontend in self.owners.keys() {
            self.choice(frontend).into_iter().for_each(|it| maps.add(frontend, it));
        }
        maps
    }

    pub(super) fn ports(&self, service: &ObjectKey) -> &[ServicePort] {
        self.services.get(service).map(|it| &*it.ports).unwrap_or_default()
    }

    pub(super) fn all_ports(&self) -> impl Iterator<Item = &[ServicePort]> {
        self.services.values().map(|it| &*it.ports)
    }
}

/// Whoever asks from this node or its pods is in the cluster: of frontends outside he has all
/// endpoints, whatever their policy.
fn wanted(port: &ServicePort, is_cluster_ip: bool) -> &BTreeSet<Endpoint> {
    let is_local = is_cluster_ip && port.internal_policy == TrafficPolicy::Local;
    if is_local { &port.endpoints.local } else { &port.endpoints.cluster }
}

/// Contents of the maps that are decided here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Maps {
    pub(super) frontends: Contents,
    pub(super) slots: Contents,
    pub(super) members: Contents,
}

impl Maps {
    fn add(&mut self, frontend: &Frontend, choice: &Choice) {
        let Choice { endpoints, affinity } = choice;
        let n_slots = u32::try_from(endpoints.len()).unwrap_or(u32::MAX);
        let value = choice_bytes(n_slots, *affinity).into();
        self.frontends.insert(frontend_bytes(frontend).into(), value);
        for (endpoint, slot) in endpoints.iter().zip(0..) {
            self.slots.insert(slot_bytes(frontend, slot), endpoint_bytes(endpoint).into());
        }
        for endpoint in endpoints.iter().filter(|_| affinity.is_some()) {
            self.members.insert(member_bytes(frontend, endpoint), vec![0; 4]);
        }
    }

    pub(super) fn since(self, before: &Self) -> Changes {
        Changes {
            frontends: difference(&before.frontends, self.frontends),
            slots: difference(&before.slots, self.slots),
            members: difference(&before.members, self.members),
        }
    }

    /// How many entries there are for each of the maps.
    pub(super) fn lengths(&self) -> [(Table, usize); 3] {
        [
            (Table::Frontends, self.frontends.len()),
            (Table::Slots, self.slots.len()),
            (Table::Members, self.members.len()),
        ]
    }
}

pub(super) fn difference(before: &Contents, after: Contents) -> Difference {
    let removals = before.keys().filter(|it| !after.contains_key(*it)).cloned().collect();
    let puts = after.into_iter().filter(|(key, value)| before.get(key) != Some(value)).collect();
    Difference { puts, removals }
}
