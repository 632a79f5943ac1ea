//! What the server says it has: its version, its groups, and what has no table.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::expect::{same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] Discovery should locate the groupVersion and a resource within each APIGroup [Conformance]",
        resources
    ),
    case!(
        "[sig-api-machinery] Discovery should validate PreferredVersion for each APIGroup [Conformance]",
        preferred_versions
    ),
    case!(
        "[sig-api-machinery] Servers with support for Table transformation should return a 406 for a backend which does not implement metadata [Conformance]",
        no_table
    ),
    case!(
        "[sig-api-machinery] server version should find the server version [Conformance]",
        version
    ),
];

/// A resource that every version has which a cluster cannot do without.
pub(crate) const SERVED: &[(&str, &str)] = &[
    ("v1", "namespaces"),
    ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io/v1", "customresourcedefinitions"),
    ("apiregistration.k8s.io/v1", "apiservices"),
    ("apps/v1", "deployments"),
    ("authentication.k8s.io/v1", "tokenreviews"),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews"),
    ("autoscaling/v1", "horizontalpodautoscalers"),
    ("autoscaling/v2", "horizontalpodautoscalers"),
    ("batch/v1", "jobs"),
    ("certificates.k8s.io/v1", "certificatesigningrequests"),
    ("coordination.k8s.io/v1", "leases"),
    ("discovery.k8s.io/v1", "endpointslices"),
    ("events.k8s.io/v1", "events"),
    ("networking.k8s.io/v1", "ingresses"),
    ("node.k8s.io/v1", "runtimeclasses"),
    ("policy/v1", "poddisruptionbudgets"),
    ("scheduling.k8s.io/v1", "priorityclasses"),
    ("storage.k8s.io/v1", "csinodes"),
];

async fn resources(scope: &Scope) -> Result<()> {
    for (group_version, resource) in SERVED {
        let prefix = if group_version.contains('/') { "/apis" } else { "/api" };
        let path = format!("{prefix}/{group_version}");
        let document = scope.document(&path).await?;
        shows(&document, &json!({ "kind": "APIResourceList", "groupVersion": group_version }))?;
        let resources = document["resources"].as_array();
        let is_there = resources.is_some_and(|it| it.iter().any(|it| it["name"] == *resource));
        ensure!(is_there, "{path}: expected {resource}, saw {document}");
    }
    Ok(())
}

async fn preferred_versions(scope: &Scope) -> Result<()> {
    // With a slash at the end they are the same documents.
    let groups = scope.document("/apis/").await?;
    let groups = groups["groups"].as_array().map_or(&[][..], |it| it);
    ensure!(!groups.is_empty(), "/apis: expected groups, saw none");
    for group in groups {
        let name = group["name"].as_str().unwrap_or_default();
        // Groups of other cases come and go.
        if name.ends_with(".example.com") {
            continue;
        }
        let group = scope.document(&format!("/apis/{name}/")).await?;
        let preferred = &group["preferredVersion"];
        let versions = group["versions"].as_array().map_or(&[][..], |it| it);
        let is_one = versions.iter().any(|it| it["groupVersion"] == preferred["groupVersion"]);
        ensure!(
            is_one,
            "/apis/{name}: expected a preferred version of {versions:?}, saw {preferred}"
        );
    }
    Ok(())
}

async fn no_table(scope: &Scope) -> Result<()> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "nonResourceAttributes": { "path": "/", "verb": "get" } },
    });
    let headers = [
        ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        ("content-type", "application/json"),
    ];
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = scope.send(Method::POST, path, &headers, review.to_string().into_bytes()).await?;
    same("code", answer.code, 406)?;
    shows(&answer.json()?, &json!({ "kind": "Status", "reason": "NotAcceptable", "code": 406 }))
}

async fn version(scope: &Scope) -> Result<()> {
    let version = scope.document("/version").await?;
    let part = |name: &str| version[name].as_str().unwrap_or_default().to_owned();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    ensure!(is_number(&part("major")), "major: expected a number, saw {version}");
    // Providers write `36+`.
    ensure!(
        is_number(part("minor").trim_end_matches('+')),
        "minor: expected a number, saw {version}"
    );
    ensure!(part("gitVersion").starts_with('v'), "gitVersion: saw {version}");
    ensure!(version["platform"] != Value::Null, "platform: saw {version}");
    Ok(())
}
