//! Checks that the access reviews share.

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::check::text;

/// A review asks about a resource or about a path, not both.
pub(super) fn validate_attributes(
    resource: Option<&ResourceAttributes>,
    path_attributes: Option<&NonResourceAttributes>,
    errors: &mut FieldErrors,
) {
    if resource.is_some() == path_attributes.is_some() {
        let shown =
            path_attributes.map_or(Value::Null, |it| serde_json::to_value(it).unwrap_or_default());
        errors.invalid(
            &Path::new("spec"),
            shown,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        );
    }
}

pub(super) fn validate_spec(spec: &SubjectAccessReviewSpec, errors: &mut FieldErrors) {
    validate_attributes(
        spec.resource_attributes.as_ref(),
        spec.non_resource_attributes.as_ref(),
        errors,
    );
    let user = text(spec.user.as_ref());
    if user.is_empty() && spec.groups.as_ref().is_none_or(Vec::is_empty) {
        let path = Path::new("spec").child("user");
        errors.invalid(&path, user, "at least one of user or group must be specified");
    }
}

/// Reviews are questions, not objects: a name or labels would be lost.
pub(super) fn validate_metadata(meta: &ObjectMeta, detail: &str, errors: &mut FieldErrors) {
    let is_named = !text(meta.name.as_ref()).is_empty()
        || !text(meta.generate_name.as_ref()).is_empty()
        || meta.labels.as_ref().is_some_and(|it| !it.is_empty())
        || meta.annotations.as_ref().is_some_and(|it| !it.is_empty());
    if is_named {
        let shown = serde_json::to_value(meta).unwrap_or_default();
        errors.invalid(&Path::new("metadata"), shown, detail);
    }
}
