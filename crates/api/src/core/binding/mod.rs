//! Binding: puts a pod on a node.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use crate::check::{self, text};
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

pub use k8s_openapi::api::core::v1::Binding;

impl Resource for Binding {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        let path = Path::new("target");
        let kind = text(self.target.kind.as_ref());
        if !["", "Node"].contains(&kind) {
            errors.not_supported(&path.child("kind"), kind, &["Node", "<empty>"]);
        }
        let name = text(self.target.name.as_ref());
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            check::format(name, &is_dns_subdomain(name), &path.child("name"), errors);
        }
    }
}
