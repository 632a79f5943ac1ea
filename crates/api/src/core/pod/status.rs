//! What a kubelet or a scheduler may say of a pod.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, Pod, PodExtendedResourceClaimStatus, PodSpec, PodStatus,
    ResourceStatus,
};
use serde_json::{Value, json};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, is_dns_subdomain, is_ip, is_qualified_name};

use super::transitions;
use crate::addresses;
use crate::check::{self, text};

/// Conditions that Kubernetes itself gives a meaning.
const OF_THE_SYSTEM: &[&str] = &["PodScheduled", "Ready", "Initialized"];

/// Addresses in forms that are not taken for long.
pub(super) fn warnings(status: &PodStatus) -> Vec<String> {
    let pod = status.pod_ips.iter().flatten().map(|it| it.ip.as_str()).enumerate();
    let host = status.host_ips.iter().flatten().map(|it| it.ip.as_str()).enumerate();
    let (path_pod, path_host) = (Path::new("status.podIPs"), Path::new("status.hostIPs"));
    let pod = pod.map(|(index, ip)| (path_pod.index(index).child("ip"), ip));
    let host = host.map(|(index, ip)| (path_host.index(index).child("ip"), ip));
    pod.chain(host).flat_map(|(path, ip)| addresses::ip_warnings(ip, &path)).collect()
}

/// Fields of features that are off, which the pod has not had before.
pub(super) fn drop_disabled(status: &mut PodStatus, stored: Option<&PodStatus>) {
    let has_claims = |it: &PodStatus| {
        it.node_allocatable_resource_claim_statuses.as_ref().is_some_and(|it| !it.is_empty())
    };
    if !stored.is_some_and(has_claims) {
        status.node_allocatable_resource_claim_statuses = None;
    }
    let lists = |it: &PodStatus| {
        [&it.container_statuses, &it.init_container_statuses, &it.ephemeral_container_statuses]
            .into_iter()
            .flat_map(|it| it.iter().flatten())
            .flat_map(|it| it.volume_mounts.iter().flatten())
            .any(|it| it.volume_status.is_some())
    };
    if stored.is_some_and(lists) {
        return;
    }
    let lists = [
        &mut status.container_statuses,
        &mut status.init_container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    let containers = lists.into_iter().flat_map(|it| it.iter_mut().flatten());
    let mounts = containers.flat_map(|it| it.volume_mounts.iter_mut().flatten());
    mounts.for_each(|it| it.volume_status = None);
}

/// Whoever does not know of generations takes nothing away from what was said about them. There may
/// be several conditions of a type: then the first is followed by the first.
pub(super) fn keep_generations(status: &mut PodStatus, stored: Option<&PodStatus>) {
    let Some(stored) = stored else { return };
    if status.observed_generation.unwrap_or(0) == 0 {
        status.observed_generation = stored.observed_generation;
    }
    let mut before: BTreeMap<&str, VecDeque<Option<i64>>> = BTreeMap::new();
    for condition in stored.conditions.iter().flatten() {
        before.entry(&condition.type_).or_default().push_back(condition.observed_generation);
    }
    for condition in status.conditions.iter_mut().flatten() {
        let old = before.get_mut(condition.type_.as_str()).and_then(VecDeque::pop_front);
        if condition.observed_generation.unwrap_or(0) == 0 {
            condition.observed_generation = old.flatten();
        }
    }
}

pub(super) fn validate(pod: &Pod, stored: &Pod, errors: &mut FieldErrors) {
    let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref().unwrap_or(&no_status);
    let old = stored.status.as_ref().unwrap_or(&no_status);
    let path = Path::new("status");
    validate_conditions(status, &path.child("conditions"), errors);
    let nominated = text(status.nominated_node_name.as_ref());
    if !nominated.is_empty() && status.nominated_node_name != old.nominated_node_name {
        validate_nomination(nominated, stored, &path.child("nominatedNodeName"), errors);
    }
    if let Some(generation) = status.observed_generation.filter(|it| *it < 0) {
        let path = path.child("observedGeneration");
        errors.invalid(&path, generation, "must be a non-negative integer");
    }
    let class = text(status.qos_class.as_ref());
    let is_same = class == text(old.qos_class.as_ref());
    check::immutable(is_same, class, &path.child("qosClass"), errors);
    transitions::validate(status, old, stored.spec.as_ref().unwrap_or(&no_spec), &path, errors);
    validate_claims(status, spec, &path.child("resourceClaimStatuses"), errors);
    if let Some(claim) = &status.extended_resource_claim_status {
        validate_extended(claim, spec, &path.child("extendedResourceClaimStatus"), errors);
    }
    validate_addresses(status, old, &path, errors);
    validate_containers(status, spec, &path, errors);
}

/// It promises a place, which a pod that has one has no use for.
fn validate_nomination(node: &str, stored: &Pod, path: &Path, errors: &mut FieldErrors) {
    check::format(node, &is_dns_subdomain(node), path, errors);
    if !text(stored.spec.as_ref().and_then(|it| it.node_name.as_ref())).is_empty() {
        let detail = "may not be set on pods that are already bound to a node";
        errors.forbidden(path, detail);
    }
}

fn validate_conditions(status: &PodStatus, path: &Path, errors: &mut FieldErrors) {
    for (index, condition) in status.conditions.iter().flatten().enumerate() {
        let path = path.index(index);
        if let Some(generation) = condition.observed_generation.filter(|it| *it < 0) {
            let path = path.child("observedGeneration");
            errors.invalid(&path, generation, "must be a non-negative integer");
        }
        let kind = condition.type_.as_str();
        if !OF_THE_SYSTEM.contains(&kind) {
            check::format(kind, &is_qualified_name(kind), &path.child("Type"), errors);
        }
    }
}

fn validate_claims(status: &PodStatus, spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for (index, claim) in status.resource_claim_statuses.iter().flatten().enumerate() {
        let path = path.index(index);
        let name = claim.name.as_str();
        if !spec.resource_claims.iter().flatten().any(|it| it.name == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&path.child("name"), name, detail);
        }
        if !names.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        if let Some(name) = &claim.resource_claim_name {
            let path = path.child("resourceClaimName");
            check::format(name, &is_dns_subdomain(name), &path, errors);
        }
    }
}

/// The claim that stands for what containers ask for by the name of a resource.
fn validate_extended(
    claim: &PodExtendedResourceClaimStatus,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let containers: BTreeMap<&str, &Container> = all.map(|it| (it.name.as_str(), it)).collect();
    let list = path.child("requestMappings");
    if claim.request_mappings.is_empty() {
        errors.required(&list, "at least one request mapping is required");
    }
    let mut seen = BTreeSet::new();
    for (index, mapping) in claim.request_mappings.iter().enumerate() {
        let place = list.index(index);
        let (container, resource, request) = (
            mapping.container_name.as_str(),
            mapping.resource_name.as_str(),
            mapping.request_name.as_str(),
        );
        let requests = containers.get(container).map(|it| it.resources.as_ref());
        match requests {
            None => errors.invalid(
                &place.child("containerName"),
                container,
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            ),
            Some(resources)
                if !resources
                    .and_then(|it| it.requests.as_ref())
                    .is_some_and(|it| it.contains_key(resource)) =>
            {
                errors.invalid(
                    &place.child("resourceName"),
                    resource,
                    "must match the extended resource name of an entry in \
                     spec.initContainers.resources.requests or spec.containers.resources.requests",
                );
            }
            Some(_) => {}
        }
        check::format(request, &is_dns_label(request), &path.child("requestName"), errors);
        if !seen.insert((container, resource, request)) {
            errors.duplicate(&place.child("containerName"), container);
            errors.duplicate(&place.child("resourceName"), resource);
            errors.duplicate(&place.child("requestName"), request);
        }
    }
    let name = claim.resource_claim_name.as_str();
    let path = path.child("resourceClaimName");
    if name.is_empty() {
        errors.required(&path, "");
    } else {
        check::format(name, &is_dns_subdomain(name), &path, errors);
    }
}

fn validate_addresses(status: &PodStatus, old: &PodStatus, path: &Path, errors: &mut FieldErrors) {
    let pods = |it: &PodStatus| -> Vec<String> {
        it.pod_ips.iter().flatten().map(|it| it.ip.clone()).collect()
    };
    let hosts = |it: &PodStatus| -> Vec<String> {
        it.host_ips.iter().flatten().map(|it| it.ip.clone()).collect()
    };
    validate_family(&pods(status), &pods(old), &path.child("podIPs"), errors);
    let path = path.child("hostIPs");
    let new = hosts(status);
    if let Some(first) = new.first().filter(|it| *it != text(status.host_ip.as_ref())) {
        let path = path.index(0).child("ip");
        errors.invalid(&path, first.as_str(), "must be equal to `hostIP`");
    }
    validate_family(&new, &hosts(old), &path, errors);
}

/// One of each family at most. What is wrong already may stay.
fn validate_family(new: &[String], old: &[String], path: &Path, errors: &mut FieldErrors) {
    for (index, ip) in new.iter().enumerate().filter(|(_, it)| !old.contains(it)) {
        check::format(ip, &is_ip(ip), &path.index(index), errors);
    }
    if new.len() < 2 {
        return;
    }
    let parsed: Vec<Option<std::net::IpAddr>> = new.iter().map(|it| it.parse().ok()).collect();
    let wrong = parsed.iter().position(Option::is_none);
    if let Some(index) = wrong {
        let detail = format!(
            "failed to check for dual stack with error:invalid IP[{index}]: {}",
            new[index]
        );
        errors.internal(path, &detail);
    }
    let n_v4 = parsed.iter().flatten().filter(|it| it.is_ipv4()).count();
    let is_dual = wrong.is_none() && n_v4 > 0 && n_v4 < new.len();
    if !is_dual || new.len() > 2 {
        let shown: Vec<Value> = new.iter().map(|it| json!({ "IP": it })).collect();
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid(path, shown, detail);
    }
}

/// A list of the status by its name, and the containers that it is about.
type ContainerList<'a> = (&'static str, &'a Option<Vec<ContainerStatus>>, &'a [Container]);

fn validate_containers(status: &PodStatus, spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let lists: [ContainerList<'_>; 3] = [
        ("containerStatuses", &status.container_statuses, &spec.containers),
        ("initContainerStatuses", &status.init_container_statuses, init),
        ("ephemeralContainerStatuses", &status.ephemeral_container_statuses, &[]),
    ];
    let is_windows = spec.os.as_ref().is_some_and(|it| it.name == "windows");
    for (field, statuses, _) in &lists {
        for (index, container) in statuses.iter().flatten().enumerate() {
            let user = container.user.as_ref().and_then(|it| it.linux.as_ref());
            let path = path.child(field).index(index).child("user").child("linux");
            match user {
                Some(_) if is_windows => {
                    errors.forbidden(&path, "cannot be set for a windows pod");
                }
                Some(user) => {
                    check::id(Some(user.uid), &path.child("uid"), errors);
                    check::id(Some(user.gid), &path.child("gid"), errors);
                    for (index, group) in user.supplemental_groups.iter().flatten().enumerate() {
                        let path = path.child("supplementalGroups").index(index);
                        check::id(Some(*group), &path, errors);
                    }
                }
                None => {}
            }
        }
    }
    for (field, statuses, containers) in lists {
        for (index, container) in statuses.iter().flatten().enumerate() {
            let path = path.child(field).index(index).child("allocatedResourcesStatus");
            let allocated = container.allocated_resources_status.as_deref().unwrap_or_default();
            if field == "ephemeralContainerStatuses" && !allocated.is_empty() {
                errors.forbidden(&path, "must not be specified in container status");
                continue;
            }
            let asked = containers.iter().find(|it| it.name == container.name);
            for (index, resource) in allocated.iter().enumerate() {
                validate_allocated(resource, asked, &path.index(index), errors);
            }
        }
    }
}

/// Of a container that is not there, nothing is known.
fn validate_allocated(
    resource: &ResourceStatus,
    asked: Option<&Container>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let name = resource.name.as_str();
    let resources = asked.and_then(|it| it.resources.as_ref());
    if asked.is_some() && name.starts_with("claim:") {
        let mut claims = resources.iter().flat_map(|it| it.claims.iter().flatten());
        let is_asked = claims.any(|it| match it.request.as_deref() {
            None | Some("") => name == format!("claim:{}", it.name),
            Some(request) => name == format!("claim:{}/{request}", it.name),
        });
        if !is_asked {
            let detail = "must match one of the container's resource claims in a format \
                          'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            errors.invalid(&path.child("name"), name, detail);
        }
    } else if asked.is_some() {
        let requests = resources.and_then(|it| it.requests.as_ref());
        if !requests.is_some_and(|it| it.contains_key(name)) {
            let detail = "must match one of the container's resource requests";
            errors.invalid(&path.child("name"), name, detail);
        }
    }
    let mut ids = BTreeSet::new();
    for (index, health) in resource.resources.iter().flatten().enumerate() {
        let path = path.child("resources").index(index);
        let known = ["Healthy", "Unhealthy", "Unknown"];
        let value = text(health.health.as_ref());
        if !known.contains(&value) {
            errors.not_supported(&path.child("health"), value, &known);
        }
        if health.message.as_deref() == Some("") {
            errors.required(&path.child("message"), "must be non-empty if specified");
        }
        if !ids.insert(health.resource_id.as_str()) {
            errors.duplicate(&path.child("resourceID"), health.resource_id.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use apimachinery::FieldErrors;
    use k8s_openapi::api::core::v1::Pod;

    fn check(status: Value, expected: &[&str]) {
        let pod = |status: Value| -> Pod {
            let container = json!({"name": "c", "resources": {"requests": {"a.b/c": "1"}}});
            serde_json::from_value(json!({"spec": {"containers": [container]}, "status": status}))
                .unwrap()
        };
        let mut errors = FieldErrors::new();
        super::validate(&pod(status), &pod(json!({})), &mut errors);
        let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, start) in problems.iter().zip(expected) {
            assert!(problem.starts_with(start), "{problem:?} does not start with {start:?}");
        }
    }

    #[test]
    fn addresses_are_one_of_each_family() {
        let ips = |all: &[&str]| -> Value {
            json!({"podIPs": all.iter().map(|it| json!({"ip": it})).collect::<Vec<_>>()})
        };
        check(ips(&["10.0.0.1", "fd00::1"]), &[]);
        check(ips(&["10.0.0.1", "10.0.0.2"]), &["status.podIPs: Invalid value: [{\"IP\":\"10.0"]);
        check(ips(&["None"]), &["status.podIPs[0]: Invalid value: \"None\": must be a valid IP"]);
        check(
            ips(&["None", "10.0.0.1"]),
            &[
                "status.podIPs[0]: Invalid value",
                "status.podIPs: Internal error: failed to check for dual stack with error:invalid \
                 IP[0]: None",
                "status.podIPs: Invalid value",
            ],
        );
        check(
            json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}),
            &["status.hostIPs[0].ip: Invalid value: \"10.0.0.2\": must be equal to `hostIP`"],
        );
    }

    #[test]
    fn claims_are_those_of_the_spec() {
        check(
            json!({"resourceClaimStatuses": [{"name": "a"}]}),
            &["status.resourceClaimStatuses[0].name: Invalid value: \"a\": must match the name"],
        );
        let mapped = |container: &str, resource: &str| {
            let mapping =
                json!({"containerName": container, "resourceName": resource, "requestName": "r"});
            json!({"extendedResourceClaimStatus":
                {"requestMappings": [mapping], "resourceClaimName": "x"}})
        };
        check(mapped("c", "a.b/c"), &[]);
        check(
            mapped("d", "a.b/c"),
            &["status.extendedResourceClaimStatus.requestMappings[0].containerName: Invalid"],
        );
        check(
            mapped("c", "x"),
            &["status.extendedResourceClaimStatus.requestMappings[0].resourceName: Invalid"],
        );
    }
}
