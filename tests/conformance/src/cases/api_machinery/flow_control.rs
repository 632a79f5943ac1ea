//! FlowSchemas and PriorityLevelConfigurations, as objects.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::operations::{Operations, Status};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] API priority and fairness should support FlowSchema API operations [Conformance]",
        flow_schemas
    ),
    case!(
        "[sig-api-machinery] API priority and fairness should support PriorityLevelConfiguration API operations [Conformance]",
        priority_levels
    ),
];

const GROUP: &str = "flowcontrol.apiserver.k8s.io/v1";

fn conditions(kind: &str) -> Value {
    json!({ "conditions": [{ "type": kind, "status": "False", "reason": "Conformance" }] })
}

async fn flow_schemas(scope: &Scope) -> Result<()> {
    let nobody = json!({ "kind": "User", "user": { "name": scope.unique("nobody") } });
    let anything = json!({ "verbs": ["*"], "nonResourceURLs": ["*"] });
    let flow_schemas = Operations {
        group_version: GROUP,
        resource: "flowschemas",
        kind: "FlowSchema",
        is_namespaced: false,
        object: json!({ "spec": {
            "matchingPrecedence": 10_000,
            "priorityLevelConfiguration": { "name": "global-default" },
            "distinguisherMethod": { "type": "ByUser" },
            "rules": [{ "subjects": [nobody], "nonResourceRules": [anything] }],
        } }),
        change: json!({ "spec": { "matchingPrecedence": 9_999 } }),
        status: Some(Status {
            values: [conditions("Patched"), conditions("Replaced")],
            takes_annotations: false,
        }),
        names: None,
    };
    flow_schemas.check(scope).await
}

async fn priority_levels(scope: &Scope) -> Result<()> {
    let limited = |shares| json!({ "nominalConcurrencyShares": shares, "limitResponse": { "type": "Reject" } });
    let priority_levels = Operations {
        group_version: GROUP,
        resource: "prioritylevelconfigurations",
        kind: "PriorityLevelConfiguration",
        is_namespaced: false,
        object: json!({ "spec": { "type": "Limited", "limited": limited(2) } }),
        change: json!({ "spec": { "limited": { "nominalConcurrencyShares": 4 } } }),
        status: Some(Status {
            values: [conditions("Patched"), conditions("Replaced")],
            takes_annotations: false,
        }),
        names: None,
    };
    priority_levels.check(scope).await
}
