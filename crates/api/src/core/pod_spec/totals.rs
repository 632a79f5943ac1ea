//! What a pod needs at its peak, of requests or of limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::is_sidecar;
use crate::amounts::{self, Amounts, Summed, add, raise};

pub(super) fn requests(spec: &PodSpec) -> Amounts {
    peak(spec, |it| amounts::parse(it.resources.as_ref().and_then(|it| it.requests.as_ref())))
}

pub(super) fn limits(spec: &PodSpec) -> Amounts {
    peak(spec, |it| amounts::parse(it.resources.as_ref().and_then(|it| it.limits.as_ref())))
}

/// Init containers run one after another, beside the sidecars that were started before them; then
/// all others run together. `of` is what one container needs. Example (cpu): sidecar 1, init 3,
/// container 1: max(1+1, 1+3) = 4.
pub fn peak<S: Summed>(
    spec: &PodSpec,
    of: impl Fn(&Container) -> BTreeMap<String, S>,
) -> BTreeMap<String, S> {
    let mut running = BTreeMap::new();
    for container in &spec.containers {
        add(&mut running, &of(container));
    }
    let (mut sidecars, mut starting) = (BTreeMap::new(), BTreeMap::new());
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
    running
}
