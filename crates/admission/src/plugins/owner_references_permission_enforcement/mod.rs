//! Who says that an object belongs to another may delete the object; who says that this keeps the
//! owner from being deleted may do that to the owner.

mod owners;
#[cfg(test)]
mod tests;

use api::ApiObject;
use apimachinery::ApiError;
use authz::{Attributes as Permission, Decision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

pub struct OwnerReferencesPermissionEnforcement;

fn references(object: &dyn ApiObject) -> &[OwnerReference] {
    object.meta().owner_references.as_deref().unwrap_or_default()
}

/// References that keep their owner, and did not before.
fn newly_blocking<'a>(
    new: &'a [OwnerReference],
    old: &[OwnerReference],
) -> Vec<&'a OwnerReference> {
    let is_blocking = |it: &&OwnerReference| it.block_owner_deletion == Some(true);
    let was = |uid: &str| old.iter().filter(is_blocking).any(|it| it.uid == uid);
    new.iter().filter(is_blocking).filter(|it| !was(&it.uid)).collect()
}

fn reason(decision: &Decision) -> &str {
    match decision {
        Decision::Allow { reason } | Decision::NoOpinion { reason } => reason,
    }
}

/// Upstream shows an error of the authorizer last, of which there is none here.
fn refusal(context: &Context<'_>, what: &str, decision: &Decision) -> ApiError {
    context.forbidden(&format!("{what}: {}, <nil>", reason(decision)))
}

async fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let Some(object) = context.object() else { return Ok(()) };
    let new = references(object);
    let old = context.old().map(|it| references(it.object())).unwrap_or_default();
    if new == old {
        return Ok(());
    }
    let (request, user) = (&context.request, context.request.user);
    // Who makes something could have left it.
    if request.operation != Operation::Create {
        let names = request.kind.names();
        let permission = Permission {
            verb: "delete".to_owned(),
            group: names.group.clone(),
            version: names.version.clone(),
            resource: names.plural.clone(),
            subresource: request.subresource.to_owned(),
            namespace: request.namespace.to_owned(),
            name: request.name.to_owned(),
            is_resource: true,
            ..Permission::default()
        };
        let decision = context.authorizer.decide(user, &permission).await;
        if !decision.is_allowed() {
            let what = "cannot set an ownerRef on a resource you can't delete";
            return Err(refusal(context, what, &decision));
        }
    }
    let blocking = newly_blocking(new, old);
    if blocking.is_empty() || context.authorizer.decide(user, &owners::any()).await.is_allowed() {
        return Ok(());
    }
    for reference in blocking {
        let OwnerReference { api_version, kind, .. } = reference;
        let permissions = owners::permissions(context, reference);
        if permissions.is_empty() {
            return Err(context.forbidden(&format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}: no matches for kind {kind:?} in version {api_version:?}"
            )));
        }
        for permission in permissions {
            let decision = context.authorizer.decide(user, &permission).await;
            if !decision.is_allowed() {
                let what = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";
                return Err(refusal(context, what, &decision));
            }
        }
    }
    Ok(())
}

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        // The status of a pod does not change whose it is.
        phase == Phase::Validate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && !request.is("", "pods", "status")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(async move { validate(context).await.map(|()| None) })
    }
}
