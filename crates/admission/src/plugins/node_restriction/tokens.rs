//! Tokens: a node gets those that pods on it mount, each bound to its pod.

use api::core::Pod;
use authz::Attributes;
use k8s_openapi::api::authentication::v1::TokenRequest;

use super::{Verdict, find, is_bound, unexpected_type};
use crate::attributes::Operation;
use crate::context::Context;

/// Whoever has this verb on a resource that is called like the audience may have tokens for it that
/// no pod mounts.
const VERB_AUDIENCE: &str = "request-serviceaccounts-token-audience";

pub(super) async fn validate(node: &str, context: &Context<'_>) -> Verdict {
    if context.request.operation != Operation::Create || context.request.subresource != "token" {
        return Ok(());
    }
    let no = |why: &str| Err(context.forbidden(why));
    let request = context.object_as::<TokenRequest>().ok_or_else(|| unexpected_type(context))?;
    let spec = request.spec.clone().unwrap_or_default();
    let bound = spec.bound_object_ref.unwrap_or_default();
    let (name, uid) = (bound.name.unwrap_or_default(), bound.uid.unwrap_or_default());
    let (version, kind) = (bound.api_version.as_deref(), bound.kind.as_deref());
    if version != Some("v1") || kind != Some("Pod") || name.is_empty() {
        return no("node requested token not bound to a pod");
    }
    if uid.is_empty() {
        return no("node requested token with a pod binding without a uid");
    }
    let pod = find::<Pod>(context, context.request.namespace, &name)?;
    if pod.metadata.uid.as_deref() != Some(uid.as_str()) {
        return no(&format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. \
             The object might have been deleted and then recreated"
        ));
    }
    if !is_bound(&pod, node) {
        return no("node requested token bound to a pod scheduled on a different node");
    }
    validate_audience(&pod, &spec.audiences.unwrap_or_default(), context).await
}

async fn validate_audience(pod: &Pod, audiences: &[String], context: &Context<'_>) -> Verdict {
    let audience = match audiences {
        [] => "",
        [one] => one.as_str(),
        _ => return Err(context.forbidden("node may only request 0 or 1 audiences")),
    };
    if mounts(pod, audience) {
        return Ok(());
    }
    // Whole, with its slashes: an audience is often a URL.
    let attributes =
        Attributes { resource: audience.to_owned(), ..Attributes::resource(VERB_AUDIENCE, "", "") };
    let attributes = attributes.within(context.request.namespace, context.request.name);
    if context.authorizer.decide(context.request.user, &attributes).await.is_allowed() {
        return Ok(());
    }
    Err(context.forbidden(&format!(
        "{} is not authorized to request tokens for audience {audience:?}",
        context.request.user.name
    )))
}

/// Whether a volume of the pod has a token for this audience.
fn mounts(pod: &Pod, audience: &str) -> bool {
    let volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
    volumes
        .flat_map(|it| &it.projected)
        .flat_map(|it| it.sources.iter().flatten())
        .flat_map(|it| &it.service_account_token)
        .any(|it| it.audience.as_deref().unwrap_or_default() == audience)
}
