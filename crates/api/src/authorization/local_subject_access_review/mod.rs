//! LocalSubjectAccessReview: may somebody do this in this namespace?

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use super::review;
use crate::check::text;
use apimachinery::field::Path;

pub use k8s_openapi::api::authorization::v1::LocalSubjectAccessReview;

impl Resource for LocalSubjectAccessReview {
    codec!();

    fn prepare_create(&mut self) {
        self.status = None;
    }

    fn validate(&self, errors: &mut FieldErrors) {
        review::validate_spec(&self.spec, errors);
        review::validate_metadata(&self.metadata, "must be empty except for namespace", errors);
        if let Some(attributes) = &self.spec.resource_attributes {
            let namespace = text(attributes.namespace.as_ref());
            if namespace != text(self.metadata.namespace.as_ref()) {
                let path = Path::new("spec.resourceAttributes.namespace");
                errors.invalid(&path, namespace, "must match metadata.namespace");
            }
        }
        if let Some(attributes) = &self.spec.non_resource_attributes {
            let path = Path::new("spec.nonResourceAttributes");
            errors.invalid(&path, review::shown(attributes), "disallowed on this kind of request");
        }
    }
}
