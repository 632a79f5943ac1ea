//! Pod: what is kept, computed and refused when one is written.

pub mod bind;
pub mod conditions;
mod fields;
mod fixed_annotations;
mod gated;
mod host_ports;
mod label_keys;
pub mod mirror;
pub mod resize;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod transitions;
mod update;
mod view;
pub(crate) mod warnings;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use super::pod_spec;
use super::pod_spec::validation::{self, Values, allowed_values, annotations};
use crate::check::text;
use crate::kind::Part;
use apimachinery::field::Path;
use apimachinery::table::Column;
use apimachinery::validation::is_dns_label;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use serde_json::Value;

pub use super::pod_spec::{qos_class, requests};
pub use bind::bind;
pub use host_ports::{HostPort, host_ports, host_ports_of_view};
pub use view::{
    ClaimsPart, ContainerView, Deletion, Disruption, Exit, JobPart, PodClaim, PodSpecView, PodView,
    PortView, SIMULATION, Unscheduled, VolumeClaimsPart,
};

pub use k8s_openapi::api::core::v1::Pod;

impl Resource for Pod {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        pod_spec::defaults::apply(spec);
        pod_spec::defaults::apply_to_pod(spec);
        if let Some(status) = &mut self.status {
            sync_addresses(status);
        }
    }

    fn prepare_create(&mut self) {
        let spec = self.spec.get_or_insert_default();
        // As upstream, which believes the manifest about its class.
        let class = self.status.take().and_then(|it| it.qos_class).filter(|it| !it.is_empty());
        let mut status = PodStatus {
            phase: Some("Pending".to_owned()),
            qos_class: Some(class.unwrap_or_else(|| qos_class(spec).to_owned())),
            ..PodStatus::default()
        };
        if spec.scheduling_gates.as_ref().is_some_and(|it| !it.is_empty()) {
            status.conditions = Some(vec![PodCondition {
                type_: "PodScheduled".to_owned(),
                status: "False".to_owned(),
                reason: Some("SchedulingGated".to_owned()),
                message: Some("Scheduling is blocked due to non-empty scheduling gates".to_owned()),
                last_transition_time: self.metadata.creation_timestamp.clone(),
                ..PodCondition::default()
            }]);
        }
        self.status = Some(status);
        if let Some(labels) = &self.metadata.labels {
            label_keys::merge(spec, labels);
        }
        if let Some(annotations) = &self.metadata.annotations {
            annotations::sync_app_armor(annotations, spec);
        }
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        update::restore(self, stored, part);
    }

    /// Every rule depends on whether the pod is new, and on the part that is written.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validate_whole(self, Values::OfLabels, errors);
        let Some(spec) = &self.spec else { return };
        let path = Path::new("spec");
        let name = text(self.metadata.name.as_ref());
        validation::validate_claim_names(name, spec, &path, errors);
        if spec.ephemeral_containers.as_ref().is_some_and(|it| !it.is_empty()) {
            errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
        }
        let is_gated = spec.scheduling_gates.as_ref().is_some_and(|it| !it.is_empty());
        if is_gated && !text(spec.node_name.as_ref()).is_empty() {
            let detail = "cannot be set until all schedulingGates have been cleared";
            errors.forbidden(&path.child("nodeName"), detail);
        }
        if let Some(annotations) = &self.metadata.annotations {
            annotations::validate_profiles(annotations, spec, &path, errors);
        }
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        if let Some(why) = update::refusal(stored, part) {
            return errors.forbidden(&no_field(), why);
        }
        if part != Part::Status {
            let values = stored.spec.as_ref().map_or(Values::OfLabels, allowed_values);
            validate_whole(self, values, errors);
        }
        if part != Part::Other("resize") {
            fixed_annotations::validate_update(self, stored, errors);
            // Once more where they were checked with the rest: as often as upstream tells of them.
            validate_annotations(self, errors);
        }
        update::validate(self, stored, part, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let mut said = warnings_of_name(text(self.metadata.name.as_ref()));
        let none = annotations::Annotations::new();
        let annotations = self.metadata.annotations.as_ref().unwrap_or(&none);
        said.extend(warnings::of(spec, annotations, &Path::root()));
        said
    }

    fn warnings_before(&self) -> Vec<String> {
        match (&self.spec, &self.metadata.annotations) {
            (Some(spec), Some(annotations)) => warnings::before(spec, annotations),
            _ => Vec::new(),
        }
    }

    /// Those who write pods again are programs; of a status, addresses are looked at.
    fn update_warnings(&self, _stored: &Self, part: Part) -> Vec<String> {
        match (part, &self.status) {
            (Part::Status, Some(status)) => status::warnings(status),
            _ => Vec::new(),
        }
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn row_conditions(&self) -> Vec<Value> {
        table::row_conditions(self)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        fields::values(self)
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        fields::NAMES
    }

    fn grace_seconds(&self, requested: Option<i64>) -> Option<i64> {
        let spec = self.spec.as_ref();
        let is_placed = spec.is_some_and(|it| !text(it.node_name.as_ref()).is_empty());
        if !is_placed || is_finished(self) {
            return Some(0);
        }
        let wish = requested.or_else(|| spec?.termination_grace_period_seconds);
        Some(match wish.unwrap_or(0) {
            negative if negative < 0 => 1,
            seconds => seconds,
        })
    }
}

/// What holds for a pod whenever something of its spec is written.
fn validate_whole(pod: &Pod, values: Values, errors: &mut FieldErrors) {
    validate_annotations(pod, errors);
    let absent = Default::default();
    let spec = pod.spec.as_ref().unwrap_or(&absent);
    let path = Path::new("spec");
    validation::validate_spec(spec, values, &path, errors);
    validation::validate_of_pod(spec, &path, errors);
    validation::validate_images(spec, &path, errors);
}

fn validate_annotations(pod: &Pod, errors: &mut FieldErrors) {
    let absent = Default::default();
    let spec = pod.spec.as_ref().unwrap_or(&absent);
    if let Some(it) = &pod.metadata.annotations {
        annotations::validate(it, spec, &Path::new("metadata.annotations"), errors);
    }
}

/// The path, in upstream's words, of a refusal that is about no field.
fn no_field() -> Path {
    Path::root().key("")
}

fn warnings_of_name(name: &str) -> Vec<String> {
    let problems = is_dns_label(name);
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in the Pod's hostname, which can result in surprising \
         behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}

/// Whether all containers have stopped for good.
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Empty when there is no status yet.
pub fn phase(pod: &Pod) -> &str {
    text(pod.status.as_ref().and_then(|it| it.phase.as_ref()))
}

/// `podIP` and the first of `podIPs` are the same address; `podIP` wins.
fn sync_addresses(status: &mut PodStatus) {
    use k8s_openapi::api::core::v1::PodIP;
    let first = status.pod_ips.iter().flatten().next().map(|it| it.ip.clone());
    match (status.pod_ip.clone().filter(|it| !it.is_empty()), first) {
        (Some(ip), first) if first.as_ref() != Some(&ip) => {
            status.pod_ips = Some(vec![PodIP { ip }])
        }
        (None, Some(first)) => status.pod_ip = Some(first),
        _ => {}
    }
}
