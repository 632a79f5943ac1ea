//! One folder per plugin, and their order.

use std::collections::BTreeSet;
use std::sync::Arc;

use features::Gates;
use stdx::World;
use telemetry::Registry;

use self::namespace_auto_provision::Provisioner;
use self::selection::Selection;
use crate::chain::Plugin;
use crate::configuration::{Configuration, Error};
use crate::policy::Policies;
use crate::webhook::Webhooks;
use crate::webhook::credentials::{self, Asking};

pub mod always_admit;
pub mod always_deny;
pub mod always_pull_images;
pub mod certificate_approval;
pub mod certificate_signing;
pub mod certificate_subject_restriction;
pub mod cluster_trust_bundle_attest;
pub mod default_ingress_class;
pub mod default_storage_class;
pub mod default_toleration_seconds;
pub mod deny_service_external_ips;
pub mod event_rate_limit;
pub mod extended_resource_toleration;
mod finalizers;
pub mod image_policy_webhook;
pub mod job_validation;
pub mod limit_pod_hard_anti_affinity_topology;
pub mod limit_ranger;
pub mod mutating_admission_policy;
pub mod mutating_webhook;
pub mod namespace_auto_provision;
pub mod namespace_exists;
pub mod namespace_lifecycle;
pub mod node_declared_feature_validator;
pub mod node_restriction;
pub mod owner_references_permission_enforcement;
pub mod persistent_volume_claim_resize;
pub mod pod_group_protection;
pub mod pod_group_workload_exists;
pub mod pod_node_selector;
pub mod pod_resize_validator;
pub mod pod_security;
pub mod pod_toleration_restriction;
pub mod pod_topology_labels;
pub mod priority;
pub mod resource_quota;
pub mod runtime_class;
pub mod selection;
pub mod service_account;
mod signers;
pub mod storage_object_in_use_protection;
pub mod taint_nodes_by_condition;
mod tolerations;
pub mod validating_admission_policy;
pub mod validating_webhook;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
pub(crate) mod pod_fields;

/// What plugins are made of.
pub struct Needs<'a> {
    pub world: &'a World,
    pub gates: &'a Gates,
    pub metrics: &'a Registry,
    pub configuration: &'a Configuration,
    pub provisioner: &'a Arc<dyn Provisioner>,
    /// Absent: there is nobody to ask, because all that is wanted is whether the configuration can
    /// be.
    pub deciders: Option<Deciders<'a>>,
}

/// What users have decide about requests.
#[derive(Clone, Copy)]
pub struct Deciders<'a> {
    pub webhooks: &'a Arc<Webhooks>,
    pub policies: &'a Arc<Policies>,
}

type Made = Result<Option<Arc<dyn Plugin>>, Error>;

/// One plugin, and whether it runs where nobody says.
pub struct Entry {
    pub name: &'static str,
    pub is_on: bool,
    make: fn(&Needs<'_>) -> Made,
}

const fn on(name: &'static str, make: fn(&Needs<'_>) -> Made) -> Entry {
    Entry { name, is_on: true, make }
}

const fn off(name: &'static str, make: fn(&Needs<'_>) -> Made) -> Entry {
    Entry { name, is_on: false, make }
}

#[expect(clippy::unnecessary_wraps, reason = "others can fail")]
fn made(plugin: impl Plugin + 'static) -> Made {
    Ok(Some(Arc::new(plugin)))
}

#[expect(clippy::unnecessary_wraps, reason = "others can fail")]
fn perhaps(plugin: Option<impl Plugin + 'static>) -> Made {
    Ok(plugin.map(|it| Arc::new(it) as Arc<dyn Plugin>))
}

/// Who `A` is to those that it asks must be there, also where nobody is asked yet.
fn asking<A: Asking, P: Plugin + 'static>(
    plugin: fn(Arc<Webhooks>) -> P,
    needs: &Needs<'_>,
) -> Made {
    credentials::load::<A>(needs.configuration)?;
    Ok(needs.deciders.map(|it| Arc::new(plugin(it.webhooks.clone())) as Arc<dyn Plugin>))
}

#[expect(clippy::unnecessary_wraps, reason = "others can fail")]
fn judging<P: Plugin + 'static>(plugin: fn(Arc<Policies>) -> P, needs: &Needs<'_>) -> Made {
    Ok(needs.deciders.map(|it| Arc::new(plugin(it.policies.clone())) as Arc<dyn Plugin>))
}

/// Every plugin, in upstream's order: it is part of the API, because a later plugin sees what
/// earlier ones changed. On are those that are on upstream, and NodeRestriction, which whoever sets
/// up a cluster switches on there.
pub const ALL: &[Entry] = &[
    off("AlwaysAdmit", |_| made(always_admit::AlwaysAdmit)),
    off("NamespaceAutoProvision", |it| {
        made(namespace_auto_provision::NamespaceAutoProvision::new(it.provisioner.clone()))
    }),
    on("NamespaceLifecycle", |_| made(namespace_lifecycle::NamespaceLifecycle)),
    off("NamespaceExists", |_| made(namespace_exists::NamespaceExists)),
    off("LimitPodHardAntiAffinityTopology", |_| {
        made(limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology)
    }),
    on("LimitRanger", |_| made(limit_ranger::LimitRanger)),
    on("ServiceAccount", |it| made(service_account::ServiceAccounts::new(it.world.random.clone()))),
    on("NodeRestriction", |_| made(node_restriction::NodeRestriction)),
    on("TaintNodesByCondition", |_| made(taint_nodes_by_condition::TaintNodesByCondition)),
    off("AlwaysPullImages", |_| made(always_pull_images::AlwaysPullImages)),
    off("ImagePolicyWebhook", |it| {
        let caller = it.deciders.map(|it| it.webhooks.caller());
        perhaps(image_policy_webhook::ImagePolicyWebhook::new(it.configuration, caller, it.world)?)
    }),
    on("PodSecurity", |it| {
        let clock = it.world.clock.clone();
        made(pod_security::PodSecurity::new(it.configuration, it.metrics, clock)?)
    }),
    off("PodNodeSelector", |it| made(pod_node_selector::PodNodeSelector::new(it.configuration)?)),
    on("Priority", |_| made(priority::Priority)),
    on("DefaultTolerationSeconds", |_| made(default_toleration_seconds::DefaultTolerationSeconds)),
    off("PodTolerationRestriction", |it| {
        made(pod_toleration_restriction::PodTolerationRestriction::new(it.configuration)?)
    }),
    off("EventRateLimit", |it| {
        made(event_rate_limit::EventRateLimit::new(it.configuration, it.world.clock.clone())?)
    }),
    off("ExtendedResourceToleration", |_| {
        made(extended_resource_toleration::ExtendedResourceToleration)
    }),
    on("DefaultStorageClass", |_| made(default_storage_class::DefaultStorageClass)),
    on("StorageObjectInUseProtection", |_| {
        made(storage_object_in_use_protection::StorageObjectInUseProtection)
    }),
    on("PodGroupProtection", |it| made(pod_group_protection::PodGroupProtection::new(it.gates))),
    off("OwnerReferencesPermissionEnforcement", |_| {
        made(owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement)
    }),
    on("PersistentVolumeClaimResize", |_| {
        made(persistent_volume_claim_resize::PersistentVolumeClaimResize)
    }),
    on("RuntimeClass", |_| made(runtime_class::RuntimeClasses)),
    on("CertificateApproval", |_| made(certificate_approval::CertificateApproval)),
    on("CertificateSigning", |_| made(certificate_signing::CertificateSigning)),
    on("ClusterTrustBundleAttest", |_| made(cluster_trust_bundle_attest::ClusterTrustBundleAttest)),
    on("CertificateSubjectRestriction", |_| {
        made(certificate_subject_restriction::CertificateSubjectRestriction)
    }),
    on("DefaultIngressClass", |_| made(default_ingress_class::DefaultIngressClass)),
    off("DenyServiceExternalIPs", |_| made(deny_service_external_ips::DenyServiceExternalIps)),
    on("PodTopologyLabels", |_| made(pod_topology_labels::PodTopologyLabels)),
    on("PodGroupWorkloadExists", |it| {
        made(pod_group_workload_exists::PodGroupWorkloadExists::new(it.gates))
    }),
    on("NodeDeclaredFeatureValidator", |_| {
        made(node_declared_feature_validator::NodeDeclaredFeatureValidator)
    }),
    on("JobValidation", |it| made(job_validation::JobValidation::new(it.gates))),
    on("PodResizeValidator", |_| made(pod_resize_validator::PodResizeValidator)),
    on("MutatingAdmissionPolicy", |it| {
        judging(mutating_admission_policy::MutatingAdmissionPolicy, it)
    }),
    on("MutatingAdmissionWebhook", |it| {
        asking::<credentials::Mutating, _>(mutating_webhook::MutatingWebhook, it)
    }),
    on("ValidatingAdmissionPolicy", |it| {
        judging(validating_admission_policy::ValidatingAdmissionPolicy, it)
    }),
    on("ValidatingAdmissionWebhook", |it| {
        asking::<credentials::Validating, _>(validating_webhook::ValidatingWebhook, it)
    }),
    on("ResourceQuota", |it| {
        let clock = it.world.clock.clone();
        made(resource_quota::ResourceQuotas::new(it.configuration, clock)?)
    }),
    off("AlwaysDeny", |_| made(always_deny::AlwaysDeny)),
];

/// All names that can be said.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|it| it.name)
}

/// Of those that run, the named ones made anew; or what of their configuration cannot be.
pub fn renewed(
    selection: &Selection,
    needs: &Needs<'_>,
    names: &BTreeSet<&str>,
) -> Result<Vec<Arc<dyn Plugin>>, Error> {
    let meant = ALL.iter().filter(|it| selection.includes(it) && names.contains(it.name));
    meant.filter_map(|it| (it.make)(needs).transpose()).collect()
}

/// Those that run, in order; or what of their configuration cannot be.
pub fn all(selection: &Selection, needs: &Needs<'_>) -> Result<Vec<Arc<dyn Plugin>>, Error> {
    let running = ALL.iter().filter(|it| selection.includes(it));
    running.filter_map(|it| (it.make)(needs).transpose()).collect()
}
