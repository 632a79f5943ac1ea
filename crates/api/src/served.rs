//! Every built-in kind that is served: the one list. It is compiled twice, and `served!` is what
//! its reader makes of it: the server's kinds here, and their schemas in `build.rs`. What else is
//! to be said of a kind is in `facts/` and in its folder.

use k8s_openapi::api::{
    apps, authentication, authorization, autoscaling, batch, certificates, coordination, core,
    discovery, events, flowcontrol, networking, node, policy, rbac, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;

served! {
    // Resources, group by group.
    kinds {
        apiextensions::v1::CustomResourceDefinition,
        apps::v1::ControllerRevision,
        apps::v1::DaemonSet,
        apps::v1::Deployment,
        apps::v1::ReplicaSet,
        apps::v1::StatefulSet,
        authentication::v1::SelfSubjectReview,
        authentication::v1::TokenReview,
        authorization::v1::LocalSubjectAccessReview,
        authorization::v1::SelfSubjectAccessReview,
        authorization::v1::SelfSubjectRulesReview,
        authorization::v1::SubjectAccessReview,
        autoscaling::v2::HorizontalPodAutoscaler,
        batch::v1::CronJob,
        batch::v1::Job,
        certificates::v1::CertificateSigningRequest,
        certificates::v1beta1::ClusterTrustBundle,
        certificates::v1beta1::PodCertificateRequest,
        coordination::v1::Lease,
        coordination::v1beta1::LeaseCandidate,
        core::v1::Binding,
        core::v1::ComponentStatus,
        core::v1::ConfigMap,
        core::v1::Endpoints,
        core::v1::Event,
        core::v1::LimitRange,
        core::v1::Namespace,
        core::v1::Node,
        core::v1::PersistentVolume,
        core::v1::PersistentVolumeClaim,
        core::v1::Pod,
        core::v1::PodTemplate,
        core::v1::ReplicationController,
        core::v1::ResourceQuota,
        core::v1::Secret,
        core::v1::Service,
        core::v1::ServiceAccount,
        discovery::v1::EndpointSlice,
        flowcontrol::v1::FlowSchema,
        flowcontrol::v1::PriorityLevelConfiguration,
        networking::v1::IPAddress,
        networking::v1::Ingress,
        networking::v1::IngressClass,
        networking::v1::NetworkPolicy,
        networking::v1::ServiceCIDR,
        node::v1::RuntimeClass,
        policy::v1::PodDisruptionBudget,
        rbac::v1::ClusterRole,
        rbac::v1::ClusterRoleBinding,
        rbac::v1::Role,
        rbac::v1::RoleBinding,
        scheduling::v1::PriorityClass,
        storage::v1::CSIDriver,
        storage::v1::CSINode,
        storage::v1::CSIStorageCapacity,
        storage::v1::StorageClass,
        storage::v1::VolumeAttachment,
        storage::v1::VolumeAttributesClass,
    }
    // The same resources in other versions, with the version that they are stored in.
    versions {
        autoscaling::v1::HorizontalPodAutoscaler as autoscaling::v2::HorizontalPodAutoscaler,
        certificates::v1alpha1::ClusterTrustBundle as certificates::v1beta1::ClusterTrustBundle,
        coordination::v1alpha2::LeaseCandidate as coordination::v1beta1::LeaseCandidate,
        events::v1::Event as core::v1::Event,
        networking::v1beta1::IPAddress as networking::v1::IPAddress,
        networking::v1beta1::ServiceCIDR as networking::v1::ServiceCIDR,
        storage::v1beta1::VolumeAttributesClass as storage::v1::VolumeAttributesClass,
    }
    // Bodies of subresources, which are no resources of their own.
    bodies {
        authentication::v1::TokenRequest,
        autoscaling::v1::Scale,
        policy::v1::Eviction,
    }
}
