//! Every field of a pod spec is one that a check looks at, or is known to be harmless. A field that
//! is new is neither, and fails here until somebody has thought about it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::plugins::pod_fields;

/// Fields of containers, of all three sorts: what looks at them, or `harmless`.
const OF_CONTAINERS: &[(&str, &str)] = &[
    ("args", "harmless"),
    ("command", "harmless"),
    ("env", "harmless"),
    ("envFrom", "harmless"),
    ("image", "harmless"),
    ("imagePullPolicy", "harmless"),
    ("lifecycle.postStart.exec", "harmless"),
    ("lifecycle.postStart.httpGet.host", "hostProbesAndHostLifecycle"),
    ("lifecycle.postStart.httpGet.httpHeaders", "harmless"),
    ("lifecycle.postStart.httpGet.path", "harmless"),
    ("lifecycle.postStart.httpGet.port", "harmless"),
    ("lifecycle.postStart.httpGet.scheme", "harmless"),
    ("lifecycle.postStart.sleep", "harmless"),
    ("lifecycle.postStart.tcpSocket.host", "hostProbesAndHostLifecycle"),
    ("lifecycle.postStart.tcpSocket.port", "harmless"),
    ("lifecycle.preStop.exec", "harmless"),
    ("lifecycle.preStop.httpGet.host", "hostProbesAndHostLifecycle"),
    ("lifecycle.preStop.httpGet.httpHeaders", "harmless"),
    ("lifecycle.preStop.httpGet.path", "harmless"),
    ("lifecycle.preStop.httpGet.port", "harmless"),
    ("lifecycle.preStop.httpGet.scheme", "harmless"),
    ("lifecycle.preStop.sleep", "harmless"),
    ("lifecycle.preStop.tcpSocket.host", "hostProbesAndHostLifecycle"),
    ("lifecycle.preStop.tcpSocket.port", "harmless"),
    ("lifecycle.stopSignal", "harmless"),
    ("name", "harmless"),
    ("ports.[].containerPort", "harmless"),
    ("ports.[].hostIP", "harmless"),
    ("ports.[].hostPort", "hostPorts"),
    ("ports.[].name", "harmless"),
    ("ports.[].protocol", "harmless"),
    ("resizePolicy", "harmless"),
    ("resources", "harmless"),
    ("restartPolicy", "harmless"),
    ("restartPolicyRules", "harmless"),
    ("securityContext.allowPrivilegeEscalation", "allowPrivilegeEscalation"),
    ("securityContext.appArmorProfile.localhostProfile", "harmless"),
    ("securityContext.appArmorProfile.type", "appArmorProfile"),
    ("securityContext.capabilities.add", "capabilities_baseline"),
    ("securityContext.capabilities.drop", "capabilities_restricted"),
    ("securityContext.privileged", "privileged"),
    ("securityContext.procMount", "procMount"),
    ("securityContext.readOnlyRootFilesystem", "harmless"),
    ("securityContext.runAsGroup", "harmless"),
    ("securityContext.runAsNonRoot", "runAsNonRoot"),
    ("securityContext.runAsUser", "runAsUser"),
    ("securityContext.seLinuxOptions.level", "harmless"),
    ("securityContext.seLinuxOptions.role", "seLinuxOptions"),
    ("securityContext.seLinuxOptions.type", "seLinuxOptions"),
    ("securityContext.seLinuxOptions.user", "seLinuxOptions"),
    ("securityContext.seccompProfile.localhostProfile", "harmless"),
    ("securityContext.seccompProfile.type", "seccompProfile_baseline"),
    ("securityContext.windowsOptions.gmsaCredentialSpec", "harmless"),
    ("securityContext.windowsOptions.gmsaCredentialSpecName", "harmless"),
    ("securityContext.windowsOptions.hostProcess", "windowsHostProcess"),
    ("securityContext.windowsOptions.runAsUserName", "harmless"),
    ("stdin", "harmless"),
    ("stdinOnce", "harmless"),
    ("targetContainerName", "harmless"),
    ("terminationMessagePath", "harmless"),
    ("terminationMessagePolicy", "harmless"),
    ("tty", "harmless"),
    ("volumeDevices", "harmless"),
    ("volumeMounts", "harmless"),
    ("workingDir", "harmless"),
];

/// Of probes, below each of the three.
const OF_PROBES: &[(&str, &str)] = &[
    ("exec", "harmless"),
    ("failureThreshold", "harmless"),
    ("grpc", "harmless"),
    ("httpGet.host", "hostProbesAndHostLifecycle"),
    ("httpGet.httpHeaders", "harmless"),
    ("httpGet.path", "harmless"),
    ("httpGet.port", "harmless"),
    ("httpGet.scheme", "harmless"),
    ("initialDelaySeconds", "harmless"),
    ("periodSeconds", "harmless"),
    ("successThreshold", "harmless"),
    ("tcpSocket.host", "hostProbesAndHostLifecycle"),
    ("tcpSocket.port", "harmless"),
    ("terminationGracePeriodSeconds", "harmless"),
    ("timeoutSeconds", "harmless"),
];

/// Of the pod itself.
const OF_PODS: &[(&str, &str)] = &[
    ("activeDeadlineSeconds", "harmless"),
    ("affinity", "harmless"),
    ("automountServiceAccountToken", "harmless"),
    ("dnsConfig", "harmless"),
    ("dnsPolicy", "harmless"),
    ("enableServiceLinks", "harmless"),
    ("hostAliases", "harmless"),
    ("hostIPC", "hostNamespaces"),
    ("hostNetwork", "hostNamespaces"),
    ("hostPID", "hostNamespaces"),
    ("hostUsers", "procMount"),
    ("hostname", "harmless"),
    ("hostnameOverride", "harmless"),
    ("imagePullSecrets", "harmless"),
    ("nodeName", "harmless"),
    ("nodeSelector", "harmless"),
    ("os", "allowPrivilegeEscalation"),
    ("overhead", "harmless"),
    ("preemptionPolicy", "harmless"),
    ("priority", "harmless"),
    ("priorityClassName", "harmless"),
    ("readinessGates", "harmless"),
    ("resourceClaims", "harmless"),
    ("resources", "harmless"),
    ("restartPolicy", "harmless"),
    ("runtimeClassName", "exemptions"),
    ("schedulerName", "harmless"),
    ("schedulingGates", "harmless"),
    ("schedulingGroup", "harmless"),
    ("securityContext.appArmorProfile.localhostProfile", "harmless"),
    ("securityContext.appArmorProfile.type", "appArmorProfile"),
    ("securityContext.fsGroup", "harmless"),
    ("securityContext.fsGroupChangePolicy", "harmless"),
    ("securityContext.runAsGroup", "harmless"),
    ("securityContext.runAsNonRoot", "runAsNonRoot"),
    ("securityContext.runAsUser", "runAsUser"),
    ("securityContext.seLinuxChangePolicy", "harmless"),
    ("securityContext.seLinuxOptions.level", "harmless"),
    ("securityContext.seLinuxOptions.role", "seLinuxOptions"),
    ("securityContext.seLinuxOptions.type", "seLinuxOptions"),
    ("securityContext.seLinuxOptions.user", "seLinuxOptions"),
    ("securityContext.seccompProfile.localhostProfile", "harmless"),
    ("securityContext.seccompProfile.type", "seccompProfile_baseline"),
    ("securityContext.supplementalGroups", "harmless"),
    ("securityContext.supplementalGroupsPolicy", "harmless"),
    ("securityContext.sysctls.[].name", "sysctls"),
    ("securityContext.sysctls.[].value", "harmless"),
    ("securityContext.windowsOptions.gmsaCredentialSpec", "harmless"),
    ("securityContext.windowsOptions.gmsaCredentialSpecName", "harmless"),
    ("securityContext.windowsOptions.hostProcess", "windowsHostProcess"),
    ("securityContext.windowsOptions.runAsUserName", "harmless"),
    ("serviceAccount", "harmless"),
    ("serviceAccountName", "harmless"),
    ("setHostnameAsFQDN", "harmless"),
    ("shareProcessNamespace", "harmless"),
    ("subdomain", "harmless"),
    ("terminationGracePeriodSeconds", "harmless"),
    ("tolerations", "harmless"),
    ("topologySpreadConstraints", "harmless"),
    ("volumes.[].awsElasticBlockStore", "restrictedVolumes"),
    ("volumes.[].azureDisk", "restrictedVolumes"),
    ("volumes.[].azureFile", "restrictedVolumes"),
    ("volumes.[].cephfs", "restrictedVolumes"),
    ("volumes.[].cinder", "restrictedVolumes"),
    ("volumes.[].configMap", "harmless"),
    ("volumes.[].csi", "harmless"),
    ("volumes.[].downwardAPI", "harmless"),
    ("volumes.[].emptyDir", "harmless"),
    ("volumes.[].ephemeral", "harmless"),
    ("volumes.[].fc", "restrictedVolumes"),
    ("volumes.[].flexVolume", "restrictedVolumes"),
    ("volumes.[].flocker", "restrictedVolumes"),
    ("volumes.[].gcePersistentDisk", "restrictedVolumes"),
    ("volumes.[].gitRepo", "restrictedVolumes"),
    ("volumes.[].glusterfs", "restrictedVolumes"),
    ("volumes.[].hostPath", "hostPathVolumes"),
    ("volumes.[].image", "harmless"),
    ("volumes.[].iscsi", "restrictedVolumes"),
    ("volumes.[].name", "harmless"),
    ("volumes.[].nfs", "restrictedVolumes"),
    ("volumes.[].persistentVolumeClaim", "harmless"),
    ("volumes.[].photonPersistentDisk", "restrictedVolumes"),
    ("volumes.[].portworxVolume", "restrictedVolumes"),
    ("volumes.[].projected", "harmless"),
    ("volumes.[].quobyte", "restrictedVolumes"),
    ("volumes.[].rbd", "restrictedVolumes"),
    ("volumes.[].scaleIO", "restrictedVolumes"),
    ("volumes.[].secret", "harmless"),
    ("volumes.[].storageos", "restrictedVolumes"),
    ("volumes.[].vsphereVolume", "restrictedVolumes"),
];

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

/// All paths, each with what looks at it.
fn known() -> BTreeMap<String, &'static str> {
    let mut known: BTreeMap<String, &str> =
        OF_PODS.iter().map(|(path, by)| ((*path).to_owned(), *by)).collect();
    known.extend(pod_fields::of_containers(OF_CONTAINERS));
    for (path, by) in pod_fields::of_containers(OF_PROBES) {
        let (list, field) = path.split_once(".[].").expect("a container is in a list");
        known.extend(PROBES.map(|probe| (format!("{list}.[].{probe}.{field}"), by)));
    }
    known
}

#[test]
fn no_field_is_new() {
    let known = known();
    let paths = known.keys().map(String::as_str).collect();
    // Fields that only one sort of container has.
    pod_fields::check_known(&paths, |it| it.ends_with(".targetContainerName"));
}

/// What a check does not let pass, at the fields that it looks at; none for what only loosens it.
fn bad_value(path: &str, check: &str) -> Option<Value> {
    let value = match check {
        "capabilities_restricted" | "exemptions" | "harmless" => return None,
        _ if ["hostUsers", "os"].contains(&path) => return None,
        "capabilities_baseline" => json!(["SYS_ADMIN"]),
        "hostPathVolumes" | "restrictedVolumes" => json!({}),
        "hostPorts" => json!(80),
        "runAsUser" => json!(0),
        "runAsNonRoot" => json!(false),
        "allowPrivilegeEscalation" | "hostNamespaces" | "privileged" | "windowsHostProcess" => {
            json!(true)
        }
        _ => json!("bad"),
    };
    Some(value)
}

#[test]
fn what_is_said_to_look_at_a_field_does() {
    let mut n_fields = 0;
    for (path, by) in known() {
        let Some(bad) = bad_value(&path, by) else { continue };
        let value = pod_fields::with(&path, bad);
        assert_ne!(super::judge(by, "latest", value), "", "{path}: {by}");
        n_fields += 1;
    }
    assert!(n_fields > 100, "{n_fields}");
}

#[test]
fn what_looks_at_a_field_is_a_check() {
    for (path, by) in known() {
        let is_check = super::ALL.iter().any(|it| it.id == by);
        assert!(is_check || ["harmless", "exemptions"].contains(&by), "{path}: {by}");
    }
}
