//! What an object has to be for a write to happen: the same one, at the same version. Texts as
//! upstream's, where two places tell of it in words of their own (`Preconditions.Check` in
//! apiserver/pkg/storage, `BeforeDelete` in apiserver/pkg/registry/rest).

use apimachinery::{ApiError, GroupResource};
use client::Preconditions;

use super::Request;
use super::update::Current;
use crate::cache::{ROOT, store_key};

/// The code of upstream's `ErrCodeInvalidObj`.
const INVALID_OBJECT: u8 = 4;

/// Of a write that is no deletion. `current` is the object that is there, if any.
pub(crate) fn validate(
    request: &Request,
    wanted: &Preconditions,
    current: Option<&Current>,
) -> Result<(), ApiError> {
    let Some((what, wanted, found)) = differing(wanted, current) else { return Ok(()) };
    let key = store_key(request.stored_kind(), &request.path()?);
    let key = String::from_utf8_lossy(&key);
    // A dry run never gets to where keys get the prefix of the store.
    let key = if request.call.write.dry_run { &key[ROOT.len() - 1..] } else { &key };
    let why = format!(
        "StorageError: invalid object, Code: {INVALID_OBJECT}, Key: {key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in \
         object meta: {found}"
    );
    let resource = request.kind.names().group_resource();
    Err(ApiError::conflict(&resource, request.name(), &why))
}

/// Of a deletion, which names the kind where others name the resource.
pub(crate) fn validate_deletion(
    request: &Request,
    wanted: &Preconditions,
    current: &Current,
) -> Result<(), ApiError> {
    let Some((what, wanted, found)) = differing(wanted, Some(current)) else { return Ok(()) };
    let fate = if what == UID { "deleted and then recreated" } else { "modified" };
    let why = format!(
        "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
         The object might have been {fate}"
    );
    let names = request.kind.names();
    let own = names.group_resource();
    if OWN_DELETION.contains(&(own.group.as_str(), own.resource.as_str())) {
        let why = format!(
            "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        return Err(ApiError::conflict(&own, request.name(), &why));
    }
    let resource = GroupResource { group: names.group.clone(), resource: names.kind.clone() };
    Err(ApiError::conflict(&resource, request.name(), &why))
}

/// Upstream deletes these in ways of their own, since they wait for what is in them.
const OWN_DELETION: [(&str, &str); 2] =
    [("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions")];

const UID: &str = "UID";

/// What differs, what is wanted and what is there.
fn differing(
    wanted: &Preconditions,
    current: Option<&Current>,
) -> Option<(&'static str, String, String)> {
    let found = current.map(|it| &it.stored.meta);
    let uid = found.map(|it| it.uid.clone()).unwrap_or_default();
    let version = found.map(|it| it.resource_version.to_string()).unwrap_or_default();
    let checks = [
        (UID, wanted.uid.as_ref(), uid),
        ("ResourceVersion", wanted.resource_version.as_ref(), version),
    ];
    let differs = |(what, wanted, found): (_, Option<&String>, String)| {
        let wanted = wanted.filter(|it| **it != found)?;
        Some((what, wanted.clone(), found))
    };
    checks.into_iter().find_map(differs)
}
