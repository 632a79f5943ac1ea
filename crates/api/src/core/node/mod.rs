//! Node: a machine that runs pods.

mod annotations;
pub mod fit;
mod table;
#[cfg(test)]
mod tests;
mod validation;
mod view;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::addresses;
use crate::check::text;
use crate::kind::Part;

pub use view::{NodeView, TTL};

pub use k8s_openapi::api::core::v1::Node;

impl Resource for Node {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        if let Some(spec) = &mut self.spec {
            // Written only when true, so that `false` and absent are the same object.
            spec.unschedulable = spec.unschedulable.filter(|it| *it);
            let first = spec.pod_cidrs.as_ref().and_then(|it| it.first()).cloned();
            match spec.pod_cidr.clone().filter(|it| !it.is_empty()) {
                Some(own) if Some(&own) != first.as_ref() => spec.pod_cidrs = Some(vec![own]),
                Some(_) => {}
                None => spec.pod_cidr = first,
            }
        }
        let Some(status) = &mut self.status else { return };
        if status.allocatable.is_none() {
            status.allocatable.clone_from(&status.capacity);
        }
        for quantities in [&mut status.capacity, &mut status.allocatable].into_iter().flatten() {
            crate::quantities::round_up(quantities);
        }
    }

    /// A kubelet registers its node with a status, so that is kept. Configuration by the API was
    /// removed from Kubernetes; the fields are still there.
    fn prepare_create(&mut self) {
        if let Some(spec) = &mut self.spec {
            spec.config_source = None;
        }
        if let Some(status) = &mut self.status {
            status.config = None;
        }
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        match part {
            Part::Status => self.keep_spec(stored),
            Part::Main | Part::Other(_) => self.keep_status(stored),
        }
        let spec = stored.spec.as_ref().and_then(|it| it.config_source.as_ref());
        if let Some(new) = self.spec.as_mut().filter(|_| spec.is_none()) {
            new.config_source = None;
        }
        let status = stored.status.as_ref().and_then(|it| it.config.as_ref());
        if let Some(new) = self.status.as_mut().filter(|_| status.is_none()) {
            new.config = None;
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let mut warnings = Vec::new();
        if spec.config_source.is_some() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !text(spec.external_id.as_ref()).is_empty() {
            let why = "this field is deprecated, and is unused by Kubernetes";
            warnings.push(format!("spec.externalID: {why}"));
        }
        for (index, range) in spec.pod_cidrs.iter().flatten().enumerate() {
            let path = Path::new("spec.podCIDRs").index(index);
            warnings.extend(addresses::cidr_warnings(range, &path));
        }
        warnings
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let is_unschedulable = self.spec.as_ref().and_then(|it| it.unschedulable).unwrap_or(false);
        vec![("spec.unschedulable", is_unschedulable.to_string())]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[("spec.unschedulable", "spec.unschedulable")]
    }
}

/// The condition of this type, such as `Ready`.
pub fn condition<'a>(
    node: &'a Node,
    type_: &str,
) -> Option<&'a k8s_openapi::api::core::v1::NodeCondition> {
    node.status.as_ref()?.conditions.iter().flatten().find(|it| it.type_ == type_)
}

/// The first address of this type, such as `InternalIP`.
pub fn address<'a>(node: &'a Node, type_: &str) -> &'a str {
    let mut addresses = node.status.iter().flat_map(|it| it.addresses.iter().flatten());
    text(addresses.find(|it| it.type_ == type_).map(|it| &it.address))
}

/// What the provider ID of a simulated node starts with. It cannot be changed once it is there,
/// other than a label.
pub const SIMULATED: &str = "simulated://";

/// A node that exists only in the API: nothing listens at its addresses.
pub fn is_simulated(node: &Node) -> bool {
    let provider_id = node.spec.as_ref().and_then(|it| it.provider_id.as_deref());
    provider_id.is_some_and(|it| it.starts_with(SIMULATED))
}
