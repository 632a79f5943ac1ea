//! What a pod asks for in all. The way that an amount is written is kept: refusals show it.

use std::collections::BTreeMap;

use api::core::pod_spec::is_sidecar;
use apimachinery::quantity::{Amount, Family};
use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::constraints::Asked;

/// By the name of the resource.
pub(super) type Amounts = BTreeMap<String, Written>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) amount: Amount,
    family: Family,
}

impl Written {
    pub(super) fn parse(quantity: &Quantity) -> Option<Self> {
        let (amount, family) = Amount::parse_with_family(&quantity.0).ok()?;
        Some(Self { amount, family })
    }

    pub(super) fn shown(self) -> String {
        self.amount.render(self.family)
    }
}

pub(super) fn amounts(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let each = list.into_iter().flatten();
    each.filter_map(|(name, it)| Some((name.clone(), Written::parse(it)?))).collect()
}

/// What resources the pod itself may speak of, for all of its containers.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

type List = fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>;

pub(super) fn asked_by(spec: &PodSpec) -> Asked {
    Asked {
        requests: total(spec, |it| it.requests.as_ref()),
        limits: total(spec, |it| it.limits.as_ref()),
    }
}

/// Init containers run one after another, beside the sidecars that were started before them; then
/// all others run together.
fn total(spec: &PodSpec, list: List) -> Amounts {
    let of = |container: &Container| amounts(container.resources.as_ref().and_then(list));
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &of(container));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut wanted = of(container);
        if is_sidecar(container) {
            add(&mut running, &wanted);
            add(&mut sidecars, &wanted);
            wanted = sidecars.clone();
        } else {
            add(&mut wanted, &sidecars);
        }
        raise(&mut starting, &wanted);
    }
    raise(&mut running, &starting);
    let of_pod = amounts(spec.resources.as_ref().and_then(list));
    running.extend(of_pod.into_iter().filter(|it| OF_PODS.contains(&it.0.as_str())));
    running
}

fn add(totals: &mut Amounts, more: &Amounts) {
    for (name, written) in more {
        let total =
            totals.entry(name.clone()).or_insert(Written { amount: Amount::ZERO, ..*written });
        total.amount = total.amount.saturating_add(written.amount);
    }
}

fn raise(totals: &mut Amounts, at_least: &Amounts) {
    for (name, written) in at_least {
        let total = totals.entry(name.clone()).or_insert(*written);
        if written.amount > total.amount {
            *total = *written;
        }
    }
}
