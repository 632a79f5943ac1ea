//! CustomResourceDefinitions and the resources that they define.

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{count, is_going, items, name, newer, refused, same, shows, version};
use crate::scope::{Scope, named, selector};

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] CustomResourceDefinition Watch [Privileged:ClusterAdmin] CustomResourceDefinition Watch watch on custom resource definition objects [Conformance]",
        watch
    ),
    case!(
        "[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] Simple CustomResourceDefinition creating/deleting custom resource definition objects works [Conformance]",
        create_and_delete
    ),
    case!(
        "[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] Simple CustomResourceDefinition getting/updating/patching custom resource definition status sub-resource works [Conformance]",
        status
    ),
    case!(
        "[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] Simple CustomResourceDefinition listing custom resource definition objects works [Conformance]",
        list
    ),
    case!(
        "[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] custom resource defaulting for requests and from storage works [Conformance]",
        defaults
    ),
    case!(
        "[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] should include custom resource definition resources in discovery documents [Conformance]",
        discovery
    ),
];

const GROUP: &str = "apiextensions.k8s.io/v1";

/// A kind that a case defines.
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) is_namespaced: bool,
    pub(crate) versions: Vec<&'static str>,
    pub(crate) schema: Value,
}

/// Anything goes.
pub(crate) fn anything() -> Value {
    json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

impl Definition {
    /// One version, in namespaces, where anything goes.
    pub(crate) fn simple(scope: &Scope, group: &str) -> Self {
        Self::new(scope, group, "thing", &["v1"], anything())
    }

    pub(crate) fn new(
        scope: &Scope,
        group: &str,
        name: &str,
        versions: &[&'static str],
        schema: Value,
    ) -> Self {
        Self {
            group: format!("{group}-{}.example.com", scope.suffix),
            plural: format!("{name}s"),
            kind: format!("{}{}", name[..1].to_uppercase(), &name[1..]),
            is_namespaced: true,
            versions: versions.to_vec(),
            schema,
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The first version.
    pub(crate) fn group_version(&self) -> String {
        format!("{}/{}", self.group, self.versions[0])
    }

    fn object(&self, scope: &Scope) -> Value {
        let schema = json!({ "openAPIV3Schema": self.schema });
        let versions: Vec<Value> = (0..)
            .zip(&self.versions)
            .map(|(at, it)| json!({ "name": it, "served": true, "storage": at == 0, "schema": schema }))
            .collect();
        let singular = self.kind.to_lowercase();
        json!({
            "apiVersion": GROUP, "kind": "CustomResourceDefinition",
            "metadata": named(scope, &self.name()),
            "spec": {
                "group": self.group,
                "scope": if self.is_namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "plural": self.plural, "singular": singular, "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                },
                "versions": versions,
            },
        })
    }

    /// Creates it, and returns when all of its versions are served.
    pub(crate) async fn create(&self, scope: &Scope) -> Result<Value> {
        let definitions = definitions(scope);
        let made = definitions.create(&self.object(scope)).await?;
        scope
            .until("the definition is established", async || {
                let read = definitions.get(&self.name()).await?;
                condition(&read, "Established", "True")?;
                for version in &self.versions {
                    let group_version = format!("{}/{version}", self.group);
                    scope.all(&group_version, &self.plural).list(&[]).await?;
                }
                Ok(())
            })
            .await?;
        Ok(made)
    }

    pub(crate) fn resources<'a>(&self, scope: &'a Scope) -> Collection<'a> {
        if self.is_namespaced {
            scope.own(&self.group_version(), &self.plural)
        } else {
            scope.all(&self.group_version(), &self.plural)
        }
    }

    pub(crate) fn instance(&self, name: &str) -> Value {
        json!({
            "apiVersion": self.group_version(), "kind": self.kind, "metadata": { "name": name },
        })
    }
}

pub(crate) fn definitions(scope: &Scope) -> Collection<'_> {
    scope.all(GROUP, "customresourcedefinitions")
}

fn condition(object: &Value, kind: &str, status: &str) -> Result<()> {
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], |it| it);
    let found = conditions.iter().find(|it| it["type"] == kind);
    let found = found.ok_or_else(|| anyhow!("no condition {kind} in {conditions:?}"))?;
    shows(found, &json!({ "status": status }))
}

async fn create_and_delete(scope: &Scope) -> Result<()> {
    let definition = Definition::simple(scope, "made");
    let made = definition.create(scope).await?;
    version(&made)?;
    let things = definition.resources(scope);
    things.create(&definition.instance("thing")).await?;
    definitions(scope).delete(&definition.name()).await?;
    scope
        .until("definition and resources are gone", async || {
            refused("the definition", definitions(scope).get(&definition.name()).await, 404)?;
            refused("the resources", things.list(&[]).await, 404).map(drop)
        })
        .await
}

async fn list(scope: &Scope) -> Result<()> {
    let mut made = Vec::new();
    for number in 0..4 {
        let definition = Definition::simple(scope, &format!("listed-{number}"));
        made.push(definitions(scope).create(&definition.object(scope)).await?);
    }
    let apart = Definition::simple(scope, "apart");
    let mut object = apart.object(scope);
    object["metadata"]["labels"] = json!({});
    definitions(scope).create(&object).await?;

    let list = definitions(scope).labeled(&selector(scope)).await?;
    count("definitions with the label", &list, 4)?;
    for listed in items(&list)? {
        let same_name = made.iter().find(|it| it["metadata"]["name"] == listed["metadata"]["name"]);
        let created = same_name.ok_or_else(|| anyhow!("expected no {}", listed["metadata"]))?;
        same("spec", &listed["spec"], &created["spec"])?;
    }
    definitions(scope).delete_all(&[("labelSelector", &*selector(scope))]).await?;
    scope
        .until("those with the label are gone", async || {
            count("definitions", &definitions(scope).labeled(&selector(scope)).await?, 0)
        })
        .await?;
    definitions(scope).get(&apart.name()).await.map(drop)
}

async fn status(scope: &Scope) -> Result<()> {
    let definition = Definition::simple(scope, "status");
    let made = definition.create(scope).await?;
    let definitions = definitions(scope);
    let read = definitions.get_part(&definition.name(), "status").await?;
    same("spec in the status", &read["spec"], &made["spec"])?;
    let replaced = definitions
        .change(&definition.name(), Some("status"), |it| {
            if let Some(conditions) = it["status"]["conditions"].as_array_mut() {
                conditions.push(json!({
                    "type": "Conformance", "status": "True", "reason": "Test", "message": "replaced",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                }));
            }
        })
        .await?;
    condition(&replaced, "Conformance", "True")?;
    let patch = json!([{ "op": "add", "path": "/status/conditions", "value": [{
        "type": "Patched", "status": "True", "reason": "Test", "message": "patched",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }] }]);
    let patched = definitions.patch_part(&definition.name(), "status", Patch::Json, &patch).await?;
    condition(&patched, "Patched", "True")?;
    same("spec after the status was written", &patched["spec"], &made["spec"])
}

async fn discovery(scope: &Scope) -> Result<()> {
    let groups = scope.document("/apis").await?;
    let listed = groups["groups"].as_array().map_or(&[][..], |it| it);
    let listed = listed.iter().find(|it| it["name"] == "apiextensions.k8s.io");
    let group = scope.document("/apis/apiextensions.k8s.io").await?;
    shows(&group, &json!({ "kind": "APIGroup", "name": "apiextensions.k8s.io" }))?;
    for group in [listed.unwrap_or(&Value::Null), &group] {
        let versions = group["versions"].as_array().map_or(&[][..], |it| it);
        let has_v1 = versions.iter().any(|it| it["groupVersion"] == GROUP && it["version"] == "v1");
        ensure!(has_v1, "expected {GROUP}, saw {group}");
    }
    let resources = scope.document("/apis/apiextensions.k8s.io/v1").await?;
    same("groupVersion", resources["groupVersion"].as_str(), Some(GROUP))?;
    let listed = resources["resources"].as_array().map_or(&[][..], |it| it);
    let is_there = listed.iter().any(|it| it["name"] == "customresourcedefinitions");
    ensure!(is_there, "expected customresourcedefinitions, saw {resources}");
    Ok(())
}

/// Defaults come with requests and with what is read, and what was once stored stays.
async fn defaults(scope: &Scope) -> Result<()> {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "a": { "type": "string" }, "b": { "type": "string" },
    } });
    let mut definition = Definition::new(scope, "defaults", "thing", &["v1"], schema);
    definition.is_namespaced = false;
    definition.create(scope).await?;
    let things = definition.resources(scope);
    let first = things.create(&definition.instance("first")).await?;
    same("a, without a default", &first["a"], &Value::Null)?;

    let default =
        |field: &str| format!("/spec/versions/0/schema/openAPIV3Schema/properties/{field}/default");
    let patch = json!([{ "op": "add", "path": default("a"), "value": "A" }]);
    definitions(scope).patch(&definition.name(), Patch::Json, &patch).await?;
    scope
        .until("what was stored before has the default", async || {
            shows(&things.get("first").await?, &json!({ "a": "A" }))
        })
        .await?;
    let second = things.create(&definition.instance("second")).await?;
    shows(&second, &json!({ "a": "A" }))?;
    newer(&first, &second)?;

    let patch = json!([
        { "op": "remove", "path": default("a") }, { "op": "add", "path": default("b"), "value": "B" },
    ]);
    definitions(scope).patch(&definition.name(), Patch::Json, &patch).await?;
    // The second was stored with its `a`; the first never was.
    scope
        .until("the other default counts", async || {
            shows(&things.get("second").await?, &json!({ "a": "A", "b": "B" }))?;
            shows(&things.get("first").await?, &json!({ "a": null, "b": "B" }))
        })
        .await
}

async fn watch(scope: &Scope) -> Result<()> {
    let mut definition = Definition::simple(scope, "watched");
    definition.is_namespaced = false;
    definition.create(scope).await?;
    let things = definition.resources(scope);
    let mut on_a = things.watch_from_now(&[("fieldSelector", "metadata.name=a")]).await?;
    let mut on_b = things.watch_from_now(&[("fieldSelector", "metadata.name=b")]).await?;
    let uid = |it: &Value| json!({ "metadata": { "uid": it["metadata"]["uid"] } });
    let change = json!({ "content": { "changed": true } });

    // Each watch tells of its own object alone, since each event is the next one.
    let (a, b) = (things.create(&definition.instance("a")).await?, definition.instance("b"));
    let b = things.create(&b).await?;
    on_b.expect("ADDED", &uid(&b)).await?;
    on_a.expect("ADDED", &uid(&a)).await?;
    for object in [&a, &b] {
        things.patch(name(object)?, Patch::Merge, &change).await?;
    }
    on_b.expect("MODIFIED", &change).await?;
    on_a.expect("MODIFIED", &change).await?;
    for object in [&a, &b] {
        things.delete(name(object)?).await?;
        is_going(things.get(name(object)?).await)?;
    }
    on_b.expect("DELETED", &uid(&b)).await?;
    on_a.expect("DELETED", &uid(&a)).await.map(drop)
}
