//! What a pod needs at its peak, of requests or of limits, with the way that amounts are written.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::is_sidecar;
use crate::amounts::{Amounts, add, raise};

/// Init containers run one after another, beside the sidecars that were started before them; then
/// all others run together. `of` is what one container needs.
pub fn peak(spec: &PodSpec, of: impl Fn(&Container) -> Amounts) -> Amounts {
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
    running
}
