//! Mirror pods: what stands for static pods in the API, so that others see them.

use apimachinery::ApiError;
use client::{Client, DeleteOptions, Preconditions};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub(crate) const ANNOTATION_MIRROR: &str = "kubernetes.io/config.mirror";
pub(crate) const ANNOTATION_HASH: &str = "kubernetes.io/config.hash";
pub(crate) const ANNOTATION_SOURCE: &str = "kubernetes.io/config.source";
pub(crate) const ANNOTATION_SEEN: &str = "kubernetes.io/config.seen";

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

pub(crate) fn is_mirror(pod: &Pod) -> bool {
    annotation(pod, ANNOTATION_MIRROR).is_some()
}

/// Whether `mirror` shows this very static pod.
pub(crate) fn is_of(mirror: &Pod, of: &Pod) -> bool {
    annotation(mirror, ANNOTATION_MIRROR) == annotation(of, ANNOTATION_HASH)
        && mirror.metadata.deletion_timestamp.is_none()
}

/// The mirror belongs to the Node, so that it goes with it.
pub(crate) fn of(pod: &Pod, node: &Node) -> Pod {
    let mut mirror = pod.clone();
    let hash = annotation(pod, ANNOTATION_HASH).unwrap_or_default().to_owned();
    let annotations = mirror.metadata.annotations.get_or_insert_default();
    annotations.insert(ANNOTATION_MIRROR.to_owned(), hash);
    mirror.metadata.uid = None;
    mirror.metadata.resource_version = None;
    mirror.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.metadata.name.clone().unwrap_or_default(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    mirror.status = None;
    mirror
}

/// Removes what is there under this name, if it is a mirror of something else, and creates the
/// right one.
pub(crate) async fn put(client: &Client, mirror: Pod, stale: Option<&Pod>) -> Result<(), ApiError> {
    if let Some(stale) = stale {
        remove(client, stale).await?;
    }
    match client.api::<Pod>().create(mirror).await {
        Err(err) if !err.is_already_exists() => Err(err),
        _ => Ok(()),
    }
}

pub(crate) async fn remove(client: &Client, mirror: &Pod) -> Result<(), ApiError> {
    let meta = &mirror.metadata;
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        preconditions: Preconditions { uid: meta.uid.clone(), resource_version: None },
        ..DeleteOptions::default()
    };
    let (namespace, name) =
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    match client.api::<Pod>().delete(namespace, name, options).await {
        Err(err) if !(err.is_not_found() || err.is_conflict()) => Err(err),
        _ => Ok(()),
    }
}
