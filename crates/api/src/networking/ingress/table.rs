//! Ingresses in `kubectl get`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1::{Ingress, IngressRule, IngressSpec};
use serde_json::Value;

use apimachinery::table::Column;

use super::entry_points;
use crate::cell;
use crate::check::text;

const HOSTS_SHOWN_MAX: usize = 3;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Class", "string"),
    Column::new("Hosts", "string"),
    Column::new("Address", "string"),
    Column::new("Ports", "string"),
    Column::new("Age", "string"),
];

pub(super) fn row(ingress: &Ingress, now: Timestamp) -> Vec<Value> {
    let absent = IngressSpec::default();
    let spec = ingress.spec.as_ref().unwrap_or(&absent);
    let class = spec.ingress_class_name.as_deref().unwrap_or("<none>");
    let has_tls = spec.tls.iter().flatten().next().is_some();
    vec![
        cell::name(&ingress.metadata),
        Value::from(class),
        Value::from(hosts(spec.rules.as_deref().unwrap_or_default())),
        Value::from(addresses(ingress)),
        Value::from(if has_tls { "80, 443" } else { "80" }),
        cell::age(&ingress.metadata, now),
    ]
}

/// How many are left out is counted in rules, whether they name a host or not.
fn hosts(rules: &[IngressRule]) -> String {
    let named = |it: &&str| !it.is_empty();
    let all = rules.iter().map(|it| text(it.host.as_ref()));
    let shown: Vec<&str> = all.filter(named).take(HOSTS_SHOWN_MAX).collect();
    if shown.is_empty() {
        return "*".to_owned();
    }
    let n_seen = rules.iter().scan(0, |n_hosts, rule| {
        let is_open = *n_hosts < HOSTS_SHOWN_MAX;
        *n_hosts += usize::from(!text(rule.host.as_ref()).is_empty());
        is_open.then_some(())
    });
    let is_more = n_seen.count() < rules.len();
    let shown = shown.join(",");
    if is_more {
        return format!("{shown} + {} more...", rules.len() - HOSTS_SHOWN_MAX);
    }
    shown
}

fn addresses(ingress: &Ingress) -> String {
    let points = entry_points(ingress).iter();
    let addresses = points.map(|it| match text(it.ip.as_ref()) {
        "" => text(it.hostname.as_ref()),
        ip => ip,
    });
    let all: BTreeSet<&str> = addresses.filter(|it| !it.is_empty()).collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}
