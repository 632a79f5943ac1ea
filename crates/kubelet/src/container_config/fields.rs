//! What `fieldRef` and `resourceFieldRef` show of a pod.

use std::collections::BTreeMap;
use std::net::IpAddr;

use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod_facts::PodFacts;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("unsupported fieldPath: {0}")]
    Path(String),
    #[error("container {0} not found")]
    Container(String),
    #[error("unsupported container resource : {0}")]
    Resource(String),
}

/// The value of a `fieldRef`; what does not exist is empty.
pub(crate) fn field(pod: &Pod, facts: &PodFacts, path: &str) -> Result<String, Error> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let text = |it: Option<&String>| it.cloned().unwrap_or_default();
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => meta.labels.as_ref(),
            "metadata.annotations" => meta.annotations.as_ref(),
            _ => return Err(Error::Path(path.to_owned())),
        };
        return Ok(text(map.and_then(|it| it.get(key))));
    }
    Ok(match path {
        "metadata.name" => text(meta.name.as_ref()),
        "metadata.namespace" => text(meta.namespace.as_ref()),
        "metadata.uid" => text(meta.uid.as_ref()),
        "metadata.labels" => map_lines(meta.labels.as_ref()),
        "metadata.annotations" => map_lines(meta.annotations.as_ref()),
        "spec.nodeName" => facts.node_name.clone(),
        "spec.serviceAccountName" => text(spec.and_then(|it| it.service_account_name.as_ref())),
        "status.hostIP" => first(&facts.host_ips),
        "status.hostIPs" => joined(&facts.host_ips),
        "status.podIP" => first(&facts.pod_ips),
        "status.podIPs" => joined(&facts.pod_ips),
        _ => return Err(Error::Path(path.to_owned())),
    })
}

/// `metadata.labels['app']` is `metadata.labels` and `app`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    Some((map, key))
}

fn first(addresses: &[IpAddr]) -> String {
    addresses.first().map(IpAddr::to_string).unwrap_or_default()
}

fn joined(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

/// `key="value"` in lines, sorted, values quoted as Go's `%q` does.
fn map_lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0b' => quoted.push_str("\\v"),
            '\x0c' => quoted.push_str("\\f"),
            _ if letter.is_ascii_control() => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(letter)));
            }
            _ if letter.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

/// The value of a `resourceFieldRef`. Without a container's name it is about `own`, which volumes
/// do not have.
pub(crate) fn resource(
    pod: &Pod,
    own: Option<&Container>,
    facts: &PodFacts,
    selector: &ResourceFieldSelector,
) -> Result<String, Error> {
    let name = selector.container_name.as_deref().unwrap_or_default();
    let container = match own.filter(|_| name.is_empty()) {
        Some(own) => own,
        None => find(pod, name).ok_or_else(|| Error::Container(name.to_owned()))?,
    };
    let unknown = || Error::Resource(selector.resource.clone());
    let (kind, resource) = selector.resource.split_once('.').ok_or_else(unknown)?;
    if !is_known(resource) {
        return Err(unknown());
    }
    let resources = container.resources.as_ref();
    let amount = match kind {
        "limits" => amount(resources.and_then(|it| it.limits.as_ref()), resource)
            .filter(|it| !it.is_zero())
            .or_else(|| allocatable(facts, resource)),
        "requests" => amount(resources.and_then(|it| it.requests.as_ref()), resource),
        _ => return Err(unknown()),
    };
    Ok(divided(amount.unwrap_or(Amount::ZERO), selector.divisor.as_ref(), resource).to_string())
}

fn find<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|it| it.name == name)
}

fn is_known(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage") || resource.starts_with("hugepages-")
}

fn amount(quantities: Option<&BTreeMap<String, Quantity>>, name: &str) -> Option<Amount> {
    Amount::parse(&quantities?.get(name)?.0).ok()
}

/// The limit of a container without one is the node.
fn allocatable(facts: &PodFacts, resource: &str) -> Option<Amount> {
    match resource {
        "cpu" => Some(Amount::from_millis(facts.allocatable.cpu_millis)),
        "memory" => Some(Amount::new(facts.allocatable.memory)),
        "ephemeral-storage" => Some(Amount::new(facts.allocatable.ephemeral_storage)),
        _ => None,
    }
}

/// Rounded up; a divisor that is missing or zero is one.
fn divided(amount: Amount, divisor: Option<&Quantity>, resource: &str) -> i64 {
    let divisor = divisor.and_then(|it| Amount::parse(&it.0).ok()).filter(|it| !it.is_zero());
    let divisor = divisor.unwrap_or_else(|| Amount::new(1));
    let (amount, divisor) = match resource {
        "cpu" => (amount.millis(), divisor.millis()),
        _ => (amount.value(), divisor.value()),
    };
    let quotient = amount / divisor;
    if amount % divisor > 0 { quotient + 1 } else { quotient }
}
