//! What is counted, under upstream's names.

use telemetry::{Counter, Description, Family, Registry, Stability};

use super::policy::{Standard, Version};
use crate::attributes::{Attributes, Operation};

/// The version of this server: standards of later ones are counted as one.
const MINOR: u64 = 36;

const EVALUATIONS: Description<7> = Description {
    name: "pod_security_evaluations_total",
    stability: Stability::Alpha,
    help: "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
    labels: [
        "decision",
        "policy_level",
        "policy_version",
        "mode",
        "request_operation",
        "resource",
        "subresource",
    ],
};
const EXEMPTIONS: Description<3> = Description {
    name: "pod_security_exemptions_total",
    stability: Stability::Alpha,
    help: "Number of exempt requests, not counting ignored or out of scope requests.",
    labels: ["request_operation", "resource", "subresource"],
};
const ERRORS: Description<4> = Description {
    name: "pod_security_errors_total",
    stability: Stability::Alpha,
    help: "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being used for evaluation.",
    labels: ["fatal", "request_operation", "resource", "subresource"],
};

pub(super) struct Metrics {
    evaluations: Family<Counter, 7>,
    exemptions: Family<Counter, 3>,
    errors: Family<Counter, 4>,
}

/// (operation, resource, subresource)
fn labels<'a>(request: &Attributes<'a>) -> [&'a str; 3] {
    let operation = match request.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect",
    };
    let resource = if request.is_of("", "pods") {
        "pod"
    } else if request.is_of("", "namespaces") {
        "namespace"
    } else {
        "controller"
    };
    [operation, resource, request.subresource]
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let evaluations = registry.counters(&EVALUATIONS);
        let exemptions = registry.counters(&EXEMPTIONS);
        // Those that everybody has are shown from the start.
        for operation in ["create", "update"] {
            evaluations.with(["allow", "privileged", "latest", "enforce", operation, "pod", ""]);
            for resource in ["pod", "controller"] {
                exemptions.with([operation, resource, ""]);
            }
        }
        Self { evaluations, exemptions, errors: registry.counters(&ERRORS) }
    }

    pub(super) fn evaluated(
        &self,
        request: &Attributes<'_>,
        (mode, standard): (&str, Standard),
        is_allowed: bool,
    ) {
        let version = match standard.version {
            _ if standard.is_privileged() => "latest".to_owned(),
            Version::Minor(minor) if minor > MINOR => "future".to_owned(),
            version => version.to_string(),
        };
        let [operation, resource, subresource] = labels(request);
        let decision = if is_allowed { "allow" } else { "deny" };
        let level = standard.level.name();
        let values = [decision, level, &version, mode, operation, resource, subresource];
        self.evaluations.with(values).increment();
    }

    pub(super) fn exempted(&self, request: &Attributes<'_>) {
        self.exemptions.with(labels(request)).increment();
    }

    pub(super) fn failed(&self, request: &Attributes<'_>, is_fatal: bool) {
        let [operation, resource, subresource] = labels(request);
        let is_fatal = if is_fatal { "true" } else { "false" };
        self.errors.with([is_fatal, operation, resource, subresource]).increment();
    }
}
