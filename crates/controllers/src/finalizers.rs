//! A finalizer that keeps an object while somebody uses it. Pure.

use api::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

fn has(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|it| it == finalizer)
}

/// It is being deleted, and stays for this finalizer.
pub(crate) fn is_kept(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.deletion_timestamp.is_some() && has(meta, finalizer)
}

/// It could be deleted under its users.
pub(crate) fn is_unprotected(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.deletion_timestamp.is_none() && !has(meta, finalizer)
}

pub(crate) fn protected<T: Resource>(object: &T, finalizer: &str) -> T {
    let mut protected = object.clone();
    protected.metadata_mut().finalizers.get_or_insert_default().push(finalizer.to_owned());
    protected
}

pub(crate) fn released<T: Resource>(object: &T, finalizer: &str) -> T {
    let mut released = object.clone();
    released.metadata_mut().finalizers.iter_mut().for_each(|it| it.retain(|it| it != finalizer));
    released
}
