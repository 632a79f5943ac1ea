//! What every kind must do: be discovered, created, read, listed, watched, patched in four ways,
//! replaced, deleted alone and with others; and its status apart from the rest.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::client::{Collection, Patch};
use crate::events::Events;
use crate::expect::{self, count, items, name, newer, refused, same, shows};
use crate::scope::{Scope, named, selector};

/// A kind, and what objects of it may look like.
pub(crate) struct Operations {
    pub(crate) group_version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) is_namespaced: bool,
    /// Without `metadata`.
    pub(crate) object: Value,
    /// What can be changed in it, as a merge patch; nothing, where all is fixed.
    pub(crate) change: Value,
    pub(crate) status: Option<Status>,
    /// Names, where they cannot be any.
    pub(crate) names: Option<[String; 3]>,
}

/// What the status of an object can be.
pub(crate) struct Status {
    /// Twice, to tell a patch from a replacement.
    pub(crate) values: [Value; 2],
    /// Whether annotations can be written with it.
    pub(crate) takes_annotations: bool,
}

impl Operations {
    pub(crate) async fn check(&self, scope: &Scope) -> Result<()> {
        self.discovered(scope).await?;
        let objects = self.collection(scope);
        let made = self.create(scope, &objects).await?;
        let mut watches = self.list_and_watch(scope, &objects, &made).await?;
        let patched = self.patch(&objects, &made).await?;
        self.replace(&objects, &patched).await?;
        for watch in &mut watches {
            self.was_watched(watch, &made).await?;
        }
        if let Some(status) = &self.status {
            self.status(&objects, &made, status).await?;
        }
        self.delete(scope, &objects, &made, &mut watches).await
    }

    fn collection<'a>(&self, scope: &'a Scope) -> Collection<'a> {
        if self.is_namespaced {
            scope.own(self.group_version, self.resource)
        } else {
            scope.all(self.group_version, self.resource)
        }
    }

    /// In the list of groups, in the group, and in its version with the verbs.
    async fn discovered(&self, scope: &Scope) -> Result<()> {
        let mut path = format!("/api/{}", self.group_version);
        if let Some((group, version)) = self.group_version.split_once('/') {
            let has_version = |it: &Value| {
                let versions = it["versions"].as_array();
                versions.is_some_and(|it| it.iter().any(|it| it["version"] == version))
            };
            let groups = scope.document("/apis").await?;
            let listed = groups["groups"].as_array().into_iter().flatten();
            let listed = listed.filter(|it| it["name"] == group).any(has_version);
            ensure!(listed, "/apis: expected {}, saw {groups}", self.group_version);
            let alone = scope.document(&format!("/apis/{group}")).await?;
            ensure!(has_version(&alone), "/apis/{group}: expected {version}, saw {alone}");
            path = format!("/apis/{}", self.group_version);
        }
        let resources = scope.document(&path).await?;
        let find = |name: &str| {
            let resources = resources["resources"].as_array().into_iter().flatten();
            resources.into_iter().find(|it| it["name"] == name).unwrap_or(&Value::Null)
        };
        let main = find(self.resource);
        shows(main, &json!({ "kind": self.kind, "namespaced": self.is_namespaced }))?;
        let verbs = main["verbs"].as_array();
        for verb in VERBS {
            let has = verbs.is_some_and(|it| it.iter().any(|it| it == verb));
            ensure!(has, "{path}: expected {} with {verb}, saw {main}", self.resource);
        }
        if self.status.is_some() {
            let status = find(&format!("{}/status", self.resource));
            ensure!(status["kind"] == self.kind, "{path}: expected a status, saw {status}");
        }
        Ok(())
    }

    fn object(&self, scope: &Scope, metadata: Value) -> Value {
        let mut object = self.object.clone();
        object["apiVersion"] = json!(self.group_version);
        object["kind"] = json!(self.kind);
        object["metadata"] = metadata;
        object["metadata"]["labels"] = named(scope, "")["labels"].clone();
        object
    }

    /// Three, one of them with a name that the server chose.
    async fn create(&self, scope: &Scope, objects: &Collection<'_>) -> Result<Value> {
        let names = self.names.clone();
        let names = names.unwrap_or_else(|| ["a", "b", "c"].map(|it| scope.unique(it)));
        let first = match &self.names {
            Some(names) => json!({ "name": names[0] }),
            None => json!({ "generateName": "generated-" }),
        };
        let strict = [("fieldValidation", "Strict")];
        let made = objects.create_with(&self.object(scope, first), &strict).await?;
        if self.names.is_none() {
            let chosen = name(&made)?;
            ensure!(chosen.len() > 10 && chosen.starts_with("generated-"), "name: saw {chosen:?}");
        }
        objects.create(&self.object(scope, json!({ "name": names[1] }))).await?;
        let third = self.object(scope, json!({ "name": names[2] }));
        let made = objects.create(&third).await?;
        let again = refused("creating the same again", objects.create(&third).await, 409)?;
        same("reason", again.reason(), "AlreadyExists")?;
        let read = objects.get(&names[2]).await?;
        same("uid", &read["metadata"]["uid"], &made["metadata"]["uid"])?;
        shows(&read, &json!({ "apiVersion": self.group_version, "kind": self.kind }))?;
        expect::version(&read)?;
        Ok(made)
    }

    /// In the namespace and in all of them.
    async fn list_and_watch<'a>(
        &self,
        scope: &'a Scope,
        objects: &Collection<'a>,
        made: &Value,
    ) -> Result<Vec<Events<'a>>> {
        let mut watches = Vec::new();
        let mut scopes = vec![objects.clone()];
        if self.is_namespaced {
            scopes.push(scope.all(self.group_version, self.resource));
        }
        for objects in scopes {
            let list = objects.labeled(&selector(scope)).await?;
            count("three were made", &list, 3)?;
            let found =
                items(&list)?.iter().any(|it| it["metadata"]["name"] == *name(made).unwrap_or(""));
            ensure!(found, "expected {} in the list, saw {list}", name(made)?);
            let version = expect::version(&list)?.to_string();
            let from = [("resourceVersion", &*version), ("labelSelector", &*selector(scope))];
            watches.push(objects.watch(&from).await?);
        }
        Ok(watches)
    }

    async fn patch(&self, objects: &Collection<'_>, made: &Value) -> Result<Value> {
        let name = name(made)?;
        let mut patch = self.change.clone();
        patch["metadata"]["annotations"] = json!({ "merged": "yes" });
        let merged = objects.patch(name, Patch::Merge, &patch).await?;
        shows(&merged, &patch)?;
        newer(made, &merged)?;
        let patch = json!({ "metadata": { "annotations": { "strategic": "yes" } } });
        let strategic = objects.patch(name, Patch::Strategic, &patch).await?;
        shows(&strategic, &patch)?;
        newer(&merged, &strategic)?;
        let patch =
            json!([{ "op": "add", "path": "/metadata/annotations/listed", "value": "yes" }]);
        objects.patch(name, Patch::Json, &patch).await?;
        let apply = json!({
            "apiVersion": self.group_version, "kind": self.kind,
            "metadata": { "name": name, "annotations": { "applied": "yes" } },
        });
        let applied = objects.patch(name, Patch::Apply, &apply).await?;
        let all = json!({ "merged": "yes", "strategic": "yes", "listed": "yes", "applied": "yes" });
        shows(&applied, &json!({ "metadata": { "annotations": all } }))?;
        newer(&strategic, &applied)?;
        Ok(applied)
    }

    /// Back to what it was, but for an annotation.
    async fn replace(&self, objects: &Collection<'_>, patched: &Value) -> Result<()> {
        let replaced = objects
            .change(name(patched)?, None, |it| {
                put(it, &self.object);
                it["metadata"]["annotations"]["replaced"] = json!("yes");
            })
            .await?;
        let annotations = json!({ "merged": "yes", "replaced": "yes" });
        shows(&replaced, &json!({ "metadata": { "annotations": annotations } }))?;
        shows(&replaced, &self.object)?;
        newer(patched, &replaced)
    }

    async fn was_watched(&self, watch: &mut Events<'_>, made: &Value) -> Result<()> {
        let change = |annotation: &str| {
            let annotations = json!({ annotation: "yes" });
            json!({
                "kind": self.kind, "apiVersion": self.group_version,
                "metadata": { "uid": made["metadata"]["uid"], "annotations": annotations },
            })
        };
        let mut before = made.clone();
        for annotation in ["merged", "strategic", "listed", "applied", "replaced"] {
            let seen = watch.find("MODIFIED", &change(annotation), &["MODIFIED"]).await?;
            newer(&before, &seen)?;
            before = seen;
        }
        Ok(())
    }

    async fn status(
        &self,
        objects: &Collection<'_>,
        made: &Value,
        Status { values: [first, second], takes_annotations }: &Status,
    ) -> Result<()> {
        let name = name(made)?;
        let read = objects.get_part(name, "status").await?;
        shows(&read, &json!({ "kind": self.kind, "apiVersion": self.group_version }))?;
        same("uid of the status", &read["metadata"]["uid"], &made["metadata"]["uid"])?;
        let mut patch = json!({ "status": first });
        if *takes_annotations {
            patch["metadata"]["annotations"] = json!({ "status": "patched" });
        }
        let patched = objects.patch_part(name, "status", Patch::Merge, &patch).await?;
        shows(&patched, &patch)?;
        // What is not the status stays.
        shows(&patched, &self.object)?;
        let replaced =
            objects.change(name, Some("status"), |it| put(&mut it["status"], second)).await?;
        shows(&replaced, &json!({ "status": second }))?;
        let read = objects.get(name).await?;
        // Unless a controller was faster.
        let is_same = expect::version(&read)? == expect::version(&replaced)?;
        if is_same { shows(&read, &json!({ "status": second })) } else { Ok(()) }
    }

    async fn delete(
        &self,
        scope: &Scope,
        objects: &Collection<'_>,
        made: &Value,
        watches: &mut [Events<'_>],
    ) -> Result<()> {
        let name = name(made)?;
        objects.delete(name).await?;
        let read = objects.get(name).await;
        let is_gone = read.is_err();
        expect::is_going(read)?;
        if is_gone {
            let uid = json!({ "metadata": { "uid": made["metadata"]["uid"] } });
            for watch in watches {
                watch.find("DELETED", &uid, &["MODIFIED"]).await?;
            }
        }
        let selector = selector(scope);
        self.remaining(objects, &selector, 2).await?;
        objects.delete_all(&[("labelSelector", &*selector)]).await?;
        self.remaining(objects, &selector, 0).await
    }

    /// So many are there and do not wait for finalizers.
    async fn remaining(
        &self,
        objects: &Collection<'_>,
        selector: &str,
        expected: usize,
    ) -> Result<()> {
        let list = objects.labeled(selector).await?;
        let left = items(&list)?.iter().filter(|it| !expect::is_terminating(it)).count();
        same(&format!("number of {} that are left", self.resource), left, expected)
    }
}

/// Puts the fields of one object into another; lists as a whole.
fn put(object: &mut Value, fields: &Value) {
    match fields.as_object() {
        Some(fields) if object.is_object() || object.is_null() => {
            for (key, value) in fields {
                put(&mut object[key], value);
            }
        }
        _ => *object = fields.clone(),
    }
}

/// Deletes by label: what has it goes, and what has it not stays.
pub(crate) async fn deletes_a_collection(
    scope: &Scope,
    objects: &Collection<'_>,
    object: &Value,
) -> Result<()> {
    for (name, set) in [("one", "goes"), ("two", "goes"), ("three", "goes"), ("four", "stays")] {
        let mut object = object.clone();
        object["metadata"] = json!({ "name": scope.unique(name), "labels": { "set": set } });
        objects.create(&object).await?;
    }
    count("the set", &objects.labeled("set=goes").await?, 3)?;
    objects.delete_all(&[("labelSelector", "set=goes")]).await?;
    count("the set, after it was deleted", &objects.labeled("set=goes").await?, 0)?;
    count("the others", &objects.labeled("set=stays").await?, 1)
}

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
