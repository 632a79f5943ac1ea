//! The runtime's own AppArmor profile, or one of the node's: by field, or by the annotations that
//! were there before.

use k8s_openapi::api::core::v1::AppArmorProfile;

use super::Subject;
use super::text::{Setters, Values, Violation, plural, quoted};

const ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The type, if it is one that may not be.
fn bad_type(profile: Option<&AppArmorProfile>) -> Option<&str> {
    let type_ = profile?.type_.as_str();
    (!matches!(type_, "RuntimeDefault" | "Localhost")).then_some(type_)
}

fn is_allowed(annotation: &str) -> bool {
    matches!(annotation, "" | "runtime/default") || annotation.starts_with("localhost/")
}

pub(super) fn judge(pod: &Subject<'_>) -> Option<Violation> {
    let mut setters = Setters::default();
    let mut values = Values::new();
    if let Some(bad) = bad_type(pod.security().and_then(|it| it.app_armor_profile.as_ref())) {
        setters.is_pod = true;
        values.insert(bad);
    }
    for container in pod.containers() {
        let profile = container.security.and_then(|it| it.app_armor_profile.as_ref());
        if let Some(bad) = bad_type(profile) {
            setters.containers.push(container.name);
            values.insert(bad);
        }
    }
    let annotations = pod.annotations.into_iter().flatten();
    let bad = annotations.filter(|it| it.0.starts_with(ANNOTATION_PREFIX) && !is_allowed(it.1));
    let annotations: Vec<String> = bad.map(|(key, value)| format!("{key}={value:?}")).collect();
    let mut parts = setters.parts();
    if !annotations.is_empty() {
        parts.push(plural(annotations.len(), "annotation", "annotations").to_owned());
    }
    if parts.is_empty() {
        return None;
    }
    let shown: Vec<&str> =
        values.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    let one = "forbidden AppArmor profile";
    Some(Violation {
        reason: plural(shown.len(), one, "forbidden AppArmor profiles"),
        detail: format!(
            "{} must not set AppArmor profile type to {}",
            parts.join(" and "),
            quoted(shown)
        ),
    })
}
