//! Claims to devices: those of the pod, and which of them a container uses.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodResourceClaim, PodSpec, ResourceClaim};

use apimachinery::FieldErrors;
use apimachinery::field::{Cause, Path};
use apimachinery::validation::{is_dns_label, is_dns_subdomain};

use crate::check;
use crate::codec;

type Names = BTreeSet<String>;

/// What containers may name.
pub(super) fn names(spec: &PodSpec) -> Names {
    let claims = spec.resource_claims.iter().flatten();
    claims.map(|it| it.name.clone()).filter(|it| !it.is_empty()).collect()
}

pub(super) fn validate_of_pod(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let mut names = Names::new();
    for (index, claim) in spec.resource_claims.iter().flatten().enumerate() {
        let path = path.index(index);
        let path_name = path.child("name");
        if claim.name.is_empty() {
            errors.required(&path_name, "");
        } else if names.insert(claim.name.clone()) {
            check::format(&claim.name, &is_dns_label(&claim.name), &path_name, errors);
        } else {
            errors.duplicate(&path_name, claim.name.as_str());
        }
        validate_source(claim, &path, errors);
    }
}

fn validate_source(claim: &PodResourceClaim, path: &Path, errors: &mut FieldErrors) {
    let sources = [
        ("resourceClaimName", &claim.resource_claim_name),
        ("resourceClaimTemplateName", &claim.resource_claim_template_name),
    ];
    let detail = match sources.iter().filter(|(_, name)| name.is_some()).count() {
        0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        1 => None,
        _ => Some(
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        ),
    };
    if let Some(detail) = detail {
        errors.invalid(path, codec::tree(claim), detail);
    }
    for (field, name) in sources {
        if let Some(name) = name {
            check::format(name, &is_dns_subdomain(name), &path.child(field), errors);
        }
    }
}

/// Of a container. Naming a claim is naming all its requests.
pub(super) fn validate_used(
    claims: &[ResourceClaim],
    known: &Names,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut used: BTreeSet<(&str, Option<&str>)> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let name = claim.name.as_str();
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let request = claim.request.as_deref().filter(|it| !it.is_empty());
        if used.contains(&(name, None)) {
            errors.duplicate(&path, name);
        } else {
            if let Some(request) = request {
                check::format(request, &is_dns_label(request), &path.child("request"), errors);
            }
            let n_parts = used.iter().filter(|it| it.0 == name).count();
            match request {
                Some(request) if used.contains(&(name, Some(request))) => {
                    errors.duplicate(&path, format!("{name}/{request}"));
                }
                Some(_) => {}
                None => (0..n_parts).for_each(|_| errors.duplicate(&path, name)),
            }
            used.insert((name, request));
        }
        if !known.contains(name) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let among = match known.as_slice() {
                [] => " which is empty".to_owned(),
                some => format!(": {}", some.join(", ")),
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{among}");
            errors.push(&path, Cause::NotFound, format!("Not found: {name:?}: {detail}"));
        }
    }
}
