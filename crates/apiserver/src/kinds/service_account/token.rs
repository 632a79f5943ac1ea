//! Tokens of service accounts, bound to what they end with.

use std::sync::Arc;

use api::authentication::TokenRequest;
use api::core::{Node, Pod, Secret, ServiceAccount};
use api::{Lookup, Resource};
use apimachinery::{ApiError, FieldErrors, GroupKind, GroupResource, ObjectKey, Path};
use authn::tokens::{Bound, Reference, TokenIssuer};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequestStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pipeline::{self, Core, Outcome, Request};

/// POST serviceaccounts/NAME/token.
pub(super) async fn issue(
    issuer: &TokenIssuer,
    core: &Core,
    request: &mut Request,
) -> Result<(Outcome, u16), ApiError> {
    let token: TokenRequest = pipeline::body_as(request)?;
    let (mut token, valid) = pipeline::admit_action(core, request, token).await?;
    let lookup: &dyn Lookup = core.cache.as_ref();
    let key = ObjectKey::new(request.namespace(), request.name());
    validate_place(&key, &token)?;
    let account = lookup.get::<ServiceAccount>(&key).ok_or_else(|| request.not_found())?;
    validate_uid(&account, &token)?;
    token.apply_defaults();
    let mut errors = FieldErrors::new();
    token.validate(&mut errors);
    if !errors.is_empty() {
        return Err(ApiError::invalid(&token_kind(), "", &errors));
    }
    let spec = token.spec.get_or_insert_default();
    let seconds = spec.expiration_seconds.unwrap_or_default();
    let bound = spec.bound_object_ref.as_ref();
    let bound = bound.map(|it| bound_to(lookup, &key, it)).transpose()?;
    let issued = issuer
        .issue(authn::tokens::Wanted {
            namespace: request.namespace().to_owned(),
            service_account: Reference {
                name: request.name().to_owned(),
                uid: account.metadata.uid.clone().unwrap_or_default(),
            },
            audiences: spec.audiences.clone().unwrap_or_default(),
            expiration_seconds: seconds,
            bound,
        })
        .map_err(|err| ApiError::internal("the token cannot be signed").with_source(err))?;
    valid.keep();
    spec.audiences = Some(issued.audiences);
    spec.expiration_seconds = Some(seconds);
    token.metadata.name = Some(request.name().to_owned());
    token.metadata.namespace = Some(request.namespace().to_owned());
    token.metadata.uid.clone_from(&account.metadata.uid);
    token.status = Some(TokenRequestStatus {
        token: Some(issued.token),
        expiration_timestamp: Some(Time(issued.expiration)),
    });
    Ok((Outcome::Object(pipeline::loose(Resource::encode(&token))), 201))
}

/// The body may repeat what the path says.
fn validate_place(key: &ObjectKey, token: &TokenRequest) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let mut validate = |field: &str, said: Option<&String>, meant: &str| {
        if let Some(said) = said.filter(|it| !it.is_empty() && *it != meant) {
            let why = format!("must match the service account {field} if specified");
            errors.invalid(&Path::new("metadata").child(field), said.as_str(), &why);
        }
    };
    validate("name", token.metadata.name.as_ref(), &key.name);
    validate("namespace", token.metadata.namespace.as_ref(), &key.namespace);
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&token_kind(), &key.name, &errors))
}

fn token_kind() -> GroupKind {
    let facts = TokenRequest::FACTS;
    GroupKind { group: facts.group.to_owned(), kind: facts.kind.to_owned() }
}

fn validate_uid(account: &ServiceAccount, token: &TokenRequest) -> Result<(), ApiError> {
    let meant = account.metadata.uid.as_deref().unwrap_or_default();
    match token.metadata.uid.as_deref() {
        Some(said) if !said.is_empty() && said != meant => {
            let why = format!(
                "the UID in the token request ({said}) does not match the UID of the service account ({meant})"
            );
            let facts = TokenRequest::FACTS;
            let resource = GroupResource::new(facts.group, facts.kind);
            let name = account.metadata.name.as_deref().unwrap_or_default();
            Err(ApiError::conflict(&resource, name, &why))
        }
        _ => Ok(()),
    }
}

/// What the token of `account` ends with. A pod lends its end, and so its place, to its own account
/// alone.
fn bound_to(
    lookup: &(dyn Lookup + 'static),
    account: &ObjectKey,
    reference: &BoundObjectReference,
) -> Result<Bound, ApiError> {
    let namespace = account.namespace.as_str();
    let name = reference.name.clone().unwrap_or_default();
    let version = reference.api_version.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().filter(|_| !version.contains('/'));
    match kind {
        Some("Pod") => {
            let pod = find::<Pod>(lookup, namespace, &name, reference)?;
            let runs_as = pod.1.spec.as_ref().and_then(|it| it.service_account_name.as_deref());
            if runs_as != Some(account.name.as_str()) {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    account.name
                )));
            }
            let node = pod.1.spec.as_ref().and_then(|it| it.node_name.clone());
            let node = node.map(|name| {
                let node = lookup.get::<Node>(&ObjectKey::cluster(name.as_str()));
                let uid = node.and_then(|it| it.metadata.uid.clone()).unwrap_or_default();
                Reference { name, uid }
            });
            Ok(Bound::Pod { pod: pod.0, node })
        }
        Some("Secret") => Ok(Bound::Secret(find::<Secret>(lookup, namespace, &name, reference)?.0)),
        Some("Node") => Ok(Bound::Node(find::<Node>(lookup, "", &name, reference)?.0)),
        _ => {
            let kind = reference.kind.as_deref().unwrap_or_default();
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {group}/{version}, Kind={kind}"
            )))
        }
    }
}

fn find<T: Resource>(
    lookup: &(dyn Lookup + 'static),
    namespace: &str,
    name: &str,
    reference: &BoundObjectReference,
) -> Result<(Reference, Arc<T>), ApiError> {
    let resource = GroupResource::new(T::FACTS.group, T::FACTS.plural);
    let object = lookup
        .get::<T>(&ObjectKey::new(namespace, name))
        .ok_or_else(|| ApiError::not_found(&resource, name))?;
    let uid = object.metadata().uid.clone().unwrap_or_default();
    if reference.uid.as_ref().is_some_and(|it| !it.is_empty() && *it != uid) {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            reference.uid.as_deref().unwrap_or_default()
        );
        return Err(ApiError::conflict(&GroupResource::new("", T::FACTS.kind), name, &why));
    }
    Ok((Reference { name: name.to_owned(), uid }, object))
}
