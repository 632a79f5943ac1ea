//! What some controllers need that not every cluster has: a feature gate, and an API that is
//! served. One that is asked for by name and cannot run is refused; one that a star means is left
//! out.

use std::sync::Arc;

use features::{Gates, Switch};

use crate::Descriptor;

/// A resource by group, version and plural.
pub type ServedResource = (&'static str, &'static str, &'static str);

struct Need {
    controller: &'static str,
    gate: Switch,
    resource: ServedResource,
}

const NEEDS: &[Need] = &[
    Need {
        controller: "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        gate: features::CLUSTER_TRUST_BUNDLE,
        resource: ("certificates.k8s.io", "v1beta1", "clustertrustbundles"),
    },
    Need {
        controller: "podcertificaterequest-cleaner-controller",
        gate: features::POD_CERTIFICATE_REQUEST,
        resource: ("certificates.k8s.io", "v1beta1", "podcertificaterequests"),
    },
    Need {
        controller: "podgroup-protection-controller",
        gate: features::GENERIC_WORKLOAD,
        resource: ("scheduling.k8s.io", "v1alpha2", "podgroups"),
    },
    Need {
        controller: "resourcepoolstatusrequest-controller",
        gate: features::DRA_RESOURCE_POOL_STATUS,
        resource: ("resource.k8s.io", "v1alpha3", "resourcepoolstatusrequests"),
    },
    Need {
        controller: "storageversion-garbage-collector-controller",
        gate: features::STORAGE_VERSION_API,
        resource: ("internal.apiserver.k8s.io", "v1alpha1", "storageversions"),
    },
    Need {
        controller: "storage-version-migrator-controller",
        gate: features::STORAGE_VERSION_MIGRATOR,
        resource: ("storagemigration.k8s.io", "v1beta1", "storageversionmigrations"),
    },
];

/// Controllers of upstream that can be named, and why they cannot run here.
pub(crate) const ABSENT: &[(&str, &[&str], &str)] = &[
    ("cloud-node-lifecycle-controller", &["cloud-node-lifecycle"], CLOUD),
    ("ephemeral-volume-controller", &["ephemeral-volume"], VOLUMES),
    ("node-route-controller", &["route"], CLOUD),
    ("persistentvolume-attach-detach-controller", &["attachdetach"], VOLUMES),
    ("persistentvolume-binder-controller", &["persistentvolume-binder"], VOLUMES),
    ("persistentvolume-expander-controller", &["persistentvolume-expander"], VOLUMES),
    ("selinux-warning-controller", &[], VOLUMES),
];

const CLOUD: &str = "there is no cloud";
const VOLUMES: &str =
    "volumes and claims are kept and protected, and nothing else acts on them yet";

/// What a cluster has.
#[derive(Clone)]
pub struct Availability {
    pub gates: Gates,
    /// Whether a resource is served.
    pub serves: Arc<dyn Fn(ServedResource) -> bool + Send + Sync>,
}

impl Default for Availability {
    /// Without what is not on by default.
    fn default() -> Self {
        Self { gates: Gates::default(), serves: Arc::new(|_| false) }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("{controller:?} cannot run: its feature gate {gate} is off")]
    Gate { controller: &'static str, gate: &'static str },
    #[error("{controller:?} cannot run: {resource} are not served (--runtime-config)")]
    Resource { controller: &'static str, resource: String },
}

impl Availability {
    /// Why a controller cannot run.
    pub(crate) fn check(&self, controller: &Descriptor) -> Result<(), Unavailable> {
        let Some(need) = NEEDS.iter().find(|it| it.controller == controller.name) else {
            return Ok(());
        };
        let controller = need.controller;
        if !self.gates.is_enabled(need.gate) {
            return Err(Unavailable::Gate { controller, gate: need.gate.name() });
        }
        let (group, version, plural) = need.resource;
        if !(self.serves)(need.resource) {
            let resource = format!("{group}/{version} {plural}");
            return Err(Unavailable::Resource { controller, resource });
        }
        Ok(())
    }
}

/// Taints of devices that are not their drivers'. The controller of taints runs without them.
const DEVICE_TAINT_RULES: ServedResource = ("resource.k8s.io", "v1beta2", "devicetaintrules");

impl Availability {
    pub(crate) fn has_device_taint_rules(&self) -> bool {
        self.gates.is_enabled(features::DRA_DEVICE_TAINT_RULES) && (self.serves)(DEVICE_TAINT_RULES)
    }
}

/// The resources that any of them needs or can use.
pub fn needed_resources() -> impl Iterator<Item = ServedResource> {
    NEEDS.iter().map(|it| it.resource).chain([DEVICE_TAINT_RULES])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use features::Gates;

    use super::{ABSENT, Availability, NEEDS};
    use crate::{ALL, Settings};

    fn refused(flag: &str, gates: &str, is_served: bool) -> String {
        let gates = Gates::parse(gates).unwrap();
        let availability = Availability { gates, serves: Arc::new(move |_| is_served) };
        let settings = Settings::parse(&[flag]).unwrap();
        settings.check(&availability).err().map(|it| it.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_asked_for_by_name_and_cannot_run_is_refused_with_the_reason() {
        let named = "--controllers=podcertificaterequest-cleaner-controller";
        let gate = r#""podcertificaterequest-cleaner-controller" cannot run: its feature gate PodCertificateRequest is off"#;
        assert_eq!(refused(named, "", true), gate);
        let served = r#""podcertificaterequest-cleaner-controller" cannot run: certificates.k8s.io/v1beta1 podcertificaterequests are not served (--runtime-config)"#;
        assert_eq!(refused(named, "PodCertificateRequest=true", false), served);
        assert_eq!(refused(named, "PodCertificateRequest=true", true), "");
        assert_eq!(refused("--controllers=*", "", false), "");
    }

    #[test]
    fn every_need_is_of_a_controller_that_is_there() {
        for need in NEEDS {
            assert!(ALL.iter().any(|it| it.name == need.controller), "{}", need.controller);
        }
        for (name, ..) in ABSENT {
            assert!(ALL.iter().all(|it| it.name != *name), "{name}");
        }
    }

    #[test]
    fn what_is_absent_can_be_switched_off_and_not_on() {
        for (name, aliases, why) in ABSENT {
            for name in aliases.iter().chain([name]) {
                let said = Settings::parse(&[&format!("--controllers={name}")]).err();
                let said = said.map(|it| it.to_string()).unwrap_or_default();
                assert!(said.contains(why) && said.contains("cannot run here"), "{said}");
                assert!(Settings::parse(&[&format!("--controllers=*,-{name}")]).is_ok());
            }
        }
    }
}
