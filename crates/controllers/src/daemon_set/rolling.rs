//! RollingUpdate: outdated pods go before their successors come (`maxUnavailable`), or after
//! (`maxSurge`). Pure.

use std::sync::Arc;

use api::Identified as _;
use api::apps::DaemonSet;
use api::core::pod::PodView;

use super::plan::{Plan, Reason, Removal, Site, View, Wait};
use crate::share::{Round, resolve};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub surge: i32,
    pub unavailable: i32,
    /// Whether the set lets successors come first at all.
    pub is_surging: bool,
}

pub(super) fn is_on_delete(set: &DaemonSet) -> bool {
    let strategy = set.spec.as_ref().and_then(|it| it.update_strategy.as_ref());
    strategy.and_then(|it| it.type_.as_deref()) == Some("OnDelete")
}

/// Both round up, and never are both zero: an update could not move.
pub(super) fn bounds(set: &DaemonSet, desired: i32) -> Bounds {
    let strategy = set.spec.as_ref().and_then(|it| it.update_strategy.as_ref());
    let rolling = strategy.filter(|_| !is_on_delete(set)).and_then(|it| it.rolling_update.as_ref());
    let of = |total: i32| {
        let value = rolling.and_then(|it| it.max_surge.as_ref());
        value.map_or(0, |it| resolve(it, total, Round::Up))
    };
    let unavailable = rolling.and_then(|it| it.max_unavailable.as_ref());
    let unavailable = unavailable.map_or(0, |it| resolve(it, desired, Round::Up));
    let surge = of(desired);
    let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
    Bounds { surge, unavailable, is_surging: of(1) > 0 }
}

/// What of a site an update looks at: those that nobody deletes.
enum State {
    /// More than one of a sort: `keep` takes care of it.
    Crowded,
    Both {
        new: Arc<PodView>,
        old: Arc<PodView>,
    },
    New(Arc<PodView>),
    Old(Arc<PodView>),
    None,
}

fn state(view: &View<'_>, site: &Site) -> State {
    let there = site.pods.iter().filter(|it| !it.is_deleting()).cloned();
    let (new, old): (Vec<_>, Vec<_>) = there.partition(|it| view.is_updated(it));
    match (&new[..], &old[..]) {
        ([], []) => State::None,
        ([new], []) => State::New(new.clone()),
        ([], [old]) => State::Old(old.clone()),
        ([new], [old]) => State::Both { new: new.clone(), old: old.clone() },
        _ => State::Crowded,
    }
}

pub(super) fn update(view: &View<'_>, bounds: Bounds, plan: &mut Plan) {
    let concerned = view.sites.iter().filter(|it| it.verdict.should_run || !it.pods.is_empty());
    let states: Vec<(&Site, State)> = concerned.map(|it| (it, state(view, it))).collect();
    if bounds.surge == 0 {
        remove_first(view, bounds, &states, plan);
    } else {
        add_first(view, bounds, &states, plan);
    }
}

fn removal(site: &Site, pod: &Arc<PodView>) -> Removal {
    Removal { pod: pod.clone(), node: site.node.name().to_owned(), reason: Reason::Other }
}

/// How many there are, as a bound is.
fn room(bound: i32, taken: usize) -> usize {
    usize::try_from(bound).unwrap_or(0).saturating_sub(taken)
}

/// Outdated pods that serve nobody go at once, others as long as few enough are unavailable.
fn remove_first(view: &View<'_>, bounds: Bounds, states: &[(&Site, State)], plan: &mut Plan) {
    let (mut unavailable, mut candidates, mut missing) = (0, Vec::new(), Vec::new());
    for (site, state) in states {
        match state {
            State::New(pod) if view.is_available(pod) => {}
            State::New(pod) => {
                unavailable += 1;
                missing.push(pod.meta.key.name.clone());
            }
            State::Old(pod) if view.is_available(pod) => candidates.push(removal(site, pod)),
            State::Old(pod) => {
                unavailable += 1;
                plan.delete.push(removal(site, pod));
            }
            State::Crowded | State::Both { .. } | State::None => {
                unavailable += 1;
                missing.push(format!("the pod of node {}", site.node.name()));
            }
        }
    }
    let is_waiting = !candidates.is_empty();
    candidates.truncate(room(bounds.unavailable, unavailable));
    if is_waiting && candidates.is_empty() && !missing.is_empty() {
        plan.waits.push(Wait::Availability(missing));
    }
    plan.delete.extend(candidates);
}

/// Successors come, as many at once as may; outdated pods go when they are available.
fn add_first(view: &View<'_>, bounds: Bounds, states: &[(&Site, State)], plan: &mut Plan) {
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut out_of_place, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (site, state) in states {
        let node = site.node.name().to_owned();
        match state {
            State::Crowded => surging += 1,
            State::None => {}
            State::New(pod) => available += usize::from(view.is_available(pod)),
            State::Old(pod) => {
                let is_available = view.is_available(pod);
                available += usize::from(is_available);
                match (is_available, site.verdict.should_run) {
                    (false, false) => plan.delete.push(removal(site, pod)),
                    (false, true) => plan.create.push(node),
                    (true, false) => out_of_place.push(removal(site, pod)),
                    (true, true) => candidates.push(node),
                }
            }
            State::Both { new, old } => {
                available += usize::from(view.is_available(old));
                if view.is_available(new) {
                    plan.delete.push(removal(site, old));
                } else {
                    surging += 1;
                    missing.push(new.meta.key.name.clone());
                }
            }
        }
    }
    out_of_place.truncate(available.saturating_sub(room(view.desired(), 0)));
    plan.delete.extend(out_of_place);
    let is_waiting = !candidates.is_empty();
    candidates.truncate(room(bounds.surge, surging));
    if is_waiting && candidates.is_empty() && !missing.is_empty() {
        plan.waits.push(Wait::Availability(missing));
    }
    plan.create.extend(candidates);
}
