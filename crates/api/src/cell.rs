//! Table cells that many kinds share.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, MicroTime, ObjectMeta, Time};
use serde_json::Value;

use apimachinery::selector::Labels;
use apimachinery::table;

pub(crate) fn name(meta: &ObjectMeta) -> Value {
    Value::from(meta.name.clone().unwrap_or_default())
}

pub(crate) fn age(meta: &ObjectMeta, now: Timestamp) -> Value {
    Value::from(since(meta.creation_timestamp.as_ref(), now))
}

pub(crate) fn since(time: Option<&Time>, now: Timestamp) -> String {
    table::age(time.map(|it| it.0), now)
}

pub(crate) fn since_micro(time: Option<&MicroTime>, now: Timestamp) -> String {
    table::age(time.map(|it| it.0), now)
}

/// The text, or `<none>` when there is none.
pub(crate) fn or_none(text: &str) -> Value {
    or(text, "<none>")
}

pub(crate) fn or(text: &str, absent: &str) -> Value {
    Value::from(if text.is_empty() { absent } else { text })
}

/// `a=1,b=2`, or `<none>`.
pub(crate) fn labels(labels: Option<&BTreeMap<String, String>>) -> Value {
    let pairs: Vec<String> =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    or_none(&pairs.join(","))
}

/// `app=web`, or `<none>` when it selects everything.
pub(crate) fn selector(selector: &LabelSelector) -> Value {
    Labels::from_selector(Some(selector))
        .map_or_else(|_| Value::from("<error>"), |it| or_none(&it.to_string()))
}

/// The cells Containers and Images.
pub(crate) fn containers_and_images(containers: &[Container]) -> [Value; 2] {
    let names: Vec<&str> = containers.iter().map(|it| it.name.as_str()).collect();
    let images: Vec<&str> =
        containers.iter().map(|it| it.image.as_deref().unwrap_or_default()).collect();
    [Value::from(names.join(",")), Value::from(images.join(","))]
}

/// The first three entries, then how many are left out.
pub(crate) fn first_three(entries: &[String]) -> String {
    const SHOWN_MAX: usize = 3;
    if entries.len() <= SHOWN_MAX {
        return entries.join(",");
    }
    format!("{} + {} more...", entries[..SHOWN_MAX].join(","), entries.len() - SHOWN_MAX)
}

/// The same of a template, which may not be there.
pub(crate) fn template_containers(template: Option<&PodTemplateSpec>) -> [Value; 2] {
    let spec = template.and_then(|it| it.spec.as_ref());
    containers_and_images(spec.map_or(&[][..], |it| &it.containers))
}
