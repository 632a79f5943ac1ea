//! Service: a stable name and address for a set of pods. Addresses and node ports are allocated by
//! the server.

mod allocation;
mod annotations;
mod defaults;
mod families;
mod table;
#[cfg(test)]
mod tests;
mod validation;
mod warnings;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use crate::check::text;
use crate::kind::Part;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, ServiceStatus};
use serde_json::Value;

pub use allocation::{
    is_headless, needs_cluster_ip, needs_health_check_port, needs_node_port, set_cluster_ips,
};
pub use families::complete_families;

pub use k8s_openapi::api::core::v1::Service;

impl Resource for Service {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults::apply(self);
    }

    fn prepare_create(&mut self) {
        let load_balancer = Some(LoadBalancerStatus::default());
        self.status = Some(ServiceStatus { load_balancer, ..ServiceStatus::default() });
        allocation::normalize_new(self);
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        if part == Part::Status {
            self.keep_spec(stored);
            return;
        }
        self.keep_status(stored);
        allocation::keep_allocated(self, stored);
        allocation::normalize(self, stored);
        allocation::drop_type_dependent(self, stored);
    }

    /// Every rule depends on whether it is new, and on the part that is written.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, None, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Main => {
                validation::validate_update(self, stored, errors);
                validation::validate(self, Some(stored), errors);
            }
            Part::Status => validation::validate_status(self, stored, errors),
            Part::Other(_) => {}
        }
    }

    fn warnings(&self) -> Vec<String> {
        warnings::of(self)
    }

    fn update_warnings(&self, _stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status { warnings::of_status(self) } else { warnings::of(self) }
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let spec = self.spec.as_ref();
        vec![
            ("spec.clusterIP", text(spec.and_then(|it| it.cluster_ip.as_ref())).to_owned()),
            ("spec.type", text(spec.and_then(|it| it.type_.as_ref())).to_owned()),
        ]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[("spec.clusterIP", "spec.clusterIP"), ("spec.type", "spec.type")]
    }
}
