//! Ingress: which HTTP requests from outside go to which Service.

mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::{IngressBackend, IngressLoadBalancerIngress};
use serde_json::Value;

use crate::addresses;
use crate::check::text;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::networking::v1::Ingress;

/// How a class was named before there was a field for it.
pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

impl Resource for Ingress {
    codec!();
    spec_and_status!();

    /// What is always there, empty or not.
    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        let rules = spec.rules.iter_mut().flatten().filter_map(|it| it.http.as_mut());
        let backends = rules.flat_map(|it| &mut it.paths).map(|it| &mut it.backend);
        backends.chain(&mut spec.default_backend).for_each(complete);
        self.status.get_or_insert_default().load_balancer.get_or_insert_default();
    }

    fn prepare_create(&mut self) {
        self.clear_status();
        self.apply_defaults();
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, None, errors);
        validation::validate_class(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, stored, errors),
            Part::Main | Part::Other(_) => validation::validate(self, Some(stored), errors),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let has_class = self.spec.as_ref().is_some_and(|it| it.ingress_class_name.is_some());
        if annotated_class(self).is_none() || has_class {
            return Vec::new();
        }
        vec![format!(
            "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
        )]
    }

    fn update_warnings(&self, _stored: &Self, part: Part) -> Vec<String> {
        if part != Part::Status {
            return Vec::new();
        }
        let path = Path::new("status").child("loadBalancer").child("ingress");
        let points = entry_points(self).iter().enumerate();
        let addresses = points.map(|(index, it)| (index, text(it.ip.as_ref())));
        addresses.flat_map(|(index, ip)| addresses::ip_warnings(ip, &path.index(index))).collect()
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }
}

fn complete(backend: &mut IngressBackend) {
    if let Some(service) = &mut backend.service {
        service.port.get_or_insert_default();
    }
}

fn annotated_class(ingress: &Ingress) -> Option<&String> {
    ingress.metadata.annotations.as_ref()?.get(CLASS_ANNOTATION)
}

/// Where requests come in, by the status.
fn entry_points(ingress: &Ingress) -> &[IngressLoadBalancerIngress] {
    let balancer = ingress.status.as_ref().and_then(|it| it.load_balancer.as_ref());
    balancer.and_then(|it| it.ingress.as_deref()).unwrap_or_default()
}
