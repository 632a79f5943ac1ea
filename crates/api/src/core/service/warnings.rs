//! What is allowed in a Service but does less than it says.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use crate::check::text;

/// Whoever names a class has a controller of their own in mind.
pub(super) fn of(service: &Service) -> Vec<String> {
    let waits = |spec: &ServiceSpec| {
        text(spec.type_.as_ref()) == "LoadBalancer" && spec.load_balancer_class.is_none()
    };
    let balancer = service.status.as_ref().and_then(|it| it.load_balancer.as_ref());
    let has_address = balancer.is_some_and(|it| it.ingress.iter().flatten().next().is_some());
    if !service.spec.as_ref().is_some_and(waits) || has_address {
        return Vec::new();
    }
    vec![
        "spec.type: no load balancer controller runs in this cluster: the external IP stays <pending> \
         until you install one; the cluster IP and node ports work"
            .to_owned(),
    ]
}
