//! One folder per kind that does more than its rules in `api` say: what it takes, refuses, acts on
//! or connects to.

mod certificate_signing_request;
mod custom_resource_definition;
mod event;
mod flow_control;
mod namespace;
mod pod;
mod pod_certificate_request;
mod priority_class;
mod rbac;
mod reviews;
mod service;
mod service_account;

pub(crate) use flow_control::plan as plan_flow_control;
pub(crate) use service::plan as plan_addresses;

use std::sync::{Arc, Weak};

use authn::tokens::TokenIssuer;
use authz::Rbac;
use stdx::World;

use crate::cache::Cache;
use crate::config::Config;
use crate::kubelets::Kubelets;
use crate::pipeline::hooks::Hooks;
use crate::registry::Registry;

/// What single kinds need of the server.
pub(crate) struct Needs<'a> {
    pub(crate) config: &'a Config,
    pub(crate) world: &'a World,
    pub(crate) registry: &'a Arc<Registry>,
    pub(crate) cache: Weak<Cache>,
    pub(crate) rbac: &'a Arc<Rbac>,
    pub(crate) issuer: TokenIssuer,
}

/// Every kind that has hooks.
pub(crate) fn all(needs: Needs<'_>) -> Vec<Arc<dyn Hooks>> {
    let Needs { config, world, registry, cache, rbac, issuer } = needs;
    let kubelets = Kubelets::new(config.kubelet_tls.clone());
    let (cidrs, ports) = (config.service_cidrs.clone(), config.node_port_range.clone());
    let mut all: Vec<Arc<dyn Hooks>> = vec![
        Arc::new(certificate_signing_request::CertificateSigningRequests),
        Arc::new(custom_resource_definition::Definitions::new(registry.clone(), cache)),
        Arc::new(event::Events::new(config.event_ttl, world.clock.clone())),
        Arc::new(flow_control::FlowControl::default()),
        Arc::new(namespace::Namespaces),
        Arc::new(pod::Bindings),
        Arc::new(pod::Pods::new(kubelets)),
        Arc::new(pod_certificate_request::PodCertificateRequests),
        Arc::new(priority_class::PriorityClasses),
        Arc::new(rbac::Roles::new(rbac.clone())),
        Arc::new(service::Addresses::new(&cidrs, ports, world.random.clone())),
        Arc::new(service_account::ServiceAccounts::new(issuer)),
    ];
    all.extend(reviews::all().map(|it| Arc::new(it) as Arc<dyn Hooks>));
    all
}
