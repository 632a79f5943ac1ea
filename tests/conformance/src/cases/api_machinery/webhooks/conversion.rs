//! Versions of a custom resource that a webhook in a pod converts: v1 has `hostPort` where v2 has
//! `host` and `port`.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::hook::Hook;
use crate::cases::api_machinery::custom_resources::{Definition, anything, definitions};
use crate::client::{Collection, Patch};
use crate::expect::{items, shows};
use crate::scope::Scope;

pub(super) struct Converted {
    definition: Definition,
}

impl Converted {
    /// A definition whose objects the webhook converts, as soon as it is asked.
    async fn create(scope: &Scope, hook: &Hook<'_>, group: &str) -> Result<Self> {
        Self::create_with(scope, hook, group, &[]).await
    }

    /// The same after these changes of the definition, which are operations of a JSON patch.
    pub(super) async fn create_with(
        scope: &Scope,
        hook: &Hook<'_>,
        group: &str,
        changes: &[Value],
    ) -> Result<Self> {
        let definition = Definition::new(scope, group, "address", &["v1", "v2"], anything());
        definition.create(scope).await?;
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": hook.client_config("/convert"),
                "conversionReviewVersions": ["v1", "v1beta1"],
            },
        });
        let conversion = json!({ "op": "add", "path": "/spec/conversion", "value": conversion });
        let changes = json!([changes, &[conversion]].concat());
        definitions(scope).patch(&definition.name(), Patch::Json, &changes).await?;
        let converted = Self { definition };
        let (v1, v2) = (converted.of(scope, "v1"), converted.of(scope, "v2"));
        let probe = converted.instance("v1", "probe", json!({ "hostPort": "probe:1" }));
        v1.create(&probe).await?;
        scope
            .until("the webhook is asked", async || {
                shows(&v2.get("probe").await?, &json!({ "host": "probe", "port": "1" }))
            })
            .await?;
        v1.delete("probe").await?;
        Ok(converted)
    }

    pub(super) fn of<'a>(&self, scope: &'a Scope, version: &str) -> Collection<'a> {
        scope.own(&format!("{}/{version}", self.definition.group), &self.definition.plural)
    }

    pub(super) fn instance(&self, version: &str, name: &str, fields: Value) -> Value {
        let mut object = json!({
            "apiVersion": format!("{}/{version}", self.definition.group),
            "kind": self.definition.kind, "metadata": { "name": name },
        });
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
            object.extend(fields);
        }
        object
    }
}

pub(super) async fn one_version_to_the_other(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let converted = Converted::create(scope, &hook, "converted").await?;
    let (v1, v2) = (converted.of(scope, "v1"), converted.of(scope, "v2"));
    let made = converted.instance("v1", "one", json!({ "hostPort": "localhost:8080" }));
    v1.create(&made).await?;
    let read = v2.get("one").await?;
    shows(&read, &json!({ "host": "localhost", "port": "8080" }))?;
    ensure!(read["hostPort"].is_null(), "what v1 alone has: {read}");
    // And back.
    v2.patch("one", Patch::Merge, &json!({ "port": "9090" })).await?;
    shows(&v1.get("one").await?, &json!({ "hostPort": "localhost:9090" }))
}

pub(super) async fn mixed_list(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let converted = Converted::create(scope, &hook, "mixed").await?;
    let (v1, v2) = (converted.of(scope, "v1"), converted.of(scope, "v2"));
    let first = converted.instance("v1", "one", json!({ "hostPort": "localhost:8080" }));
    v1.create(&first).await?;
    let patch = json!([
        { "op": "replace", "path": "/spec/versions/0/storage", "value": false },
        { "op": "replace", "path": "/spec/versions/1/storage", "value": true },
    ]);
    definitions(scope).patch(&converted.definition.name(), Patch::Json, &patch).await?;
    let second = converted.instance("v1", "two", json!({ "hostPort": "localhost:8081" }));
    v1.create(&second).await?;
    for (resource, expected) in [
        (&v1, [json!({ "hostPort": "localhost:8080" }), json!({ "hostPort": "localhost:8081" })]),
        (
            &v2,
            [
                json!({ "host": "localhost", "port": "8080" }),
                json!({ "host": "localhost", "port": "8081" }),
            ],
        ),
    ] {
        scope
            .until("all are in the version of the list", async || {
                let list = resource.list(&[]).await?;
                let items = items(&list)?;
                ensure!(items.len() == 2, "two were made: {list}");
                items.iter().zip(&expected).try_for_each(|(item, expected)| shows(item, expected))
            })
            .await?;
    }
    Ok(())
}
