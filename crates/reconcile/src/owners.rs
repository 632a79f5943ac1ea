//! Who controls an object, by its owner references.

use api::Resource;
use api::object::key_of;
use apimachinery::{GroupVersion, ObjectKey};
use informer::Indexer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The key of an object itself: what most controllers work on.
pub fn itself<T: Resource>(object: &T) -> Option<ObjectKey> {
    Some(key_of(object.metadata()))
}

/// The one owner that manages the object.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|it| it.controller == Some(true))
}

/// The key of the controlling owner of kind `Owner`, when the cache has it: an owner that was made again under the same name
/// is another one. Who is missing in the cache is worked on when it shows up there.
pub fn owner_key<Owner: Resource>(owners: &Indexer<Owner>, meta: &ObjectMeta) -> Option<ObjectKey> {
    let reference = controller_of(meta).filter(|it| is_of_kind::<Owner>(it))?;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let key = ObjectKey::new(namespace, reference.name.clone());
    let owner = owners.get(&key)?;
    (owner.metadata().uid.as_ref() == Some(&reference.uid)).then_some(key)
}

/// Any version of the group is as good.
fn is_of_kind<T: Resource>(reference: &OwnerReference) -> bool {
    let group = GroupVersion::parse(&reference.api_version).map(|it| it.group);
    reference.kind == T::FACTS.kind && group.as_deref() == Some(T::FACTS.group)
}
