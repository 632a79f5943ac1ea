//! Objects that the server itself sees to: written directly, each on what it was planned on.

use api::{Lookup, Resource};
use apimachinery::ObjectKey;
use authz::bootstrap::{Reconcile, reconcile};
use kvstore::{Compare, Op, Revision, TXN_OPS_MAX, Txn};

use crate::cache::{ObjectPath, store_key};
use crate::pipeline::{Core, now};

/// Everything to write, with what must hold for it.
#[derive(Default)]
pub(crate) struct Plan {
    writes: Vec<(Compare, Op)>,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether nobody else was faster.
    pub(crate) async fn apply(self, core: &Core) -> Result<bool, kvstore::Error> {
        self.apply_by(TXN_OPS_MAX, core).await
    }

    /// The same while others watch: each object has a revision of its own, which a watch can go on
    /// after.
    pub(crate) async fn apply_singly(self, core: &Core) -> Result<bool, kvstore::Error> {
        self.apply_by(1, core).await
    }

    async fn apply_by(mut self, n_ops: usize, core: &Core) -> Result<bool, kvstore::Error> {
        let mut is_done = true;
        while !self.writes.is_empty() {
            let rest = self.writes.split_off(n_ops.min(self.writes.len()));
            let (compares, ops) = std::mem::replace(&mut self.writes, rest).into_iter().unzip();
            let txn = Txn::when(compares, ops).without_previous_values();
            let response = core.cache.store().txn(txn).await?;
            is_done &= response.succeeded;
            let _ = core.cache.wait_for(response.revision.0).await;
        }
        Ok(is_done)
    }

    /// Creates what is missing; `change` may give a better form of what is there.
    pub(crate) fn ensure<T: Resource>(
        &mut self,
        core: &Core,
        mut wanted: T,
        change: impl FnOnce(&T, &T) -> Option<T>,
    ) {
        let kind = core.kind_of::<T>();
        let key = api::object::key_of(wanted.metadata());
        let lookup: &dyn Lookup = core.cache.as_ref();
        let path = ObjectPath::of(kind.as_ref(), &key.namespace, &key.name)
            .expect("the server's own objects have plain names");
        let store_key = store_key(kind.as_ref(), &path);
        match lookup.get::<T>(&ObjectKey::new(key.namespace, key.name)) {
            None => {
                let meta = wanted.metadata_mut();
                meta.uid = Some(core.world.random.uuid());
                meta.creation_timestamp = Some(now(core));
                meta.generation = kind.has_generation().then_some(1);
                kind.apply_defaults(&mut wanted);
                let absent = Compare::absent(&store_key);
                self.writes.push((absent, core.cache.put(kind.as_ref(), store_key, &wanted)));
            }
            Some(stored) => {
                if let Some(better) = change(&stored, &wanted) {
                    self.revise(core, better);
                }
            }
        }
    }

    /// A better form of what is there, written only where that still stands as it was seen: what
    /// was deleted since does not come back.
    pub(crate) fn revise<T: Resource>(&mut self, core: &Core, mut better: T) {
        let kind = core.kind_of::<T>();
        let key = api::object::key_of(better.metadata());
        let Ok(path) = ObjectPath::of(kind.as_ref(), &key.namespace, &key.name) else { return };
        let store_key = store_key(kind.as_ref(), &path);
        let version = better.metadata_mut().resource_version.take();
        let Some(revision) = version.and_then(|it| it.parse().ok()) else { return };
        // Views leave out who wrote what, which is to stay.
        let stored = core.cache.get(kind.as_ref(), &path);
        let stored = stored.and_then(|it| T::decode(&it.bytes).ok());
        let meta = better.metadata_mut();
        meta.managed_fields = stored.and_then(|mut it| it.metadata_mut().managed_fields.take());
        let at = Compare::mod_revision(&store_key, Revision(revision));
        self.writes.push((at, core.cache.put(kind.as_ref(), store_key, &better)));
    }

    /// Deletes what is there as it was seen.
    pub(crate) fn remove<T: Resource>(&mut self, core: &Core, stored: &T) {
        let kind = core.kind_of::<T>();
        let key = api::object::key_of(stored.metadata());
        let Ok(path) = ObjectPath::of(kind.as_ref(), &key.namespace, &key.name) else { return };
        let store_key = store_key(kind.as_ref(), &path);
        let version = stored.metadata().resource_version.as_deref();
        let revision = version.and_then(|it| it.parse().ok()).unwrap_or(0);
        let at = Compare::mod_revision(&store_key, Revision(revision));
        self.writes.push((at, Op::delete(&store_key)));
    }

    pub(crate) fn reconcile<T: Resource + Reconcile>(&mut self, core: &Core, wanted: T) {
        self.ensure(core, wanted, |old, new| reconcile(old, new));
    }
}
