//! Fields of features that are off: dropped, as upstream does, unless the object had them already.

use k8s_openapi::api::core::v1::{PodSpec, VolumeProjection};

/// Which of the features that are not always on are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub cluster_trust_bundle_projection: bool,
    pub pod_certificate_request: bool,
}

/// A field of a source of a projected volume.
struct Field {
    is_on: fn(&Features) -> bool,
    is_set: fn(&VolumeProjection) -> bool,
    clear: fn(&mut VolumeProjection),
}

const FIELDS: &[Field] = &[
    Field {
        is_on: |it| it.cluster_trust_bundle_projection,
        is_set: |it| it.cluster_trust_bundle.is_some(),
        clear: |it| it.cluster_trust_bundle = None,
    },
    Field {
        is_on: |it| it.pod_certificate_request,
        is_set: |it| it.pod_certificate.is_some(),
        clear: |it| it.pod_certificate = None,
    },
];

/// Whether [`drop_fields`] would change it.
pub fn has_fields(spec: &PodSpec, old: Option<&PodSpec>, features: &Features) -> bool {
    FIELDS.iter().any(|it| is_dropped(it, spec, old, features))
}

pub fn drop_fields(spec: &mut PodSpec, old: Option<&PodSpec>, features: &Features) {
    for field in FIELDS {
        if is_dropped(field, spec, old, features) {
            let volumes = spec.volumes.iter_mut().flatten();
            let projected = volumes.filter_map(|it| it.projected.as_mut());
            projected.flat_map(|it| it.sources.iter_mut().flatten()).for_each(field.clear);
        }
    }
}

fn is_dropped(field: &Field, spec: &PodSpec, old: Option<&PodSpec>, features: &Features) -> bool {
    !(field.is_on)(features) && is_used(spec, field) && !old.is_some_and(|it| is_used(it, field))
}

fn is_used(spec: &PodSpec, field: &Field) -> bool {
    let projected = spec.volumes.iter().flatten().filter_map(|it| it.projected.as_ref());
    projected.flat_map(|it| it.sources.iter().flatten()).any(field.is_set)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use serde_json::{Value, json};

    use super::{Features, drop_fields, has_fields};

    fn spec(sources: Value) -> PodSpec {
        let volume = json!({ "name": "v", "projected": { "sources": sources } });
        let spec = json!({ "containers": [], "volumes": [volume] });
        serde_json::from_slice(spec.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn fields_of_features_that_are_off_are_dropped_where_they_are_new() {
        let bundle = || json!({ "clusterTrustBundle": { "path": "ca" } });
        let certificate = || json!({ "podCertificate": { "keyType": "", "signerName": "" } });
        let check = |old: Option<PodSpec>, features: Features, expected: Value| {
            let mut given = spec(json!([bundle(), certificate()]));
            let is_changed = has_fields(&given, old.as_ref(), &features);
            let before = given.clone();
            drop_fields(&mut given, old.as_ref(), &features);
            assert_eq!(given, spec(expected));
            assert_eq!(given != before, is_changed);
        };
        let off = Features::default();
        let on = Features { cluster_trust_bundle_projection: true, ..off };
        check(None, off, json!([{}, {}]));
        check(None, on, json!([bundle(), {}]));
        check(Some(spec(json!([]))), off, json!([{}, {}]));
        check(Some(spec(json!([bundle()]))), off, json!([bundle(), {}]));
        check(Some(spec(json!([certificate()]))), on, json!([bundle(), certificate()]));
    }
}
