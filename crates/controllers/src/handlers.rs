//! Event handlers made of closures: what changed goes in, keys for a queue come out.

use std::marker::PhantomData;
use std::sync::Arc;

use api::{Meta, View};
use informer::{EventHandler, MetadataInformer, SharedInformer};

struct OnTransition<T, F> {
    handle: F,
    _kind: PhantomData<fn() -> T>,
}

impl<T, F> EventHandler<T> for OnTransition<T, F>
where
    F: Fn(Option<&Arc<T>>, Option<&Arc<T>>) + Send + Sync,
{
    fn on_add(&self, object: &Arc<T>, _is_initial: bool) {
        (self.handle)(None, Some(object));
    }

    fn on_update(&self, old: &Arc<T>, new: &Arc<T>) {
        (self.handle)(Some(old), Some(new));
    }

    fn on_delete(&self, last: &Arc<T>) {
        (self.handle)(Some(last), None);
    }
}

/// Calls `handle(before, after)` for every change; `before` is absent on add, `after` on delete.
pub(crate) fn on_transition<T: View>(
    informer: &SharedInformer<T>,
    handle: impl Fn(Option<&Arc<T>>, Option<&Arc<T>>) + Send + Sync + 'static,
) {
    informer.add_event_handler(Arc::new(OnTransition { handle, _kind: PhantomData }));
}

/// Calls `handle` with the object before and with the object after every change.
pub(crate) fn on_change<T: View>(
    informer: &SharedInformer<T>,
    handle: impl Fn(&Arc<T>) + Send + Sync + 'static,
) {
    on_transition(informer, move |before, after| {
        for object in [before, after].into_iter().flatten() {
            handle(object);
        }
    });
}

pub(crate) fn on_metadata(
    informer: &MetadataInformer,
    handle: impl Fn(Option<&Arc<Meta>>, Option<&Arc<Meta>>) + Send + Sync + 'static,
) {
    informer.add_event_handler(Arc::new(OnTransition { handle, _kind: PhantomData }));
}
