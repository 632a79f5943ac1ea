//! Confinement by another part of the kernel than ours: AppArmor and SELinux. Nothing here applies
//! their profiles and labels, so a pod that counts on them does not run, rather than run
//! unconfined.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::{Candidate, Handler, Rejection};
use crate::Machine;

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) struct Confinement;

impl Handler for Confinement {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection> {
        admit(candidate.pod, candidate.spec, candidate.machine)
    }
}

fn admit(pod: &Pod, spec: &PodSpec, machine: &Machine) -> Result<(), Rejection> {
    if let Some(path) = app_armor(pod, spec) {
        // Upstream's text where the host has none of it.
        let problem = match machine.has_app_armor {
            false => "AppArmor is not enabled on the host".to_owned(),
            true => format!("this node does not apply profiles ({path})"),
        };
        return Err(("AppArmor".to_owned(), format!("Cannot enforce AppArmor: {problem}")));
    }
    // Without SELinux there is nothing that a label could do, and upstream takes it; conformance
    // tests set one.
    match se_linux(spec).filter(|_| machine.has_se_linux) {
        Some(path) => Err((
            "PodFeatureUnsupported".to_owned(),
            format!("Cannot enforce SELinux: this node does not apply labels ({path})"),
        )),
        None => Ok(()),
    }
}

/// Where a profile is asked for; `Unconfined` asks for none.
fn app_armor(pod: &Pod, spec: &PodSpec) -> Option<String> {
    let own = spec.security_context.as_ref().and_then(|it| it.app_armor_profile.as_ref());
    if own.is_some_and(|it| it.type_ != "Unconfined") {
        return Some("spec.securityContext.appArmorProfile".to_owned());
    }
    let of_container = contexts(spec)
        .find(|(_, it)| it.app_armor_profile.as_ref().is_some_and(|it| it.type_ != "Unconfined"));
    if let Some((path, _)) = of_container {
        return Some(format!("{path}.appArmorProfile"));
    }
    let mut annotations = pod.metadata.annotations.iter().flatten();
    let found = annotations
        .find(|(key, value)| key.starts_with(APP_ARMOR_ANNOTATION) && *value != "unconfined");
    found.map(|(key, _)| format!("metadata.annotations[{key}]"))
}

fn se_linux(spec: &PodSpec) -> Option<String> {
    if spec.security_context.as_ref().is_some_and(|it| it.se_linux_options.is_some()) {
        return Some("spec.securityContext.seLinuxOptions".to_owned());
    }
    let mut contexts = contexts(spec);
    contexts
        .find(|(_, it)| it.se_linux_options.is_some())
        .map(|(path, _)| format!("{path}.seLinuxOptions"))
}

type Context = k8s_openapi::api::core::v1::SecurityContext;

/// Those of all containers, with their paths.
fn contexts(spec: &PodSpec) -> impl Iterator<Item = (String, &Context)> {
    let init = spec.init_containers.iter().flatten().map(|it| it.security_context.as_ref());
    let own = spec.containers.iter().map(|it| it.security_context.as_ref());
    let later = spec.ephemeral_containers.iter().flatten().map(|it| it.security_context.as_ref());
    let named = |list: &'static str, index: usize| format!("spec.{list}[{index}].securityContext");
    init.enumerate()
        .map(move |(index, it)| (named("initContainers", index), it))
        .chain(own.enumerate().map(move |(index, it)| (named("containers", index), it)))
        .chain(later.enumerate().map(move |(index, it)| (named("ephemeralContainers", index), it)))
        .filter_map(|(path, it)| it.map(|it| (path, it)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::admit;
    use crate::Machine;

    fn check(pod: Value, machine: &Machine, expected: Result<(), &str>) {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let admitted = admit(&pod, pod.spec.as_ref().unwrap(), machine);
        let admitted = admitted.map_err(|(reason, message)| format!("{reason}: {message}"));
        assert_eq!(admitted, expected.map_err(str::to_owned));
    }

    fn pod(of_pod: Value, own: Value) -> Value {
        json!({ "metadata": { "name": "a" }, "spec": {
            "containers": [], "securityContext": of_pod,
            "initContainers": [{ "name": "c", "securityContext": own }] } })
    }

    #[test]
    fn a_pod_that_counts_on_a_profile_does_not_run_without() {
        let none = Machine::default();
        let has_app_armor = Machine { has_app_armor: true, ..Machine::default() };
        let profile = |kind: &str| json!({ "appArmorProfile": { "type": kind } });
        check(pod(json!({}), json!({})), &none, Ok(()));
        check(pod(profile("Unconfined"), profile("Unconfined")), &has_app_armor, Ok(()));
        let refused = Err("AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host");
        check(pod(profile("RuntimeDefault"), json!({})), &none, refused);
        check(pod(json!({}), profile("Localhost")), &none, refused);
        check(
            pod(json!({}), profile("Localhost")),
            &has_app_armor,
            Err("AppArmor: Cannot enforce AppArmor: this node does not apply profiles \
                 (spec.initContainers[0].securityContext.appArmorProfile)"),
        );
        let mut old = pod(json!({}), json!({}));
        let key = "container.apparmor.security.beta.kubernetes.io/c";
        old["metadata"]["annotations"] = json!({ key: "runtime/default" });
        check(old, &none, refused);
    }

    #[test]
    fn labels_are_refused_where_they_would_count() {
        let label = || json!({ "seLinuxOptions": { "level": "s0" } });
        check(pod(label(), label()), &Machine::default(), Ok(()));
        let has_se_linux = Machine { has_se_linux: true, ..Machine::default() };
        check(
            pod(json!({}), label()),
            &has_se_linux,
            Err("PodFeatureUnsupported: Cannot enforce SELinux: this node does not apply labels \
                 (spec.initContainers[0].securityContext.seLinuxOptions)"),
        );
    }
}
