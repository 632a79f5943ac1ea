//! One folder per kind that does more than its rules in `api` say: what it takes, refuses, acts on
//! or connects to.

mod admission_policy;
pub(crate) mod api_service;
mod certificate_signing_request;
mod component_status;
mod config_map;
mod custom_resource_definition;
mod device_taint;
mod event;
mod flow_control;
mod horizontal_pod_autoscaler;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod pod;
mod pod_certificate_request;
mod pod_template;
mod priority_class;
mod rbac;
mod resource_claim;
mod reviews;
mod secret;
mod service;
mod service_account;
mod usage;
mod webhook_configuration;

pub(crate) use admission_policy::FromCache as ParametersFromCache;
pub(crate) use config_map::plan_at_start as plan_token_tracking;
pub(crate) use flow_control::plan as plan_flow_control;
pub(crate) use namespace::plan as plan_namespaces;
pub(crate) use service::plan as plan_addresses;

use std::sync::{Arc, Weak};

use admission::policy::Policies;
use admission::webhook::Webhooks;
use authn::tokens::TokenIssuer;
use authz::Rbac;
use stdx::World;

use crate::cache::Cache;
use crate::config::Config;
use crate::conversion::Conversions;
use crate::kubelets::Kubelets;
use crate::legacy_tokens::LegacyTokens;
use crate::pipeline::deleted_nodes::DeletedNodes;
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
    pub(crate) legacy_tokens: LegacyTokens,
    pub(crate) deleted_nodes: &'a Arc<DeletedNodes>,
    pub(crate) webhooks: &'a Arc<Webhooks>,
    pub(crate) policies: &'a Arc<Policies>,
    pub(crate) conversions: Conversions,
    pub(crate) metrics: &'a telemetry::Registry,
}

/// Every kind that has hooks.
pub(crate) fn all(needs: Needs<'_>) -> Vec<Arc<dyn Hooks>> {
    let Needs { config, world, registry, cache, rbac, issuer, legacy_tokens, .. } = needs;
    let Needs { webhooks, policies, conversions, metrics, deleted_nodes, .. } = needs;
    let kubelets = Arc::new(Kubelets::new(config.kubelet_tls.clone()));
    let (cidrs, ports) = (config.service_cidrs.clone(), config.node_port_range.clone());
    let mut all: Vec<Arc<dyn Hooks>> = vec![
        Arc::new(admission_policy::AdmissionPolicies::new(policies.clone())),
        Arc::new(api_service::ApiServices::default()),
        Arc::new(certificate_signing_request::CertificateSigningRequests),
        Arc::new(component_status::ComponentStatuses),
        Arc::new(config_map::Tracking::default()),
        Arc::new(custom_resource_definition::Definitions::new(
            registry.clone(),
            cache,
            conversions,
            metrics,
        )),
        Arc::new(device_taint::DeviceTaints),
        Arc::new(event::Events::new(config.event_ttl, world.clock.clone())),
        Arc::new(flow_control::FlowControl::default()),
        Arc::new(horizontal_pod_autoscaler::Autoscalers),
        Arc::new(limit_range::LimitRanges),
        Arc::new(namespace::Namespaces::default()),
        Arc::new(node::Nodes::new(kubelets.clone(), deleted_nodes.clone())),
        Arc::new(persistent_volume::PersistentVolumes),
        Arc::new(pod::Bindings),
        Arc::new(pod::Pods::new(kubelets.clone())),
        Arc::new(pod_certificate_request::PodCertificateRequests),
        Arc::new(pod_template::PodTemplates),
        Arc::new(priority_class::PriorityClasses),
        Arc::new(rbac::Roles::new(rbac.clone())),
        Arc::new(resource_claim::ResourceClaims),
        Arc::new(secret::Secrets { tokens: legacy_tokens }),
        Arc::new(service::Addresses::new(&cidrs, ports, world.random.clone())),
        Arc::new(service_account::ServiceAccounts::new(issuer)),
        Arc::new(usage::Usages::new(kubelets)),
        Arc::new(webhook_configuration::WebhookConfigurations::new(webhooks.clone())),
    ];
    all.extend(reviews::all().map(|it| Arc::new(it) as Arc<dyn Hooks>));
    all
}
