//! Who controls an object: owner references, and indexes by them.

use api::{Identified, Resource};
use apimachinery::ObjectKey;
use client::Api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use reconcile::{Failed, Outcome as _};

/// Index: the uid of the controller that an object belongs to.
pub(crate) const BY_CONTROLLER: &str = "controller-uid";
/// Index: the namespace of an object that belongs to no controller.
pub(crate) const ORPHANS: &str = "orphans-by-namespace";

/// The reference that makes `owner` the controller of a dependent.
pub(crate) fn controller_reference<T: Resource>(owner: &T) -> OwnerReference {
    let facts = <T as Resource>::FACTS;
    let api_version = if facts.group.is_empty() {
        facts.version.to_owned()
    } else {
        format!("{}/{}", facts.group, facts.version)
    };
    OwnerReference {
        api_version,
        kind: facts.kind.to_owned(),
        name: owner.metadata().name.clone().unwrap_or_default(),
        uid: uid(owner.metadata()).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub(crate) fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

pub(crate) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

pub(crate) fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

/// The key of an object's namespace, when the object has this name: for those who keep one object
/// per namespace.
pub(crate) fn namespace_of_named(meta: &ObjectMeta, wanted: &str) -> Option<ObjectKey> {
    (name(meta) == wanted).then(|| ObjectKey::cluster(namespace(meta)))
}

pub(crate) fn is_deleting(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

pub(crate) fn index_by_controller<T: Identified>(object: &T) -> Vec<String> {
    object.controller().map(|it| it.uid.clone()).into_iter().collect()
}

pub(crate) fn index_orphans<T: Identified>(object: &T) -> Vec<String> {
    match object.controller() {
        Some(_) => Vec::new(),
        None => vec![object.namespace().to_owned()],
    }
}

/// Whether the server still has an owner, and nobody deletes it. The cache may show one that is
/// gone, or was made again under the same name: nothing must be given to it.
pub(crate) async fn is_still_there<T: Resource>(
    api: &Api<T>,
    key: &ObjectKey,
    cached: &T,
) -> Result<bool, Failed> {
    let live = api.get(&key.namespace, &key.name).await.unless_gone();
    let live = live.map_err(Failed::to::<T>("look for", key))?;
    let is_same = |it: &T| it.metadata().uid == cached.metadata().uid;
    Ok(live.is_some_and(|it| is_same(&it) && !is_deleting(it.metadata())))
}

/// A strategic merge patch that makes `reference` an owner of the object with `dependent_uid`.
pub(crate) fn adoption_patch(reference: &OwnerReference, dependent_uid: &str) -> bytes::Bytes {
    let patch = serde_json::json!({
        "metadata": {
            "uid": dependent_uid,
            "ownerReferences": [{
                "apiVersion": reference.api_version,
                "kind": reference.kind,
                "name": reference.name,
                "uid": reference.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
    });
    patch.to_string().into()
}

/// A strategic merge patch that takes the owner `owner_uid` away from an object.
pub(crate) fn release_patch(owner_uid: &str, dependent_uid: &str) -> bytes::Bytes {
    let patch = serde_json::json!({
        "metadata": {
            "uid": dependent_uid,
            "ownerReferences": [{"$patch": "delete", "uid": owner_uid}],
        },
    });
    patch.to_string().into()
}
