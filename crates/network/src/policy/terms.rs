//! What rules ask of a packet, each thing once however many policies ask for it: whether an address
//! is of certain pods or in certain ranges, whether a port is among some, or has a name. Each is a
//! set in the kernel while a policy that holds here uses it. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use api::Pairs;

use super::anchors::{Anchors, anchor};
use super::model::{Namespaces, Pod, Protocol, Selected};
use super::ranges::Ranges;
use super::slots::{Slots, set_name};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    /// Addresses of pods, which come and go.
    Pods(Selected),
    Ranges(Ranges),
    /// Sorted; of one protocol no two meet or touch. Both ends included.
    Numbers(Vec<(Protocol, u16, u16)>),
    /// Pods that call a port so, with what it is there.
    Named(String, Protocol),
}

/// What a pod adds to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Member {
    Address(IpAddr),
    Port(IpAddr, Protocol, u16),
}

impl Member {
    pub(super) fn address(self) -> IpAddr {
        match self {
            Self::Address(it) | Self::Port(it, _, _) => it,
        }
    }
}

pub(super) type TermId = u32;

#[derive(Debug)]
pub(super) struct Held {
    pub(super) term: Term,
    text: String,
    uses: usize,
    /// By how many pods: two may have one address while one of them ends.
    members: BTreeMap<Member, u32>,
}

impl Held {
    pub(super) fn has(&self, member: Member) -> bool {
        self.members.contains_key(&member)
    }
}

#[derive(Debug, Default)]
pub(super) struct Terms {
    slots: Slots,
    by_text: BTreeMap<String, TermId>,
    held: BTreeMap<TermId, Held>,
    /// By their own namespace.
    of_namespace: BTreeMap<String, Anchors<TermId>>,
    /// Of selected namespaces: under a label of the pod, or of the namespace if none is asked of
    /// the pod.
    anywhere: Anchors<TermId>,
    by_namespace_label: Anchors<TermId>,
    named: BTreeMap<(String, Protocol), TermId>,
}

impl Terms {
    /// Whether it is new: then its members are not known yet.
    pub(super) fn acquire(&mut self, term: Term) -> (TermId, bool) {
        let text = text(&term);
        if let Some(held) =
            self.by_text.get(&text).and_then(|it| Some((*it, self.held.get_mut(it)?)))
        {
            let (id, held) = held;
            held.uses += 1;
            return (id, false);
        }
        let id = self.slots.take();
        match &term {
            Term::Pods(it) => self.anchors(it).insert(anchored(it), id),
            Term::Named(name, protocol) => {
                self.named.insert((name.clone(), *protocol), id);
            }
            Term::Ranges(_) | Term::Numbers(_) => {}
        }
        self.by_text.insert(text.clone(), id);
        self.held.insert(id, Held { term, text, uses: 1, members: BTreeMap::new() });
        (id, true)
    }

    /// What it was, if nobody uses it any more.
    pub(super) fn release(&mut self, id: TermId) -> Option<Held> {
        let held = self.held.get_mut(&id)?;
        held.uses -= 1;
        if held.uses > 0 {
            return None;
        }
        let held = self.held.remove(&id)?;
        self.by_text.remove(&held.text);
        match &held.term {
            Term::Pods(it) => {
                self.anchors(it).remove(anchored(it), id);
                if let Namespaces::One(name) = &it.namespaces
                    && self.of_namespace.get(name).is_some_and(Anchors::is_empty)
                {
                    self.of_namespace.remove(name);
                }
            }
            Term::Named(name, protocol) => {
                self.named.remove(&(name.clone(), *protocol));
            }
            Term::Ranges(_) | Term::Numbers(_) => {}
        }
        self.slots.give_back(id);
        Some(held)
    }

    /// The kernel was told of all that is gone.
    pub(super) fn settle(&mut self) {
        self.slots.settle();
    }

    pub(super) fn get(&self, id: TermId) -> Option<&Held> {
        self.held.get(&id)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    fn anchors(&mut self, selected: &Selected) -> &mut Anchors<TermId> {
        match &selected.namespaces {
            Namespaces::One(name) => self.of_namespace.entry(name.clone()).or_default(),
            Namespaces::Labeled(_) if is_by_namespace_label(selected) => {
                &mut self.by_namespace_label
            }
            Namespaces::Labeled(_) => &mut self.anywhere,
        }
    }

    /// Those that select the pod.
    pub(super) fn selecting(
        &self,
        namespace: (&str, &Pairs),
        labels: &Pairs,
        is_on_host_network: bool,
    ) -> Vec<TermId> {
        let (name, namespace_labels) = namespace;
        let own = self.of_namespace.get(name).map(|it| it.candidates(labels));
        let mut found: Vec<TermId> = own.into_iter().flatten().collect();
        found.extend(self.anywhere.candidates(labels));
        found.extend(self.by_namespace_label.candidates(namespace_labels));
        found.sort_unstable();
        found.dedup();
        found.retain(|it| match self.held.get(it).map(|it| &it.term) {
            Some(Term::Pods(it)) => {
                (it.has_hosts || !is_on_host_network) && it.matches(namespace, labels)
            }
            _ => false,
        });
        found
    }

    /// What the pod is a member of by the names of its ports.
    pub(super) fn naming<'a>(
        &'a self,
        pod: &'a Pod,
    ) -> impl Iterator<Item = (TermId, Protocol, u16)> + 'a {
        pod.ports.iter().filter_map(|it| {
            let id = self.named.get(&(it.name.as_str().to_owned(), it.protocol))?;
            Some((*id, it.protocol, it.number))
        })
    }

    /// Whether nobody else had added it.
    pub(super) fn add(&mut self, id: TermId, member: Member) -> bool {
        let Some(held) = self.held.get_mut(&id) else { return false };
        let count = held.members.entry(member).or_default();
        *count += 1;
        *count == 1
    }

    /// Whether nobody else has added it.
    pub(super) fn remove(&mut self, id: TermId, member: Member) -> bool {
        let Some(held) = self.held.get_mut(&id) else { return false };
        let Some(count) = held.members.get_mut(&member) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            held.members.remove(&member);
        }
        is_last
    }
}

/// Whose requirements it is kept under.
fn anchored(selected: &Selected) -> &apimachinery::selector::Labels {
    match &selected.namespaces {
        Namespaces::Labeled(namespaces) if is_by_namespace_label(selected) => namespaces,
        _ => &selected.pods,
    }
}

fn is_by_namespace_label(selected: &Selected) -> bool {
    match &selected.namespaces {
        Namespaces::One(_) => false,
        Namespaces::Labeled(it) => anchor(&selected.pods).is_none() && anchor(it).is_some(),
    }
}

impl Term {
    pub(super) fn set_name(&self, id: TermId) -> &'static str {
        let kind = match self {
            Self::Pods(_) => "pods",
            Self::Ranges(_) => "ranges",
            Self::Numbers(_) => "ports",
            Self::Named(..) => "named-ports",
        };
        set_name(kind, id)
    }
}

/// The same for what is the same.
fn text(term: &Term) -> String {
    let mut text = String::new();
    let written = match term {
        Term::Pods(Selected { namespaces, pods, has_hosts }) => {
            let kind = if *has_hosts { "pods and hosts" } else { "pods" };
            match namespaces {
                Namespaces::One(name) => write!(text, "{kind} {name}: {pods}"),
                Namespaces::Labeled(namespaces) => write!(text, "{kind} ({namespaces}): {pods}"),
            }
        }
        Term::Ranges(ranges) => {
            text.push_str("ranges");
            ranges.iter().try_for_each(|it| write!(text, " {}-{}", it.first, it.last))
        }
        Term::Numbers(numbers) => {
            text.push_str("numbers");
            numbers
                .iter()
                .try_for_each(|(protocol, first, last)| write!(text, " {protocol} {first}-{last}"))
        }
        Term::Named(name, protocol) => write!(text, "named {protocol} {name}"),
    };
    debug_assert!(written.is_ok());
    text
}

/// Sorted, with what meets or touches made one.
pub(super) fn merged(mut numbers: Vec<(Protocol, u16, u16)>) -> Vec<(Protocol, u16, u16)> {
    numbers.retain(|(_, first, last)| first <= last);
    numbers.sort_unstable();
    let mut merged: Vec<(Protocol, u16, u16)> = Vec::new();
    for (protocol, first, last) in numbers {
        match merged.last_mut() {
            Some(it) if it.0 == protocol && u32::from(first) <= u32::from(it.2) + 1 => {
                it.2 = it.2.max(last);
            }
            _ => merged.push((protocol, first, last)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use Protocol::{Tcp, Udp};

    #[test]
    fn ports_that_meet_or_touch_are_one_range_of_their_protocol() {
        let check = |numbers: &[(Protocol, u16, u16)], expected: &[(Protocol, u16, u16)]| {
            assert_eq!(merged(numbers.to_vec()), expected);
        };
        check(&[(Tcp, 81, 90), (Tcp, 80, 80), (Udp, 91, 91)], &[(Tcp, 80, 90), (Udp, 91, 91)]);
        check(&[(Tcp, 0, 65535), (Tcp, 65535, 65535)], &[(Tcp, 0, 65535)]);
        check(&[(Tcp, 5, 4), (Tcp, 1, 1), (Tcp, 3, 3)], &[(Tcp, 1, 1), (Tcp, 3, 3)]);
    }

    #[test]
    fn what_is_asked_twice_is_held_once_and_found_by_labels() {
        let labels = |it: &[(&str, &str)]| -> Pairs { it.iter().copied().collect() };
        let term = |namespaces, pods: &str| {
            Term::Pods(Selected {
                namespaces,
                pods: apimachinery::selector::Labels::parse(pods).unwrap(),
                has_hosts: true,
            })
        };
        let labeled =
            |it: &str| Namespaces::Labeled(apimachinery::selector::Labels::parse(it).unwrap());
        let mut terms = Terms::default();
        let own = terms.acquire(term(Namespaces::One("x".into()), "app=a")).0;
        let by_namespace = terms.acquire(term(labeled("team=t"), "")).0;
        let all = terms.acquire(term(labeled(""), "!hidden")).0;
        assert_eq!(terms.acquire(term(labeled(""), "!hidden")), (all, false));
        let check = |terms: &Terms, namespace: &str, team: &str, app: &str, expected: &[TermId]| {
            let namespace = (namespace, &labels(&[("team", team)]));
            assert_eq!(terms.selecting(namespace, &labels(&[("app", app)]), false), expected);
        };
        check(&terms, "x", "t", "a", &[own, by_namespace, all]);
        check(&terms, "y", "t", "a", &[by_namespace, all]);
        check(&terms, "x", "u", "b", &[all]);
        assert!(terms.release(all).is_none());
        assert!(terms.release(all).is_some());
        check(&terms, "x", "u", "b", &[]);
    }
}
