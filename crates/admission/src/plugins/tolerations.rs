//! Tolerations of two sources as one list, without those that others include.

use k8s_openapi::api::core::v1::Toleration;

pub(crate) fn merge(first: Vec<Toleration>, second: Vec<Toleration>) -> Vec<Toleration> {
    let all: Vec<Toleration> = first.into_iter().chain(second).collect();
    let mut merged: Vec<Toleration> = Vec::new();
    for (index, it) in all.iter().enumerate() {
        let is_in_earlier = merged.iter().any(|other| includes(other, it));
        // Of equal ones the first stays.
        let is_in_later = all[index + 1..].iter().any(|other| other != it && includes(other, it));
        if !is_in_earlier && !is_in_later {
            merged.push(it.clone());
        }
    }
    merged
}

fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

/// Whether whoever has `wide` tolerates all that `narrow` does, for as long.
pub(crate) fn includes(wide: &Toleration, narrow: &Toleration) -> bool {
    if wide == narrow {
        return true;
    }
    let operator = text(wide.operator.as_ref());
    let (key, effect) = (text(wide.key.as_ref()), text(wide.effect.as_ref()));
    let is_any_key = key.is_empty() && operator == "Exists";
    if key != text(narrow.key.as_ref()) && !is_any_key {
        return false;
    }
    if effect != text(narrow.effect.as_ref()) && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(limit) = wide.toleration_seconds
        && narrow.toleration_seconds.is_none_or(|it| it > limit)
    {
        return false;
    }
    match operator {
        "" | "Equal" => {
            let is_equal = text(narrow.operator.as_ref()) == "Equal";
            is_equal && text(narrow.value.as_ref()) == text(wide.value.as_ref())
        }
        "Exists" => true,
        _ => false,
    }
}
