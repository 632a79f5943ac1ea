//! Where upstream's configuration has what the flags say, for `/configz`.

use crate::component_server::Places;

pub(super) const GROUP: &str = "kubecontrollermanager.config.k8s.io";

pub(super) const PLACES: Places = &[
    ("bind-address", &["Generic", "Address"]),
    ("controllers", &["Generic", "Controllers"]),
    ("leader-elect", &["Generic", "LeaderElection", "LeaderElect"]),
    ("leader-elect-lease-duration", &["Generic", "LeaderElection", "LeaseDuration"]),
    ("leader-elect-renew-deadline", &["Generic", "LeaderElection", "RenewDeadline"]),
    ("leader-elect-resource-lock", &["Generic", "LeaderElection", "ResourceLock"]),
    ("leader-elect-resource-namespace", &["Generic", "LeaderElection", "ResourceNamespace"]),
    ("leader-elect-retry-period", &["Generic", "LeaderElection", "RetryPeriod"]),
    ("kubeconfig", &["Generic", "ClientConnection", "Kubeconfig"]),
    ("secure-port", &["Generic", "Port"]),
    ("use-service-account-credentials", &["KubeCloudShared", "UseServiceAccountCredentials"]),
    ("allocate-node-cidrs", &["KubeCloudShared", "AllocateNodeCIDRs"]),
    ("cluster-cidr", &["KubeCloudShared", "ClusterCIDR"]),
    ("concurrent-cron-job-syncs", &["CronJobController", "ConcurrentCronJobSyncs"]),
    ("concurrent-daemonset-syncs", &["DaemonSetController", "ConcurrentDaemonSetSyncs"]),
    ("concurrent-deployment-syncs", &["DeploymentController", "ConcurrentDeploymentSyncs"]),
    ("concurrent-endpoint-syncs", &["EndpointController", "ConcurrentEndpointSyncs"]),
    ("concurrent-gc-syncs", &["GarbageCollectorController", "ConcurrentGCSyncs"]),
    (
        "concurrent-horizontal-pod-autoscaler-syncs",
        &["HPAController", "ConcurrentHorizontalPodAutoscalerSyncs"],
    ),
    ("concurrent-job-syncs", &["JobController", "ConcurrentJobSyncs"]),
    ("concurrent-namespace-syncs", &["NamespaceController", "ConcurrentNamespaceSyncs"]),
    ("concurrent-rc-syncs", &["ReplicationController", "ConcurrentRCSyncs"]),
    ("concurrent-replicaset-syncs", &["ReplicaSetController", "ConcurrentRSSyncs"]),
    (
        "concurrent-resource-quota-syncs",
        &["ResourceQuotaController", "ConcurrentResourceQuotaSyncs"],
    ),
    (
        "concurrent-service-endpoint-syncs",
        &["EndpointSliceController", "ConcurrentServiceEndpointSyncs"],
    ),
    ("concurrent-serviceaccount-token-syncs", &["SAController", "ConcurrentSATokenSyncs"]),
    ("concurrent-statefulset-syncs", &["StatefulSetController", "ConcurrentStatefulSetSyncs"]),
    ("concurrent-ttl-after-finished-syncs", &["TTLAfterFinishedController", "ConcurrentTTLSyncs"]),
    ("legacy-service-account-token-clean-up-period", &["LegacySATokenCleaner", "CleanUpPeriod"]),
    ("max-endpoints-per-slice", &["EndpointSliceController", "MaxEndpointsPerSlice"]),
    (
        "mirroring-concurrent-service-endpoint-syncs",
        &["EndpointSliceMirroringController", "MirroringConcurrentServiceEndpointSyncs"],
    ),
    (
        "mirroring-max-endpoints-per-subset",
        &["EndpointSliceMirroringController", "MirroringMaxEndpointsPerSubset"],
    ),
    ("node-eviction-rate", &["NodeLifecycleController", "NodeEvictionRate"]),
    ("node-monitor-grace-period", &["NodeLifecycleController", "NodeMonitorGracePeriod"]),
    ("node-startup-grace-period", &["NodeLifecycleController", "NodeStartupGracePeriod"]),
    ("resource-quota-sync-period", &["ResourceQuotaController", "ResourceQuotaSyncPeriod"]),
    ("service-account-private-key-file", &["SAController", "ServiceAccountKeyFile"]),
    ("root-ca-file", &["SAController", "RootCAFile"]),
    ("terminated-pod-gc-threshold", &["PodGCController", "TerminatedPodGCThreshold"]),
];
