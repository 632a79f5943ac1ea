//! The typed forms of what was written a moment ago. What is written is often written again soon: a
//! pod is made, bound, and has its status changed three times within a second. Each of these starts
//! from the object as the one before left it, and need not decode it.
//!
//! A revision is that of one request. What is written in one transaction with its object (the address
//! of a Service) has the same, and another uid.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::ApiObject;

/// Of JSON, all together; decoded it is about six times as much.
const BYTES_MAX: usize = 256 << 10;
/// Of one object. Larger ones are rare, and would push all others out.
const OBJECT_BYTES_MAX: usize = 16 << 10;

#[derive(Default)]
pub(crate) struct Recent(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_revision: BTreeMap<u64, (Arc<dyn ApiObject>, usize)>,
    n_bytes: usize,
}

impl Recent {
    /// `object` is what is stored at `revision`, in place of what was stored at `before`.
    pub(super) fn remember(
        &self,
        (before, revision): (u64, u64),
        mut object: Box<dyn ApiObject>,
        n_bytes: usize,
    ) {
        if n_bytes > OBJECT_BYTES_MAX {
            return;
        }
        object.meta_mut().resource_version = Some(revision.to_string());
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(before);
        kept.by_revision.insert(revision, (object.into(), n_bytes));
        kept.n_bytes += n_bytes;
        while kept.n_bytes > BYTES_MAX {
            let Some(oldest) = kept.by_revision.keys().next().copied() else { break };
            kept.remove(oldest);
        }
    }

    pub(super) fn find(&self, revision: u64, uid: &str) -> Option<Arc<dyn ApiObject>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.by_revision.get(&revision).map(|(object, _)| object);
        let is_it = |it: &&Arc<dyn ApiObject>| it.meta().uid.as_deref().unwrap_or_default() == uid;
        found.filter(is_it).cloned()
    }
}

impl Kept {
    fn remove(&mut self, revision: u64) {
        if let Some((_, n_bytes)) = self.by_revision.remove(&revision) {
            self.n_bytes -= n_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use api::core::ConfigMap;

    use super::{BYTES_MAX, OBJECT_BYTES_MAX, Recent};

    fn remember(recent: &Recent, before: u64, revision: u64, n_bytes: usize) {
        recent.remember((before, revision), Box::new(ConfigMap::default()), n_bytes);
    }

    #[test]
    fn a_write_takes_the_place_of_the_one_before() {
        let recent = Recent::default();
        remember(&recent, 0, 7, 10);
        remember(&recent, 7, 9, 10);
        assert!(recent.find(7, "").is_none());
        let found = recent.find(9, "").expect("it was written a moment ago");
        assert_eq!(found.meta().resource_version.as_deref(), Some("9"));
    }

    #[test]
    fn what_was_written_beside_it_is_another_object() {
        let recent = Recent::default();
        remember(&recent, 0, 7, 10);
        assert!(recent.find(7, "other").is_none());
        assert!(recent.find(7, "").is_some());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let recent = Recent::default();
        remember(&recent, 0, 1, OBJECT_BYTES_MAX + 1);
        assert!(recent.find(1, "").is_none());
        let n_objects = BYTES_MAX / OBJECT_BYTES_MAX;
        for revision in 0..=n_objects as u64 {
            remember(&recent, 0, 2 + revision, OBJECT_BYTES_MAX);
        }
        assert!(recent.find(2, "").is_none(), "the oldest one goes");
        assert!((1..=n_objects as u64).all(|it| recent.find(2 + it, "").is_some()));
    }
}
