//! Discovery in one document for all groups, in the form that `Accept` asks for.

use anyhow::{Result, anyhow, ensure};
use http::Method;
use serde_json::Value;

use super::custom_resources::Definition;
use super::discovery::SERVED;
use crate::cases::{Case, case};
use crate::expect::{same, says};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] AggregatedDiscovery should support aggregated discovery interface [Conformance]",
        served
    ),
    case!(
        "[sig-api-machinery] AggregatedDiscovery should support aggregated discovery interface for CRDs [Conformance]",
        custom
    ),
    case!(
        "[sig-api-machinery] AggregatedDiscovery should support raw aggregated discovery endpoint Accept headers [Conformance]",
        accept
    ),
    case!(
        "[sig-api-machinery] AggregatedDiscovery should support raw aggregated discovery request for CRDs [Conformance]",
        raw_custom
    ),
];

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn document(scope: &Scope, path: &str) -> Result<Value> {
    let answer = scope.send(Method::GET, path, &[("accept", ACCEPT)], Vec::new()).await?;
    same(&format!("{path}: code"), answer.code, 200)?;
    let kinds = ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"];
    says(&format!("{path}: content type"), answer.content_type(), &kinds)?;
    answer.json()
}

/// The resource, by group, version and name, with the verbs that it must have to be of use.
fn find<'a>(document: &'a Value, group_version: &str, resource: &str) -> Option<&'a Value> {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let groups = document["items"].as_array()?.iter();
    let mut groups = groups.filter(|it| it["metadata"]["name"].as_str().unwrap_or("") == group);
    let versions = groups.next()?["versions"].as_array()?;
    let version = versions.iter().find(|it| it["version"] == version)?;
    version["resources"].as_array()?.iter().find(|it| it["resource"] == resource)
}

async fn accept(scope: &Scope) -> Result<()> {
    let (core, groups) = (document(scope, "/api").await?, document(scope, "/apis").await?);
    for (group_version, resource) in SERVED {
        let document = if group_version.contains('/') { &groups } else { &core };
        let found = find(document, group_version, resource);
        let found = found.ok_or_else(|| anyhow!("expected {resource} of {group_version}"))?;
        let has_verbs = found["verbs"].as_array().is_some_and(|it| !it.is_empty());
        ensure!(has_verbs, "{resource} of {group_version}: expected verbs, saw {found}");
    }
    // Who asks for neither gets the older form.
    let older = scope.document("/apis").await?;
    same("kind", older["kind"].as_str(), Some("APIGroupList"))
}

/// By way of a client that asks for it by itself.
async fn served(scope: &Scope) -> Result<()> {
    let core = scope.client().list_core_api_versions_aggregated().await?;
    let groups = scope.client().list_api_groups_aggregated().await?;
    let all: Vec<(String, String)> = [core, groups]
        .into_iter()
        .flat_map(|it| it.items)
        .flat_map(|group| {
            let name = group.metadata.and_then(|it| it.name).unwrap_or_default();
            group.versions.into_iter().flat_map(move |version| {
                let short = version.version.clone().unwrap_or_default();
                let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
                let of = format!("{prefix}{short}");
                let resources = version.resources.into_iter();
                resources.map(move |it| (of.clone(), it.resource.unwrap_or_default()))
            })
        })
        .collect();
    for (group_version, resource) in SERVED {
        let is_there = all.iter().any(|it| it.0 == *group_version && it.1 == *resource);
        ensure!(is_there, "expected {resource} of {group_version}, saw {all:?}");
    }
    Ok(())
}

async fn custom(scope: &Scope) -> Result<()> {
    let definition = Definition::simple(scope, "aggregated");
    definition.create(scope).await?;
    scope
        .until("the client's discovery has it", async || {
            let groups = scope.client().list_api_groups_aggregated().await?;
            let group = groups.items.iter().find(|it| {
                it.metadata.as_ref().and_then(|it| it.name.as_ref()) == Some(&definition.group)
            });
            let group = group.ok_or_else(|| anyhow!("no group {}", definition.group))?;
            let mut resources = group.versions.iter().flat_map(|it| &it.resources);
            let is_there = resources.any(|it| it.resource.as_ref() == Some(&definition.plural));
            ensure!(is_there, "no resource {}", definition.plural);
            Ok(())
        })
        .await
}

async fn raw_custom(scope: &Scope) -> Result<()> {
    let definition = Definition::simple(scope, "raw");
    definition.create(scope).await?;
    scope
        .until("/apis has it", async || {
            let groups = document(scope, "/apis").await?;
            let found = find(&groups, &definition.group_version(), &definition.plural);
            let found = found.ok_or_else(|| anyhow!("no {}", definition.plural))?;
            same("kind", found["responseKind"]["kind"].as_str(), Some(&*definition.kind))
        })
        .await
}
