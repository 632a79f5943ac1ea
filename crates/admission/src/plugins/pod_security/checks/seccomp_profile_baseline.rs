//! If there is a seccomp profile it filters something.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::SeccompProfile;

use super::Subject;
use super::text::{Setters, Values, Violation, plural, quoted};

const ANNOTATION_OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const ANNOTATION_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Before there were fields.
pub(super) fn judge_annotations(pod: &Subject<'_>) -> Option<Violation> {
    let is_allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let of_containers = pod.containers().map(|it| format!("{ANNOTATION_PREFIX}{}", it.name));
    let keys = [ANNOTATION_OF_POD.to_owned()].into_iter().chain(of_containers);
    let bad: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = pod.annotations?.get(&key)?;
            (!is_allowed(value)).then(|| format!("{key}={value:?}"))
        })
        .collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "seccompProfile",
        detail: format!(
            "forbidden {} {}",
            plural(bad.len(), "annotation", "annotations"),
            bad.into_iter().collect::<Vec<String>>().join(", ")
        ),
    })
}

/// Who says what of the filters: by a type that is none, or not at all.
pub(super) struct Filters<'a> {
    setters: Setters<'a>,
    values: Values<'a>,
    /// Containers for which nobody has said anything.
    pub(super) silent: Vec<&'a str>,
}

impl<'a> Filters<'a> {
    pub(super) fn of(pod: &Subject<'a>) -> Self {
        let is_filter = |it: &SeccompProfile| matches!(&*it.type_, "RuntimeDefault" | "Localhost");
        let of_pod = pod.security().and_then(|it| it.seccomp_profile.as_ref());
        let mut setters = Setters::default();
        let mut values = Values::new();
        if let Some(bad) = of_pod.filter(|it| !is_filter(it)) {
            setters.is_pod = true;
            values.insert(bad.type_.as_str());
        }
        let mut silent = Vec::new();
        for container in pod.containers() {
            match container.security.and_then(|it| it.seccomp_profile.as_ref()) {
                Some(profile) if is_filter(profile) => {}
                Some(profile) => {
                    setters.containers.push(container.name);
                    values.insert(&profile.type_);
                }
                None if of_pod.is_some_and(is_filter) => {}
                None => silent.push(container.name),
            }
        }
        Self { setters, values, silent }
    }

    /// What was said that may not be.
    pub(super) fn violation(&self) -> Option<Violation> {
        (!self.setters.is_empty()).then(|| Violation {
            reason: "seccompProfile",
            detail: format!(
                "{} must not set securityContext.seccompProfile.type to {}",
                self.setters.shown(),
                quoted(self.values.iter().copied())
            ),
        })
    }
}

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    Filters::of(pod).violation()
}
