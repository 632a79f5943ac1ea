//! Requests for other servers that those never saw, under upstream's names. What was passed on is
//! counted by whoever answered it.

use apimachinery::GroupVersion;
use telemetry::{Counter, Description, Family, Registry, Stability};

use super::requests::TOTAL;

pub(super) const TERMINATIONS: Description<8> = Description {
    name: "apiserver_request_terminations_total",
    stability: Stability::Alpha,
    help: "Number of requests which apiserver terminated in self-defense.",
    labels: ["verb", "group", "version", "resource", "subresource", "scope", "component", "code"],
};

/// Who ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// There was no room for it.
    FlowControl,
    /// Its server cannot be reached, or not be believed.
    Aggregator,
}

pub(crate) struct Elsewhere {
    total: Family<Counter, 9>,
    terminations: Family<Counter, 8>,
}

/// What a request was about: as upstream's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) verb: &'static str,
    pub(crate) dry_run: &'static str,
    pub(crate) group_version: Option<GroupVersion>,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: &'static str,
}

impl Elsewhere {
    pub(super) fn new(registry: &Registry) -> Self {
        let (total, terminations) = (registry.counters(&TOTAL), registry.counters(&TERMINATIONS));
        Self { total, terminations }
    }

    /// It ended with `code`, before another server heard of it.
    pub(crate) fn ended(&self, it: &Subject, by: By, code: u16) {
        let (group, version) = match &it.group_version {
            Some(GroupVersion { group, version }) => (group.as_str(), version.as_str()),
            None => ("", ""),
        };
        let (resource, subresource) = (it.resource.as_str(), it.subresource.as_str());
        let component = match by {
            By::FlowControl => "apiserver",
            By::Aggregator => "aggregator",
        };
        let code = code.to_string();
        let labels = [it.verb, group, version, resource, subresource, it.scope, component, &code];
        self.terminations.with(labels).increment();
        if by == By::FlowControl {
            // Where a path is no resource, this one does not say which it is.
            let subresource = if it.group_version.is_some() { subresource } else { "" };
            let labels = [
                it.verb,
                it.dry_run,
                group,
                version,
                resource,
                subresource,
                it.scope,
                component,
                &code,
            ];
            self.total.with(labels).increment();
        }
    }
}
