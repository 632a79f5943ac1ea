//! The resources that a pod asks for, as the scheduler counts them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::quantity::Amount;

use super::is_sidecar;

/// Resource name to amount: `cpu` in thousandths, everything else in whole units, both rounded up.
type Totals = BTreeMap<String, i64>;

/// What must be free on a node for the pod to run there.
///
/// Init containers run one after another while the sidecars started before them keep running, so
/// the peak is the larger of the containers with all sidecars and of each init container with the
/// sidecars before it. Example (cpu): sidecar 1, init 3, container 1: max(1+1, 1+3) = 4.
/// Requests of the pod itself replace the sum for the resources that they name. Overhead is added.
pub fn requests(spec: &PodSpec) -> BTreeMap<String, i64> {
    let mut totals = of_containers(spec);
    totals.extend(of(spec.resources.as_ref()));
    add(&mut totals, &amounts(spec.overhead.as_ref()));
    totals
}

/// The peak of what containers ask for.
pub(super) fn of_containers(spec: &PodSpec) -> BTreeMap<String, i64> {
    let mut running = Totals::new();
    for container in &spec.containers {
        add(&mut running, &of_container(container));
    }
    let mut sidecars = Totals::new();
    let mut initial_peak = Totals::new();
    for container in spec.init_containers.iter().flatten() {
        let mut wanted = of_container(container);
        if is_sidecar(container) {
            add(&mut running, &wanted);
            add(&mut sidecars, &wanted);
            wanted = sidecars.clone();
        } else {
            add(&mut wanted, &sidecars);
        }
        raise(&mut initial_peak, &wanted);
    }
    raise(&mut running, &initial_peak);
    running
}

fn of_container(container: &Container) -> Totals {
    of(container.resources.as_ref())
}

fn of(resources: Option<&ResourceRequirements>) -> Totals {
    amounts(resources.and_then(|it| it.requests.as_ref()))
}

fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Totals {
    quantities
        .into_iter()
        .flatten()
        .filter_map(|(name, quantity)| {
            let amount = Amount::parse(&quantity.0).ok()?;
            Some((name.clone(), if name == "cpu" { amount.millis() } else { amount.value() }))
        })
        .collect()
}

fn add(totals: &mut Totals, more: &Totals) {
    for (name, amount) in more {
        let total = totals.entry(name.clone()).or_default();
        *total = total.saturating_add(*amount);
    }
}

fn raise(totals: &mut Totals, at_least: &Totals) {
    for (name, amount) in at_least {
        let total = totals.entry(name.clone()).or_default();
        *total = (*total).max(*amount);
    }
}
