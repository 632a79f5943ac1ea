//! What the kernel should hold of one family for the Services that are known, and what one Service more, less or
//! other changes. Pure.
//!
//! The elements of one Service are a function of its ports and of the slots of its endpoints
//! (`elements_of`), so they are made again rather than kept. The table is the sum over all
//! Services; where two claim the same frontend, the one whose name comes first has it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use apimachinery::ObjectKey;
use linux::netlink::nftables::{Change, Data, Element, Key, Observed, Table, Value, Verdict};
use stdx::Family;

use super::chains::{self, FamilyNetworks};
use super::sets::{self, Choice, ENDPOINTS_MAX, Frontend, Scope};
use super::slots;
use crate::service_port::{Endpoint, ServicePort, TrafficPolicy};

/// A set and a key in it.
type ElementId = (&'static str, Key);
type Elements = BTreeMap<ElementId, Option<Data>>;
/// The endpoints of a port, named by its ClusterIP, by slot. All frontends of the port have the
/// same.
type Slots = BTreeMap<(Frontend, Scope), Vec<Endpoint>>;

/// Adding a rule that asks a map makes the kernel walk all of the map (`nf_tables_bind_set`), so
/// that a new chain costs as much as there are endpoints. Hence choices among few are prepared
/// while the maps are empty, and those that nobody needs any more stay for the next who does, up to
/// a bound.
const PREPARED_MAX: u32 = 16;
const UNUSED_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Ruleset {
    networks: FamilyNetworks,
    services: BTreeMap<Arc<ObjectKey>, Known>,
    /// Who wants an element, sorted by name, and with which data: the first has it. No list is
    /// empty.
    elements: BTreeMap<ElementId, Vec<Claim>>,
    /// How many Services choose so; none may. The chains of all of these are there.
    choices: BTreeMap<Choice, usize>,
    /// Slots that the kernel had when we started, for frontends that are not known yet.
    adopted: Slots,
    /// What has changed since the changes were last taken: how it was then.
    touched: Touched,
}

#[derive(Debug)]
struct Claim {
    owner: Arc<ObjectKey>,
    data: Option<Data>,
}

#[derive(Debug, Default)]
struct Touched {
    /// `None`: there was no such element.
    elements: BTreeMap<ElementId, Option<Option<Data>>>,
    /// Those that are new.
    choices: BTreeSet<Choice>,
}

/// One Service.
#[derive(Debug, Default)]
struct Known {
    ports: Vec<ServicePort>,
    slots: Slots,
}

impl Ruleset {
    pub(super) fn new(networks: FamilyNetworks) -> Self {
        Self {
            networks,
            services: BTreeMap::new(),
            elements: BTreeMap::new(),
            choices: prepared().map(|it| (it, 1)).collect(),
            adopted: Slots::new(),
            touched: Touched::default(),
        }
    }

    /// Lets Services that are not known yet begin with the slots that they have in the kernel, so
    /// that a restart moves nothing.
    pub(super) fn adopt(&mut self, observed: &Observed) {
        let Some(endpoints) = observed.sets.get(sets::ENDPOINTS) else { return };
        let mut found: BTreeMap<(Frontend, Scope), BTreeMap<usize, Endpoint>> = BTreeMap::new();
        for (key, data) in &endpoints.elements {
            let read =
                data.as_ref().and_then(|data| sets::read_slot(self.networks.family, key, data));
            let Some((frontend, scope, slot, endpoint)) = read else { continue };
            found.entry((frontend, scope)).or_default().insert(slot, endpoint);
        }
        let slots = found.into_iter().map(|(frontend, it)| (frontend, it.into_values().collect()));
        self.adopted = slots.collect();
    }

    /// From now on the Service has these ports, all of the family; none if it is gone.
    pub(super) fn set(&mut self, service: &ObjectKey, ports: Vec<ServicePort>) {
        let (owner, before) = match self.services.remove_entry(service) {
            Some(it) => it,
            None if ports.is_empty() => return,
            None => (Arc::new(service.clone()), Known::default()),
        };
        let slots = self.assign_slots(&ports, &before.slots);
        let after = Known { ports, slots };
        let (elements_before, choices_before) = elements_of(&before);
        let (elements_after, choices_after) = elements_of(&after);
        for (id, data) in &elements_before {
            if elements_after.get(id) != Some(data) {
                self.release(id, &owner);
            }
        }
        for (id, data) in elements_after {
            if elements_before.get(&id) != Some(&data) {
                self.claim(id, &owner, data);
            }
        }
        for choice in choices_after.difference(&choices_before) {
            self.need(*choice);
        }
        for choice in choices_before.difference(&choices_after) {
            self.need_less(*choice);
        }
        if !after.ports.is_empty() {
            self.services.insert(owner, after);
        }
    }

    fn assign_slots(&mut self, ports: &[ServicePort], before: &Slots) -> Slots {
        let mut slots = Slots::new();
        for port in ports {
            let scopes =
                [(Scope::Cluster, &port.endpoints.cluster), (Scope::Local, &port.endpoints.local)];
            for (scope, wanted) in scopes.into_iter().filter(|(scope, _)| has_scope(port, *scope)) {
                let id = (cluster_frontend(port), scope);
                let adopted = self.adopted.remove(&id).unwrap_or_default();
                for frontend in external_frontends(port) {
                    self.adopted.remove(&(frontend, scope));
                }
                let previous = before.get(&id).unwrap_or(&adopted);
                let mut endpoints = slots::assign(previous, wanted);
                endpoints.truncate(ENDPOINTS_MAX);
                slots.insert(id, endpoints);
            }
        }
        slots
    }

    fn effective(&self, id: &ElementId) -> Option<Option<Data>> {
        self.elements.get(id).and_then(|it| it.first()).map(|it| it.data.clone())
    }

    fn touch(&mut self, id: &ElementId) {
        if !self.touched.elements.contains_key(id) {
            let before = self.effective(id);
            self.touched.elements.insert(id.clone(), before);
        }
    }

    fn claim(&mut self, id: ElementId, owner: &Arc<ObjectKey>, data: Option<Data>) {
        self.touch(&id);
        let claims = self.elements.entry(id).or_default();
        let position = claims.partition_point(|it| it.owner < *owner);
        claims.insert(position, Claim { owner: owner.clone(), data });
    }

    fn release(&mut self, id: &ElementId, owner: &Arc<ObjectKey>) {
        self.touch(id);
        let Some(claims) = self.elements.get_mut(id) else { return };
        claims.retain(|it| it.owner != *owner);
        if claims.is_empty() {
            self.elements.remove(id);
        }
    }

    fn need(&mut self, choice: Choice) {
        let count = self.choices.entry(choice).or_insert_with(|| {
            self.touched.choices.insert(choice);
            0
        });
        *count += 1;
    }

    fn need_less(&mut self, choice: Choice) {
        if let Some(count) = self.choices.get_mut(&choice) {
            *count -= 1;
        }
    }

    /// Too many choices that nobody needs, which are forgotten herewith.
    fn take_unused(&mut self, new: &BTreeSet<Choice>) -> BTreeSet<Choice> {
        let is_unused = |choice: &Choice, count: usize| count == 0 && !new.contains(choice);
        let unused = self.choices.iter().filter(|(it, count)| is_unused(it, **count));
        let unused: BTreeSet<_> = unused.map(|(it, _)| *it).collect();
        if unused.len() <= UNUSED_MAX {
            return BTreeSet::new();
        }
        self.choices.retain(|it, _| !unused.contains(it));
        unused
    }

    /// From the table as it was when changes were last taken to the table as it should be now.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        let Touched { elements, choices } = std::mem::take(&mut self.touched);
        let mut gone: BTreeMap<&'static str, Vec<Key>> = BTreeMap::new();
        let mut come: BTreeMap<&'static str, Vec<Element>> = BTreeMap::new();
        for (id, before) in elements {
            let after = self.effective(&id);
            if before == after {
                continue;
            }
            let (set, key) = id;
            if before.is_some() {
                gone.entry(set).or_default().push(key.clone());
            }
            if let Some(data) = after {
                come.entry(set).or_default().push(Element { key, data, timeout: None });
            }
        }
        let mut changes = Vec::new();
        let (old, new) = (self.take_unused(&choices), choices);
        changes.extend(self.chains_to_add(&new, &old));
        changes.extend(gone.into_iter().map(|(set, keys)| Change::DeleteElements { set, keys }));
        changes
            .extend(come.into_iter().map(|(set, elements)| Change::AddElements { set, elements }));
        changes.extend(self.chains_to_remove(&old));
        changes
    }

    /// Chains are shared: `pick-3` by all affinities, `known-10800` by all numbers of endpoints.
    /// One that an old choice had may stay for a new one.
    fn chains_to_add(&self, new: &BTreeSet<Choice>, old: &BTreeSet<Choice>) -> Vec<Change> {
        let others = self.choices.keys().filter(|it| !new.contains(it)).chain(old);
        let there: BTreeSet<_> = others.flat_map(|it| chain_names(*it)).collect();
        let chains: BTreeMap<_, _> =
            new.iter().flat_map(|it| chains::of_choice(self.networks.family, *it)).collect();
        let mut changes = Vec::new();
        let come: Vec<_> = chains.iter().filter(|(name, _)| !there.contains(*name)).collect();
        for (name, chain) in &come {
            changes.push(Change::AddChain((*name).clone(), (*chain).clone()));
        }
        for (name, chain) in come {
            let rules = chain.rules.iter().cloned();
            changes.extend(rules.map(|rule| Change::AddRule { chain: name.clone(), rule }));
        }
        changes
    }

    fn chains_to_remove(&self, old: &BTreeSet<Choice>) -> Vec<Change> {
        let stays: BTreeSet<_> = self.choices.keys().flat_map(|it| chain_names(*it)).collect();
        let gone: BTreeSet<_> = old.iter().flat_map(|it| chain_names(*it)).collect();
        let mut changes = Vec::new();
        changes.extend(gone.difference(&stays).cloned().map(Change::FlushChain));
        changes.extend(gone.difference(&stays).cloned().map(Change::DeleteChain));
        changes
    }

    /// The whole table, as it should be now.
    pub(super) fn table(&self) -> Table {
        let mut table = Table { sets: sets::all(self.networks.family).into(), ..Table::default() };
        table.chains.extend(chains::all(self.networks));
        for choice in self.choices.keys() {
            table.chains.extend(chains::of_choice(self.networks.family, *choice));
        }
        for ((set, key), claims) in &self.elements {
            if let Some(claim) = claims.first() {
                table.elements.entry(set).or_default().insert(key.clone(), claim.data.clone());
            }
        }
        table
    }

    /// The UDP frontends of a Service and the endpoints that flows to them may go on to.
    pub(super) fn udp_flows(&self, service: &ObjectKey) -> BTreeMap<Frontend, BTreeSet<Endpoint>> {
        let known = self.services.get(service);
        known.map(|it| super::flows::of(&it.ports)).unwrap_or_default()
    }

    pub(super) fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.services.keys().map(|it| &**it)
    }
}

fn prepared() -> impl Iterator<Item = Choice> {
    [Scope::Cluster, Scope::Local].into_iter().flat_map(|scope| {
        let of = move |n_endpoints| Choice { affinity: None, scope, n_endpoints };
        (1..=PREPARED_MAX).map(of)
    })
}

fn chain_names(choice: Choice) -> Vec<String> {
    match choice.affinity {
        None => vec![choice.chain()],
        Some(_) => {
            vec![choice.without_affinity().chain(), choice.known_chain(), choice.chain()]
        }
    }
}

/// Names the port, too.
pub(super) fn cluster_frontend(port: &ServicePort) -> Frontend {
    Frontend { protocol: port.protocol, address: port.cluster_ip, port: port.port }
}

/// Whether any traffic of the port chooses among these endpoints. External traffic that stays on
/// this node still needs all for clients in the cluster.
fn has_scope(port: &ServicePort, scope: Scope) -> bool {
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

/// The address of node ports.
pub(super) fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// External frontends of a port: where packets are sent to.
pub(super) fn external_frontends(port: &ServicePort) -> impl Iterator<Item = Frontend> {
    let at = cluster_frontend(port);
    let addresses = port.external_addresses().map(move |address| Frontend { address, ..at });
    let node_port = port.node_port.map(|port| {
        let address = unspecified(Family::of(at.address));
        Frontend { address, port, ..at }
    });
    addresses.chain(node_port)
}

fn elements_of(known: &Known) -> (Elements, BTreeSet<Choice>) {
    let mut rendering = Rendering::default();
    for port in &known.ports {
        rendering.port(port, &known.slots);
    }
    (rendering.elements, rendering.choices)
}

#[derive(Default)]
struct Rendering {
    elements: Elements,
    choices: BTreeSet<Choice>,
}

impl Rendering {
    fn add(&mut self, set: &'static str, key: impl Into<Key>) {
        self.elements.insert((set, key.into()), None);
    }

    fn map(&mut self, set: &'static str, key: impl Into<Key>, data: Data) {
        self.elements.insert((set, key.into()), Some(data));
    }

    fn port(&mut self, port: &ServicePort, slots: &Slots) {
        let frontend = cluster_frontend(port);
        self.add(sets::CLUSTER_IPS, Value::new().address(port.cluster_ip));
        // Of both scopes, even if the ClusterIP needs one: from here a restart takes them over.
        for scope in [Scope::Cluster, Scope::Local] {
            self.endpoints(port, scope, frontend, slots);
        }
        for endpoint in &port.endpoints.local {
            self.add(sets::HAIRPIN, sets::hairpin(endpoint.address));
        }
        let scope = scope_of(port.internal_policy);
        if let Some(choice) = self.choice(port, scope, slots) {
            self.map(sets::INTERNAL, frontend.key(), choice.verdict());
        }
        self.refusal(port, scope, frontend, slots);
        for frontend in external_frontends(port) {
            self.external(port, frontend, slots);
        }
        self.guard(port);
    }

    fn endpoints(&mut self, port: &ServicePort, scope: Scope, frontend: Frontend, slots: &Slots) {
        for (slot, endpoint) in slots_of(port, scope, slots).iter().enumerate() {
            let data = sets::endpoint(*endpoint);
            self.map(sets::ENDPOINTS, sets::slot(frontend, scope, slot), data);
            if port.affinity.is_some() {
                self.add(scope.members(), sets::member(frontend, *endpoint));
            }
        }
    }

    /// `None` if there is nothing to choose from.
    fn choice(&mut self, port: &ServicePort, scope: Scope, slots: &Slots) -> Option<Choice> {
        let n_endpoints = slots_of(port, scope, slots).len();
        let n_endpoints = u32::try_from(n_endpoints).unwrap_or(u32::MAX);
        let choice = Choice { affinity: port.affinity, scope, n_endpoints };
        let is_one = n_endpoints > 0;
        if is_one {
            self.choices.insert(choice);
        }
        is_one.then_some(choice)
    }

    /// A frontend without endpoints: nobody has any, or only this node has none.
    fn refusal(&mut self, port: &ServicePort, scope: Scope, frontend: Frontend, slots: &Slots) {
        if !slots_of(port, scope, slots).is_empty() {
            return;
        }
        let has_endpoints = !port.endpoints.cluster.is_empty();
        let set = if has_endpoints { sets::NO_LOCAL_ENDPOINTS } else { sets::NO_ENDPOINTS };
        self.add(set, frontend.key());
    }

    fn external(&mut self, port: &ServicePort, frontend: Frontend, slots: &Slots) {
        self.external_choice(sets::CLUSTER, port, Scope::Cluster, (frontend, slots));
        match port.external_policy {
            TrafficPolicy::Cluster => self.add(sets::EXTERNAL, frontend.key()),
            TrafficPolicy::Local => {
                self.add(sets::EXTERNAL_LOCAL, frontend.key());
                self.external_choice(sets::LOCAL, port, Scope::Local, (frontend, slots));
            }
        }
        self.refusal(port, scope_of(port.external_policy), frontend, slots);
    }

    /// Even if there is nothing to choose from: of two that claim a frontend, one must not serve it
    /// where the other refuses.
    fn external_choice(
        &mut self,
        set: &'static str,
        port: &ServicePort,
        scope: Scope,
        (frontend, slots): (Frontend, &Slots),
    ) {
        self.endpoints(port, scope, frontend, slots);
        let choice = self.choice(port, scope, slots);
        let verdict = choice.map_or(Data::Verdict(Verdict::Return), Choice::verdict);
        self.map(set, frontend.key(), verdict);
    }

    fn guard(&mut self, port: &ServicePort) {
        let Some(source_ranges) = &port.source_ranges else { return };
        for address in &port.load_balancer_ips {
            let frontend = Frontend { address: *address, ..cluster_frontend(port) };
            self.add(sets::GUARDED, frontend.key());
            for range in source_ranges {
                self.add(sets::SOURCES, sets::source_range(frontend, *range));
            }
        }
    }
}

fn slots_of<'a>(port: &ServicePort, scope: Scope, slots: &'a Slots) -> &'a [Endpoint] {
    slots.get(&(cluster_frontend(port), scope)).map(Vec::as_slice).unwrap_or_default()
}
