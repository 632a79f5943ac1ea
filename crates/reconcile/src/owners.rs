//! Who controls an object, by its owner references.

use api::Identified;
use apimachinery::{GroupVersion, ObjectKey};
use informer::Indexer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The key of an object itself: what most controllers work on.
pub fn itself<T: Identified>(object: &T) -> Option<ObjectKey> {
    Some(object.key())
}

/// The key of the controlling owner of kind `Owner`, when the cache has it: an owner that was made
/// again under the same name is another one. Who is missing in the cache is worked on when it shows
/// up there.
pub fn owner_key<Owner: Identified>(
    owners: &Indexer<Owner>,
    owned: &impl Identified,
) -> Option<ObjectKey> {
    let reference = owned.controller().filter(|it| is_of_kind::<Owner>(it))?;
    let key = ObjectKey::new(owned.namespace(), reference.name.clone());
    let owner = owners.get(&key)?;
    (owner.uid() == reference.uid).then_some(key)
}

/// Any version of the group is as good.
fn is_of_kind<T: Identified>(reference: &OwnerReference) -> bool {
    let group = GroupVersion::parse(&reference.api_version).map(|it| it.group);
    reference.kind == T::FACTS.kind && group.as_deref() == Some(T::FACTS.group)
}
