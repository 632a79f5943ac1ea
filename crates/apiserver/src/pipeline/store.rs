//! The last stage: an object becomes a revision. Acknowledged when it is durable and this server's own cache,
//! with everything that follows it, has seen it.

use std::sync::Arc;

use api::{ApiObject, Kind, Stored};
use apimachinery::ApiError;
use kvstore::{Compare, Revision, Txn, TxnOutcome, Write};

use super::trace;
use crate::cache::{store_key, stored_form, with_version};
use crate::server::Core;

/// What must be there for the write to happen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expect {
    Absent,
    At(u64),
}

pub(super) enum Written {
    Stored(Arc<Stored>),
    /// Somebody else was faster.
    Refused,
}

fn compare(key: &bytes::Bytes, expect: Expect) -> Compare {
    match expect {
        Expect::Absent => Compare::Absent(key.clone()),
        Expect::At(revision) => Compare::ModRevision(key.clone(), Revision(revision)),
    }
}

pub(super) fn internal(err: &kvstore::Error) -> ApiError {
    ApiError::internal(stdx::error_chain(err))
}

/// Writes the object, whose resourceVersion must be unset.
pub(super) async fn put(
    core: &Core,
    kind: &dyn Kind,
    path: &str,
    object: &dyn ApiObject,
    expect: Expect,
) -> Result<Written, ApiError> {
    let key = store_key(kind, path);
    trace::passed("store");
    let prepared = core.cache.prepare(kind, key.clone(), object);
    let txn = Txn { compares: vec![compare(&key, expect)], writes: vec![prepared.write()] };
    let outcome = core.cache.store().txn(txn).await;
    let written = match outcome {
        Err(err) => Err(internal(&err)),
        Ok(TxnOutcome::Refused { .. }) => Ok(Written::Refused),
        Ok(TxnOutcome::Committed(revision)) => {
            // Durable in any case; a cache that lags only costs the shared copy.
            let _ = core.cache.wait_for(revision.0).await;
            let stored = prepared.result().unwrap_or_else(|| prepared.at(revision.0));
            Ok(Written::Stored(stored))
        }
    };
    core.cache.forget(&prepared);
    written
}

/// Whether the removal happened, and at which revision.
pub(super) async fn remove(
    core: &Core,
    kind: &dyn Kind,
    path: &str,
    at: u64,
) -> Result<Option<u64>, ApiError> {
    let key = store_key(kind, path);
    let txn =
        Txn { compares: vec![compare(&key, Expect::At(at))], writes: vec![Write::Delete(key)] };
    match core.cache.store().txn(txn).await.map_err(|err| internal(&err))? {
        TxnOutcome::Refused { .. } => Ok(None),
        TxnOutcome::Committed(revision) => {
            let _ = core.cache.wait_for(revision.0).await;
            Ok(Some(revision.0))
        }
    }
}

/// Whether writing the object would change nothing.
pub(super) fn is_same(kind: &dyn Kind, object: &dyn ApiObject, stored: &Stored) -> bool {
    with_version(&stored_form(kind, object), stored.meta.resource_version) == stored.bytes
}
