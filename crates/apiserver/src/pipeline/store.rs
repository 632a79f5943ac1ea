//! The last stage: an object becomes a revision. Acknowledged when it is durable and this server's
//! own cache, with everything that follows it, has seen it.

use std::sync::Arc;

use admission::{Beside, Draft, Valid};
use api::{Kind, Stored};
use apimachinery::schema::Absent;
use apimachinery::{ApiError, Reason};
use kvstore::{Compare, Op, Revision, Txn};

use super::core::Core;
use super::draft::Sealed;
use super::stages::MayCreate;
use super::{Request, stages, trace};
use crate::cache::{Announced, ObjectPath, refusal, store_key};
use crate::metrics::Operation;
use crate::stored_bytes::with_version;

/// What must be there for the write to happen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expect {
    Absent(MayCreate),
    At(u64),
}

/// Where an object goes, and what must hold there.
pub(super) struct Place<'a> {
    pub(super) path: &'a ObjectPath,
    pub(super) expect: Expect,
}

pub(super) enum Written {
    Stored(Arc<Stored>),
    /// Somebody else was faster.
    Refused,
}

fn compare(key: &bytes::Bytes, expect: Expect) -> Compare {
    match expect {
        Expect::Absent(_) => Compare::absent(key),
        Expect::At(revision) => Compare::mod_revision(key, Revision(revision)),
    }
}

/// One write of one object, with what goes with it, as durable as its kind wants it.
fn txn(kind: &dyn Kind, path: &ObjectPath, compares: Vec<Compare>, ops: Vec<Op>) -> Txn {
    let namespace = path.as_str().split_once('/').map_or("", |(namespace, _)| namespace);
    let txn = Txn::when(compares, ops).without_previous_values();
    if kind.is_relaxed(namespace) { txn.relaxed() } else { txn }
}

/// Writes what was sealed, whose resourceVersion must be unset. What was reserved for it is settled
/// here: kept if it is stored, and given back in all other cases.
pub(super) async fn put(
    core: &Core,
    request: &Request,
    Place { path, expect }: Place<'_>,
    sealed: Sealed<'_>,
) -> Result<Written, ApiError> {
    let kind = request.stored_kind();
    let key = store_key(kind, path);
    trace::passed("store");
    let prepared = prepare(core, request, key.clone(), &sealed).await?;
    let guard = sealed.guard().filter(|_| core.config.is_shared());
    let beside = request.hooks.beside(core, kind, path, Some(sealed.object()));
    let (more, others): (Vec<_>, Vec<_>) = beside.into_iter().unzip();
    let more = more.into_iter().flatten();
    let (unchanged, charged): (Vec<_>, Vec<_>) =
        admitted_beside(core, &sealed)?.into_iter().unzip();
    let compares = [compare(&key, expect)].into_iter().chain(guard).chain(more).chain(unchanged);
    let ops = [prepared.write()].into_iter().chain(others).chain(charged);
    let txn = txn(kind, path, compares.collect(), ops.collect());
    let operation = match expect {
        Expect::Absent(_) => Operation::Create,
        Expect::At(_) => Operation::Update,
    };
    let asked = core.metrics.storage.ask(operation, kind);
    let answer = core.cache.store().txn(txn).await;
    asked.answered(&answer);
    match answer {
        Err(err) => Err(refusal(&err)),
        Ok(response) if !response.succeeded => Ok(Written::Refused),
        Ok(response) => {
            let draft = sealed.keep();
            let revision = response.revision.0;
            // Written in any case; a cache that lags only costs the shared copy.
            let _ = core.cache.wait_for(revision).await;
            let stored = prepared.result().unwrap_or_else(|| prepared.at(revision));
            remember(core, kind, (expect, &stored), draft);
            Ok(Written::Stored(stored))
        }
    }
}

/// What plugins change of other objects with the write, as long as nobody else has changed them.
fn admitted_beside(core: &Core, sealed: &Sealed<'_>) -> Result<Vec<(Compare, Op)>, ApiError> {
    let one = |Beside { resource, object }: Beside| {
        let kinds = core.registry.kinds();
        let kind = kinds.find(&resource).cloned();
        let kind = kind.ok_or_else(|| ApiError::internal("what is charged is not served"))?;
        let mut object = object.clone_box();
        let version = object.meta_mut().resource_version.take();
        let version = version.and_then(|it| it.parse().ok()).unwrap_or_default();
        let place = object.key();
        let path = ObjectPath::of(kind.as_ref(), &place.namespace, &place.name)?;
        let key = store_key(kind.as_ref(), &path);
        let unchanged = Compare::mod_revision(&key, Revision(version));
        Ok((unchanged, core.cache.put(kind.as_ref(), key, object.as_ref())))
    };
    sealed.valid().beside().into_iter().map(one).collect()
}

/// For the next write of it, if what was stored is what was meant to be: records that are too large
/// are left out, and some forms of the store know no difference between absent and zero. Objects of
/// custom kinds are worked on in the version of each request.
fn remember(core: &Core, kind: &dyn Kind, (expect, stored): (Expect, &Stored), draft: Draft) {
    let revision = stored.meta.resource_version;
    if kind.is_custom() || with_version(draft.bytes(), revision) != stored.bytes {
        return;
    }
    let before = match expect {
        Expect::Absent(_) => 0,
        Expect::At(before) => before,
    };
    core.recent.remember((before, revision), draft.into_object(), stored.bytes.len());
}

/// An object that is too large is tried without its records of ownership first, as upstream does.
async fn prepare<'a>(
    core: &'a Core,
    request: &Request,
    key: bytes::Bytes,
    sealed: &Sealed<'_>,
) -> Result<Announced<'a>, ApiError> {
    let kind = request.stored_kind();
    let announced = announce(core, request, key.clone(), sealed.draft()).await?;
    if !announced.is_too_large(kind) {
        return Ok(announced);
    }
    drop(announced);
    let announced = announce(core, request, key, &sealed.without_managed_fields()).await?;
    if announced.is_too_large(kind) {
        let why = "etcdserver: request is too large";
        return Err(ApiError::new(Reason::RequestEntityTooLarge, why));
    }
    Ok(announced)
}

async fn announce<'a>(
    core: &'a Core,
    request: &Request,
    key: bytes::Bytes,
    draft: &Draft,
) -> Result<Announced<'a>, ApiError> {
    let (kind, family) = (request.stored_kind(), &request.family);
    let json = family.to_stored(draft.bytes()).await?;
    // What it is found by is read from what is stored: a conversion may have moved it, or dropped it.
    let is_moved = family.is_slow() || (kind.is_custom() && json != *draft.bytes());
    let moved = is_moved.then(|| kind.decode_any(&json, Absent::FilledIn)).transpose();
    let moved = moved.map_err(|err| {
        ApiError::internal("the converted object cannot be read").with_source(err)
    })?;
    let object = moved.as_deref().unwrap_or_else(|| draft.object());
    Ok(core.cache.prepare(kind, key, (object, &json)))
}

/// Whether the removal, which was admitted, happened, and at which revision.
pub(super) async fn remove(
    core: &Core,
    kind: &dyn Kind,
    (path, at): (&ObjectPath, u64),
    _admitted: &Valid,
) -> Result<Option<u64>, ApiError> {
    let key = store_key(kind, path);
    let hooks = stages::hooks_of(core, kind);
    let (more, others): (Vec<_>, Vec<_>) = hooks.beside(core, kind, path, None).into_iter().unzip();
    let more = more.into_iter().flatten();
    let compares = [compare(&key, Expect::At(at))].into_iter().chain(more).collect();
    let ops = [Op::delete(&key)].into_iter().chain(others).collect();
    let txn = txn(kind, path, compares, ops);
    let asked = core.metrics.storage.ask(Operation::Delete, kind);
    let answer = core.cache.store().txn(txn).await;
    asked.answered(&answer);
    let response = answer.map_err(|err| refusal(&err))?;
    if !response.succeeded {
        return Ok(None);
    }
    let _ = core.cache.wait_for(response.revision.0).await;
    Ok(Some(response.revision.0))
}

/// Whether writing the object would change nothing, and neither how it is stored.
pub(super) async fn is_same(
    request: &Request,
    sealed: &Sealed<'_>,
    stored: &Stored,
) -> Result<bool, ApiError> {
    if stored.meta.is_outdated {
        return Ok(false);
    }
    let json = request.family.to_stored(sealed.bytes()).await?;
    Ok(with_version(&json, stored.meta.resource_version) == stored.bytes)
}
