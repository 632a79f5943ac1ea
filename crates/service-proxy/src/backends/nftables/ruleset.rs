//! What the kernel should hold of one family for the Services that are known, and what one Service more, less or
//! other changes. Pure.
//!
//! The elements of one Service are a function of its ports and of the slots of its endpoints
//! (`rendering`), so they are made again rather than kept. The table is the sum over all
//! Services; where two claim the same frontend, the one whose name comes first has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apimachinery::ObjectKey;
use linux::netlink::nftables::{Change, Data, Element, Key, Observed, Table};

use super::chains::{self, FamilyNetworks};
use super::rendering::{Rendering, Slots, has_scope};
use super::sets::{self, Choice, ENDPOINTS_MAX, Scope};
use super::slots;
use crate::service_port::frontend::{Frontend, cluster_frontend, external_frontends, frontends};
use crate::service_port::{Endpoint, ServicePort};

/// A set and a key in it.
pub(super) type ElementId = (&'static str, Key);
pub(super) type Elements = BTreeMap<ElementId, Option<Data>>;

/// Adding a rule that asks a map makes the kernel walk all of the map (`nf_tables_bind_set`), so
/// that a new chain costs as much as there are endpoints. Hence those that nobody needs any more
/// stay for the next who does, up to a bound.
const UNUSED_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Ruleset {
    networks: FamilyNetworks,
    services: BTreeMap<Arc<ObjectKey>, Known>,
    /// Who claims a frontend, sorted by name: the first has it. No list is empty.
    owners: BTreeMap<Frontend, Vec<Arc<ObjectKey>>>,
    /// How many Services want an element that is of no frontend. Never zero.
    shared: BTreeMap<ElementId, usize>,
    /// How many Services choose so; none may. The chains of all of these are there.
    choices: BTreeMap<Choice, usize>,
    /// Slots that the kernel had when we started, for frontends that are not known yet.
    adopted: Slots,
    /// What has changed since the changes were last taken: how it was then.
    touched: Touched,
}

/// What an element has beside its key, if it has; `None`: there is no such element.
type Found = Option<Option<Data>>;

#[derive(Debug, Default)]
struct Touched {
    /// As it was and as it is now.
    elements: BTreeMap<ElementId, (Found, Found)>,
    /// Those that are new.
    choices: BTreeSet<Choice>,
}

impl Touched {
    fn remove(&mut self, id: ElementId, data: Option<Data>) {
        self.elements.entry(id).or_insert((Some(data), None)).1 = None;
    }

    fn add(&mut self, id: ElementId, data: Option<Data>) {
        self.elements.entry(id).or_default().1 = Some(data);
    }
}

/// One Service.
#[derive(Debug, Default)]
struct Known {
    ports: Vec<ServicePort>,
    slots: Slots,
}

/// A Service whose claim of a frontend another one ends or lets live.
struct Other {
    service: Arc<ObjectKey>,
    frontend: Frontend,
}

impl Ruleset {
    pub(super) fn new(networks: FamilyNetworks) -> Self {
        Self {
            networks,
            services: BTreeMap::new(),
            owners: BTreeMap::new(),
            shared: BTreeMap::new(),
            choices: BTreeMap::new(),
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
        let rendered = Rendering::of(&before.ports, &before.slots);
        let rendering = Rendering::of(&after.ports, &after.slots);
        let had: Elements = self.owned(&owner, rendered.of_frontends).collect();
        let (losers, winners) = self.change_owners(&owner, &before.ports, &after.ports);
        let has: Elements = self.owned(&owner, rendering.of_frontends).collect();
        for other in losers {
            self.of_other(&other).for_each(|(id, data)| self.touched.remove(id, data));
        }
        for (id, data) in had.iter().filter(|(id, data)| has.get(*id) != Some(*data)) {
            self.touched.remove(id.clone(), data.clone());
        }
        for (id, data) in has.into_iter().filter(|(id, data)| had.get(id) != Some(data)) {
            self.touched.add(id, data);
        }
        for other in winners {
            self.of_other(&other).for_each(|(id, data)| self.touched.add(id, data));
        }
        rendering.shared.iter().for_each(|it| self.share(it));
        rendered.shared.iter().for_each(|it| self.share_less(it));
        for choice in rendering.choices.difference(&rendered.choices) {
            self.need(*choice);
        }
        for choice in rendered.choices.difference(&rendering.choices) {
            self.need_less(*choice);
        }
        if !after.ports.is_empty() {
            self.services.insert(owner, after);
        }
    }

    /// Those elements whose frontend is the Service's.
    fn owned<'a>(
        &'a self,
        service: &'a Arc<ObjectKey>,
        elements: Vec<(Frontend, ElementId, Option<Data>)>,
    ) -> impl Iterator<Item = (ElementId, Option<Data>)> + 'a {
        let is_owned =
            |it: &Frontend| self.owners.get(it).and_then(|it| it.first()) == Some(service);
        elements
            .into_iter()
            .filter_map(move |(frontend, id, data)| is_owned(&frontend).then_some((id, data)))
    }

    /// What another Service has at a frontend, if it is its own.
    fn of_other(&self, other: &Other) -> impl Iterator<Item = (ElementId, Option<Data>)> + use<> {
        let known = self.services.get(&other.service);
        let elements = known.map(|it| Rendering::of(&it.ports, &it.slots).of_frontends);
        let frontend = other.frontend;
        let elements = elements.unwrap_or_default().into_iter();
        elements.filter(move |it| it.0 == frontend).map(|(_, id, data)| (id, data))
    }

    /// Who loses a frontend to the Service, and who gets one that it leaves.
    fn change_owners(
        &mut self,
        service: &Arc<ObjectKey>,
        before: &[ServicePort],
        after: &[ServicePort],
    ) -> (Vec<Other>, Vec<Other>) {
        let (mut losers, mut winners) = (Vec::new(), Vec::new());
        let (before, after) = (frontends(before), frontends(after));
        for frontend in after.difference(&before).copied() {
            let owners = self.owners.entry(frontend).or_default();
            let position = owners.partition_point(|it| it < service);
            if let (0, Some(first)) = (position, owners.first()) {
                losers.push(Other { service: first.clone(), frontend });
            }
            owners.insert(position, service.clone());
        }
        for frontend in before.difference(&after).copied() {
            let Some(owners) = self.owners.get_mut(&frontend) else { continue };
            let was_first = owners.first() == Some(service);
            owners.retain(|it| it != service);
            match owners.first() {
                None => drop(self.owners.remove(&frontend)),
                Some(first) if was_first => {
                    winners.push(Other { service: first.clone(), frontend });
                }
                Some(_) => {}
            }
        }
        (losers, winners)
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

    fn share(&mut self, id: &ElementId) {
        let count = self.shared.entry(id.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.touched.add(id.clone(), None);
        }
    }

    fn share_less(&mut self, id: &ElementId) {
        let Some(count) = self.shared.get_mut(id) else { return };
        *count -= 1;
        if *count == 0 {
            self.shared.remove(id);
            self.touched.remove(id.clone(), None);
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
        for ((set, key), (before, after)) in elements.into_iter().filter(|(_, it)| it.0 != it.1) {
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

    /// Chains are shared: `known-10800` by all numbers of endpoints. One that an old choice had may
    /// stay for a new one.
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
        let mut table = Table { sets: sets::all(self.networks.family), ..Table::default() };
        table.chains.extend(chains::all(&self.networks));
        for choice in self.choices.keys() {
            table.chains.extend(chains::of_choice(self.networks.family, *choice));
        }
        let mut elements: BTreeMap<&'static str, Vec<(Key, Option<Data>)>> = BTreeMap::new();
        for (service, known) in &self.services {
            let rendering = Rendering::of(&known.ports, &known.slots);
            for ((set, key), data) in self.owned(service, rendering.of_frontends) {
                elements.entry(set).or_default().push((key, data));
            }
        }
        for (set, key) in self.shared.keys() {
            elements.entry(set).or_default().push((key.clone(), None));
        }
        table.elements =
            elements.into_iter().map(|(set, it)| (set, it.into_iter().collect())).collect();
        table
    }

    pub(super) fn ports(&self, service: &ObjectKey) -> &[ServicePort] {
        self.services.get(service).map(|it| &*it.ports).unwrap_or_default()
    }

    pub(super) fn all_ports(&self) -> impl Iterator<Item = &[ServicePort]> {
        self.services.values().map(|it| &*it.ports)
    }
}

fn chain_names(choice: Choice) -> [String; 2] {
    [choice.known_chain(), choice.chain()]
}
