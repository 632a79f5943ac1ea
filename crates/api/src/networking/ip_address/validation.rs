//! What is wrong with an IPAddress.

use k8s_openapi::api::networking::v1::{IPAddress, ParentReference};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_subdomain, is_path_segment};

use crate::check::{self, text};
use crate::{addresses, codec, semantic};

/// A parent of which nothing is said is another than none: it has a group without a name, which is
/// what Services have.
pub(super) fn mark_parent(parent: &mut ParentReference, json: &[u8]) {
    #[derive(Deserialize)]
    struct Object {
        spec: Option<Spec>,
    }
    #[derive(Deserialize)]
    struct Spec {
        #[serde(rename = "parentRef")]
        parent: Option<IgnoredAny>,
    }
    if *parent == ParentReference::default()
        && let Ok(Object { spec: Some(Spec { parent: Some(_) }) }) = serde_json::from_slice(json)
    {
        parent.group = Some(String::new());
    }
}

pub(super) fn validate(address: &IPAddress, errors: &mut FieldErrors) {
    let name = text(address.metadata.name.as_ref());
    // No name at all is said of every kind alike.
    if !name.is_empty() {
        let path = Path::new("metadata").child("name");
        check::format(name, &addresses::canonical_ip_problems(name), &path, errors);
    }
    let parent = &address.spec.parent_ref;
    let path = Path::new("spec").child("parentRef");
    if *parent == ParentReference::default() {
        return errors.required(&path, "");
    }
    if let Some(group) = parent.group.as_deref().filter(|it| !it.is_empty()) {
        check::format(group, &is_dns_subdomain(group), &path.child("group"), errors);
    }
    for (field, value) in [("resource", &parent.resource), ("name", &parent.name)] {
        let path = path.child(field);
        if value.is_empty() {
            errors.required(&path, "");
        } else {
            check::format(value, &is_path_segment(value), &path, errors);
        }
    }
    if let Some(namespace) = parent.namespace.as_deref().filter(|it| !it.is_empty()) {
        check::format(namespace, &is_path_segment(namespace), &path.child("namespace"), errors);
    }
}

pub(super) fn validate_update(address: &IPAddress, stored: &IPAddress, errors: &mut FieldErrors) {
    let parent = &address.spec.parent_ref;
    let path = Path::new("spec").child("parentRef");
    let is_same = semantic::equal(parent, &stored.spec.parent_ref);
    let is_none = *parent == ParentReference::default();
    let shown = if is_none { Value::Null } else { codec::tree(parent) };
    check::immutable(is_same, shown, &path, errors);
}
