//! Services: how many, and how many ports of the nodes and load balancers they take.

use apimachinery::GroupResource;
use k8s_openapi::api::core::v1::Service;

use super::{count_name, one};
use crate::amounts::{Amounts, Written};

const NODE_PORTS: &str = "services.nodeports";
const LOAD_BALANCERS: &str = "services.loadbalancers";

pub(super) fn counts(name: &str) -> bool {
    matches!(name, "services" | NODE_PORTS | LOAD_BALANCERS)
}

pub(super) fn usage(service: &Service) -> Amounts {
    let spec = service.spec.as_ref();
    let type_ = spec.and_then(|it| it.type_.as_deref()).unwrap_or_default();
    let ports = spec.and_then(|it| it.ports.as_deref()).unwrap_or_default();
    let is_bare = spec.and_then(|it| it.allocate_load_balancer_node_ports) == Some(false);
    let n_ports = match type_ {
        // Those alone that it names.
        "LoadBalancer" if is_bare => {
            ports.iter().filter(|it| it.node_port.is_some_and(|it| it != 0)).count()
        }
        "LoadBalancer" | "NodePort" => ports.len(),
        _ => 0,
    };
    Amounts::from([
        (count_name(&GroupResource::new("", "services")), one()),
        ("services".to_owned(), one()),
        (NODE_PORTS.to_owned(), Written::count(n_ports)),
        (LOAD_BALANCERS.to_owned(), Written::count(usize::from(type_ == "LoadBalancer"))),
    ])
}
