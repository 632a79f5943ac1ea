//! The resources that a pod asks for, as the scheduler counts them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::quantity::Amount;

use super::peak;
use crate::amounts::add;

/// Resource name to amount: `cpu` in thousandths, everything else in whole units, both rounded up.
type Totals = BTreeMap<String, i64>;

/// What must be free on a node for the pod to run there.
///
/// That is the peak of its containers. Requests of the pod itself replace the sum for the resources
/// that they name. Overhead is added.
pub fn requests(spec: &PodSpec) -> BTreeMap<String, i64> {
    let mut totals = peak(spec, |it| of(it.resources.as_ref()));
    totals.extend(of(spec.resources.as_ref()));
    add(&mut totals, &amounts(spec.overhead.as_ref()));
    totals
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
