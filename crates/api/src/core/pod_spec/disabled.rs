//! Fields of features that are off: dropped, as upstream does, unless the object had them already.

use k8s_openapi::api::core::v1::{Lifecycle, PodSpec, VolumeProjection};

/// Which of the features that are not always on are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub cluster_trust_bundle_projection: bool,
    pub generic_workload: bool,
    pub pod_certificate_request: bool,
}

struct Field {
    is_on: fn(&Features) -> bool,
    is_used: fn(&PodSpec) -> bool,
    clear: fn(&mut PodSpec),
}

const FIELDS: &[Field] = &[
    Field {
        is_on: |it| it.cluster_trust_bundle_projection,
        is_used: |it| sources(it).any(|it| it.cluster_trust_bundle.is_some()),
        clear: |it| sources_mut(it).for_each(|it| it.cluster_trust_bundle = None),
    },
    Field {
        is_on: |it| it.pod_certificate_request,
        is_used: |it| sources(it).any(|it| it.pod_certificate.is_some()),
        clear: |it| sources_mut(it).for_each(|it| it.pod_certificate = None),
    },
    Field {
        is_on: |it| it.generic_workload,
        is_used: |it| it.scheduling_group.is_some(),
        clear: |it| it.scheduling_group = None,
    },
    // The gate ContainerStopSignals cannot be set to true here.
    Field {
        is_on: |_| false,
        is_used: |it| lifecycles(it).any(|it| it.stop_signal.is_some()),
        clear: clear_stop_signals,
    },
];

/// Whether [`drop_fields`] would change it.
pub fn has_fields(spec: &PodSpec, old: Option<&PodSpec>, features: &Features) -> bool {
    FIELDS.iter().any(|it| is_dropped(it, spec, old, features))
}

pub fn drop_fields(spec: &mut PodSpec, old: Option<&PodSpec>, features: &Features) {
    for field in FIELDS {
        if is_dropped(field, spec, old, features) {
            (field.clear)(spec);
        }
    }
}

fn is_dropped(field: &Field, spec: &PodSpec, old: Option<&PodSpec>, features: &Features) -> bool {
    !(field.is_on)(features) && (field.is_used)(spec) && !old.is_some_and(field.is_used)
}

/// Of projected volumes.
fn sources(spec: &PodSpec) -> impl Iterator<Item = &VolumeProjection> {
    let projected = spec.volumes.iter().flatten().filter_map(|it| it.projected.as_ref());
    projected.flat_map(|it| it.sources.iter().flatten())
}

fn sources_mut(spec: &mut PodSpec) -> impl Iterator<Item = &mut VolumeProjection> {
    let projected = spec.volumes.iter_mut().flatten().filter_map(|it| it.projected.as_mut());
    projected.flat_map(|it| it.sources.iter_mut().flatten())
}

fn lifecycles(spec: &PodSpec) -> impl Iterator<Item = &Lifecycle> {
    let init = spec.init_containers.iter().flatten();
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.filter_map(|it| it.lifecycle.as_ref());
    spec.containers.iter().chain(init).filter_map(|it| it.lifecycle.as_ref()).chain(ephemeral)
}

/// A lifecycle in which nothing is left goes as well.
fn clear_stop_signals(spec: &mut PodSpec) {
    let init = spec.init_containers.iter_mut().flatten();
    let containers = spec.containers.iter_mut().chain(init).map(|it| &mut it.lifecycle);
    let ephemeral = spec.ephemeral_containers.iter_mut().flatten().map(|it| &mut it.lifecycle);
    for slot in containers.chain(ephemeral) {
        let Some(lifecycle) = slot else { continue };
        let had = lifecycle.stop_signal.take().is_some();
        if had && *lifecycle == Lifecycle::default() {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use serde_json::{Value, json};

    use super::{Features, drop_fields, has_fields};

    fn decode(spec: &Value) -> PodSpec {
        serde_json::from_slice(spec.to_string().as_bytes()).unwrap()
    }

    fn with_sources(sources: &Value) -> Value {
        let volume = json!({ "name": "v", "projected": { "sources": sources } });
        json!({ "containers": [], "volumes": [volume] })
    }

    fn check(given: &Value, old: Option<&Value>, features: Features, expected: &Value) {
        let (mut spec, old) = (decode(given), old.map(decode));
        let is_changed = has_fields(&spec, old.as_ref(), &features);
        let before = spec.clone();
        drop_fields(&mut spec, old.as_ref(), &features);
        assert_eq!(spec, decode(expected));
        assert_eq!(spec != before, is_changed);
    }

    #[test]
    fn sources_of_features_that_are_off_are_dropped_where_they_are_new() {
        let bundle = || json!({ "clusterTrustBundle": { "path": "ca" } });
        let certificate = || json!({ "podCertificate": { "keyType": "", "signerName": "" } });
        let check = |old: Option<Value>, features: Features, expected: Value| {
            let given = with_sources(&json!([bundle(), certificate()]));
            let old = old.as_ref().map(with_sources);
            check(&given, old.as_ref(), features, &with_sources(&expected));
        };
        let off = Features::default();
        let on = Features { cluster_trust_bundle_projection: true, ..off };
        check(None, off, json!([{}, {}]));
        check(None, on, json!([bundle(), {}]));
        check(Some(json!([])), off, json!([{}, {}]));
        check(Some(json!([bundle()])), off, json!([bundle(), {}]));
        check(Some(json!([certificate()])), on, json!([bundle(), certificate()]));
    }

    #[test]
    fn a_group_is_dropped_where_groups_are_off() {
        let with = json!({ "containers": [], "schedulingGroup": { "podGroupName": "g" } });
        let other = json!({ "containers": [], "schedulingGroup": { "podGroupName": "h" } });
        let without = json!({ "containers": [] });
        let off = Features::default();
        check(&with, None, off, &without);
        check(&with, Some(&without), off, &without);
        check(&with, Some(&other), off, &with);
        check(&with, None, Features { generic_workload: true, ..off }, &with);
    }

    #[test]
    fn stop_signals_are_dropped_with_the_lifecycles_that_say_nothing_else() {
        let of = |field: &str, lifecycle: Value| {
            let container = json!({ "name": "c", "image": "x", "lifecycle": lifecycle });
            let mut spec = json!({ "containers": [] });
            spec[field] = json!([container]);
            spec
        };
        let signal = || json!({ "stopSignal": "SIGUSR1" });
        let hook = || json!({ "preStop": { "sleep": { "seconds": 1 } } });
        let both = json!({
            "stopSignal": "SIGUSR1", "preStop": { "sleep": { "seconds": 1 } },
        });
        let off = Features::default();
        let fields = ["containers", "initContainers", "ephemeralContainers"];
        for field in fields {
            check(&of(field, signal()), None, off, &of(field, json!(null)));
            check(&of(field, both.clone()), None, off, &of(field, hook()));
            // Empty from the start: kept as it was sent.
            check(&of(field, json!({})), None, off, &of(field, json!({})));
            // One container that has had one is enough, wherever it is.
            for old in fields {
                check(&of(field, signal()), Some(&of(old, signal())), off, &of(field, signal()));
            }
        }
    }
}
