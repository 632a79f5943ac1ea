//! One folder per plugin, and their order.

use std::sync::Arc;

use stdx::World;

use crate::chain::Plugin;
use crate::policy::Policies;

pub mod certificate_approval;
pub mod certificate_signing;
pub mod certificate_subject_restriction;
pub mod cluster_trust_bundle_attest;
pub mod default_ingress_class;
pub mod default_storage_class;
pub mod default_toleration_seconds;
pub mod limit_ranger;
pub mod mutating_admission_policy;
pub mod namespace_lifecycle;
pub mod node_declared_feature_validator;
pub mod node_restriction;
pub mod persistent_volume_claim_resize;
pub mod pod_resize_validator;
pub mod priority;
pub mod resource_quota;
pub mod runtime_class;
pub mod service_account;
mod signers;
pub mod taint_nodes_by_condition;
pub mod validating_admission_policy;

#[cfg(test)]
pub(crate) mod fixture;

/// Every plugin, in upstream's order: it is part of the API, because a later plugin sees what
/// earlier ones changed.
pub fn all(world: &World, policies: &Arc<Policies>) -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(namespace_lifecycle::NamespaceLifecycle),
        Arc::new(limit_ranger::LimitRanger),
        Arc::new(service_account::ServiceAccounts::new(world.random.clone())),
        Arc::new(node_restriction::NodeRestriction),
        Arc::new(taint_nodes_by_condition::TaintNodesByCondition),
        Arc::new(priority::Priority),
        Arc::new(default_toleration_seconds::DefaultTolerationSeconds),
        Arc::new(default_storage_class::DefaultStorageClass),
        Arc::new(persistent_volume_claim_resize::PersistentVolumeClaimResize),
        Arc::new(runtime_class::RuntimeClasses),
        Arc::new(certificate_approval::CertificateApproval),
        Arc::new(certificate_signing::CertificateSigning),
        Arc::new(cluster_trust_bundle_attest::ClusterTrustBundleAttest),
        Arc::new(certificate_subject_restriction::CertificateSubjectRestriction),
        Arc::new(default_ingress_class::DefaultIngressClass),
        Arc::new(node_declared_feature_validator::NodeDeclaredFeatureValidator),
        Arc::new(pod_resize_validator::PodResizeValidator),
        Arc::new(mutating_admission_policy::MutatingAdmissionPolicy(policies.clone())),
        Arc::new(validating_admission_policy::ValidatingAdmissionPolicy(policies.clone())),
        Arc::new(resource_quota::ResourceQuotas::new(world.clock.clone())),
    ]
}
