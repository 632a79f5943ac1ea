//! Checks the expressions of ValidatingAdmissionPolicies against the schemas of the kinds that they
//! are for, and writes what it finds into their status. It changes nothing of what policies do.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::admissionregistration::ValidatingAdmissionPolicy;
use api::admissionregistration::expressions::typing::{self, Known};
use apimachinery::field::Path;
use apimachinery::schema::{Schema, SchemaRef};
use apimachinery::{FieldErrors, GroupVersionKind, GroupVersionResource, ObjectKey};
use client::{Api, Client, PatchKind};
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};
use serde_json::{Value, json};

pub(crate) use self::garbage::plan_any;
use crate::flags::at_least_one;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: NAME,
    aliases: &[],
    identity: NAME,
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

const NAME: &str = "validatingadmissionpolicy-status-controller";

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Policies whose expressions are checked at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_validating_admission_policy_status_syncs: usize,
}

struct Checks {
    policies: Indexer<ValidatingAdmissionPolicy>,
    own_writes: Arc<OwnWrites<ValidatingAdmissionPolicy>>,
    api: Api<ValidatingAdmissionPolicy>,
    client: Client,
    built_in: Vec<Arc<dyn api::Kind>>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = Checks {
        policies: controller.cache(),
        own_writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        client: startup.client.clone(),
        built_in: api::kinds(),
    };
    let settings = startup.settings::<Settings>();
    controller
        .watches(itself::<ValidatingAdmissionPolicy>)
        .workers(settings.concurrent_validating_admission_policy_status_syncs)
        .run(reconciler);
}

impl Reconciler for Checks {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(policy) = self.policies.get(key) else { return Ok(Next::Settled) };
        let Some(spec) = policy.spec.as_ref().filter(|_| plan::is_due(&policy)) else {
            return Ok(Next::Settled);
        };
        let mut objects: Vec<Known> = Vec::new();
        for resource in plan::resources(&policy) {
            objects.extend(self.find(&resource).await);
        }
        let params = match &spec.param_kind {
            Some(kind) => {
                let text = |it: &Option<String>| it.clone().unwrap_or_default();
                self.schema_of(&text(&kind.api_version), &text(&kind.kind)).await
            }
            None => None,
        };
        let warnings = typing::warnings(spec, &objects, params.as_ref());
        let shown = |it: &k8s_openapi::api::admissionregistration::v1::ExpressionWarning| json!({"fieldRef": it.field_ref, "warning": it.warning});
        let found: Vec<Value> = warnings.iter().map(shown).collect();
        // With its uid: a policy that was made anew since is another one. What there is nothing to
        // say of is taken away.
        let patch = json!({
            "metadata": { "uid": policy.metadata.uid },
            "status": {
                "observedGeneration": policy.metadata.generation,
                "typeChecking": { "expressionWarnings": (!found.is_empty()).then_some(found) },
            },
        });
        let body = patch.to_string().into();
        let written = self.api.patch_status("", &key.name, PatchKind::Merge, body).await;
        let failed = Failed::to::<ValidatingAdmissionPolicy>("patch the status of", key);
        if let Some(written) = written.unless_replaced().map_err(failed)? {
            self.own_writes.changed(key, &policy, written.meta());
        }
        Ok(Next::Settled)
    }
}

impl Checks {
    /// The kind of a resource with its schema. One that is not there, or not yet, is not checked.
    async fn find(&self, resource: &GroupVersionResource) -> Option<Known> {
        let found = self.built_in.iter().find(|it| it.names().gvr() == *resource);
        if let Some(kind) = found {
            return Some(Known { kind: kind.names().gvk(), schema: kind.schema() });
        }
        let path = format!("/apis/{}/{}", resource.group, resource.version);
        let listed = self.document(&path).await?;
        let mut all = listed["resources"].as_array()?.iter();
        let kind = all.find(|it| it["name"] == resource.resource.as_str())?["kind"].as_str()?;
        let kind = GroupVersionKind::new(&*resource.group, &*resource.version, kind);
        let schema = self.schema_of(&kind.api_version(), &kind.kind).await?;
        Some(Known { kind, schema })
    }

    async fn schema_of(&self, api_version: &str, kind: &str) -> Option<SchemaRef> {
        let found = self
            .built_in
            .iter()
            .find(|it| it.names().api_version() == api_version && it.names().kind == kind);
        if let Some(kind) = found {
            return Some(kind.schema());
        }
        let (group, version) = api_version.split_once('/')?;
        let document = self.document(&format!("/openapi/v3/apis/{api_version}")).await?;
        let is_it = |it: &&Value| {
            let kinds = it["x-kubernetes-group-version-kind"].as_array();
            kinds
                .into_iter()
                .flatten()
                .any(|it| it["group"] == group && it["version"] == version && it["kind"] == kind)
        };
        let schema = document["components"]["schemas"].as_object()?.values().find(is_it)?;
        let mut errors = FieldErrors::new();
        Some(Schema::from_open_api(schema, &Path::new("schema"), &mut errors))
    }

    async fn document(&self, path: &str) -> Option<Value> {
        let bytes = self.client.get_path(path).await.ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}
