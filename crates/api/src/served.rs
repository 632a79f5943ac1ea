//! Every built-in kind that is served: the one list. It is compiled twice, and `served!` is what
//! its reader makes of it: the server's kinds here, and their schemas in `build.rs`. What else is
//! to be said of a kind is in `facts/` and in its folder.

use k8s_openapi::api::{
    admissionregistration, apiserverinternal, apps, authentication, authorization, autoscaling,
    coordination, core, discovery, events, policy, rbac, resource, scheduling, storage,
    storagemigration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;

served! {
    // Resources, group by group.
    kinds {
        admissionregistration::v1::MutatingAdmissionPolicy,
        admissionregistration::v1::MutatingAdmissionPolicyBinding,
        admissionregistration::v1::MutatingWebhookConfiguration,
        admissionregistration::v1::ValidatingAdmissionPolicy,
        admissionregistration::v1::ValidatingAdmissionPolicyBinding,
        admissionregistration::v1::ValidatingWebhookConfiguration,
        apiextensions::v1::CustomResourceDefinition,
        apiregistration::v1::APIService,
        apiserverinternal::v1alpha1::StorageVersion,
        apps::v1::Deployment,
        apps::v1::ReplicaSet,
        authentication::v1::SelfSubjectReview,
        authentication::v1::TokenReview,
        authorization::v1::LocalSubjectAccessReview,
        authorization::v1::SelfSubjectAccessReview,
        authorization::v1::SelfSubjectRulesReview,
        authorization::v1::SubjectAccessReview,
        autoscaling::v2::HorizontalPodAutoscaler,
        coordination::v1::Lease,
        core::v1::Binding,
        core::v1::ConfigMap,
        core::v1::Endpoints,
        core::v1::Event,
        core::v1::Namespace,
        core::v1::Node,
        core::v1::Pod,
        core::v1::ReplicationController,
        core::v1::Secret,
        core::v1::Service,
        core::v1::ServiceAccount,
        discovery::v1::EndpointSlice,
        policy::v1::PodDisruptionBudget,
        rbac::v1::ClusterRole,
        rbac::v1::ClusterRoleBinding,
        rbac::v1::Role,
        rbac::v1::RoleBinding,
        resource::v1::DeviceClass,
        resource::v1::ResourceClaim,
        resource::v1::ResourceClaimTemplate,
        resource::v1::ResourceSlice,
        resource::v1alpha3::DeviceTaintRule,
        resource::v1alpha3::ResourcePoolStatusRequest,
        scheduling::v1::PriorityClass,
        scheduling::v1alpha2::PodGroup,
        scheduling::v1alpha2::Workload,
        storage::v1::CSINode,
        storagemigration::v1beta1::StorageVersionMigration,
    }
    // The same resources in other versions, with the version that they are stored in.
    versions {
        admissionregistration::v1alpha1::MutatingAdmissionPolicy
            as admissionregistration::v1::MutatingAdmissionPolicy,
        admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding
            as admissionregistration::v1::MutatingAdmissionPolicyBinding,
        admissionregistration::v1beta1::MutatingAdmissionPolicy
            as admissionregistration::v1::MutatingAdmissionPolicy,
        admissionregistration::v1beta1::MutatingAdmissionPolicyBinding
            as admissionregistration::v1::MutatingAdmissionPolicyBinding,
        autoscaling::v1::HorizontalPodAutoscaler as autoscaling::v2::HorizontalPodAutoscaler,
        events::v1::Event as core::v1::Event,
        resource::v1beta1::DeviceClass as resource::v1::DeviceClass,
        resource::v1beta1::ResourceClaim as resource::v1::ResourceClaim,
        resource::v1beta1::ResourceClaimTemplate as resource::v1::ResourceClaimTemplate,
        resource::v1beta1::ResourceSlice as resource::v1::ResourceSlice,
        resource::v1beta2::DeviceClass as resource::v1::DeviceClass,
        resource::v1beta2::DeviceTaintRule as resource::v1alpha3::DeviceTaintRule,
        resource::v1beta2::ResourceClaim as resource::v1::ResourceClaim,
        resource::v1beta2::ResourceClaimTemplate as resource::v1::ResourceClaimTemplate,
        resource::v1beta2::ResourceSlice as resource::v1::ResourceSlice,
    }
    // Bodies of subresources, which are no resources of their own.
    bodies {
        authentication::v1::TokenRequest,
        autoscaling::v1::Scale,
        policy::v1::Eviction,
    }
}
