//! What a node holds for the containers of a pod that is being resized, from the pod's status.

use std::collections::BTreeMap;

use apimachinery::quantity::Amount;
use serde::Deserialize;

use super::ContainerStatus;
use crate::{Interned, Pairs};

/// What is in force.
#[derive(Deserialize)]
pub(super) struct Actual {
    requests: Option<Pairs>,
}

/// The status of a pod, as far as it counts.
pub(super) struct Held<'a> {
    pub(super) statuses: Vec<&'a ContainerStatus>,
    /// The node will never give what is asked for: what it asks for does not count.
    pub(super) is_infeasible: bool,
}

impl Held<'_> {
    /// The largest of what is asked for, what the node has agreed to and what is in force; empty if
    /// that is what is asked for.
    pub(super) fn of(&self, name: &Interned, requests: &Pairs) -> Pairs {
        let status = self.statuses.iter().find(|it| it.name.as_ref() == Some(name));
        let allotted = status.into_iter().flat_map(|it| {
            let actual = it.resources.as_ref().and_then(|it| it.requests.as_ref());
            it.allocated_resources.iter().chain(actual)
        });
        let mut allotted = allotted.filter(|it| *it != requests).peekable();
        if allotted.peek().is_none() {
            return Pairs::default();
        }
        let asked = Some(requests).filter(|_| !self.is_infeasible);
        let mut largest: BTreeMap<&str, (Amount, &str)> = BTreeMap::new();
        for (name, text) in asked.into_iter().chain(allotted).flat_map(Pairs::iter) {
            let Ok(amount) = Amount::parse(text) else { continue };
            let most = largest.entry(name).or_insert((amount, text));
            if amount > most.0 {
                *most = (amount, text);
            }
        }
        let held: Pairs = largest.into_iter().map(|(name, (_, text))| (name, text)).collect();
        if held == *requests { Pairs::default() } else { held }
    }
}
