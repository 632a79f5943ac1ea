//! Keys of pods that changed in the API, each once, until somebody takes them. Bounded by the
//! number of pods.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use api::object::key_of;
use apimachinery::ObjectKey;
use informer::EventHandler;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Inbox {
    keys: Mutex<BTreeSet<ObjectKey>>,
    news: Notify,
}

impl Inbox {
    fn put(&self, pod: &Pod) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.insert(key_of(&pod.metadata));
        self.news.notify_one();
    }

    /// Waits for at least one. Dropping the future loses nothing.
    pub(crate) async fn take(&self) -> BTreeSet<ObjectKey> {
        loop {
            let news = self.news.notified();
            let keys =
                std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner));
            if !keys.is_empty() {
                return keys;
            }
            news.await;
        }
    }
}

impl EventHandler<Pod> for Inbox {
    fn on_add(&self, pod: &Arc<Pod>, _is_initial: bool) {
        self.put(pod);
    }

    fn on_update(&self, _old: &Arc<Pod>, new: &Arc<Pod>) {
        self.put(new);
    }

    fn on_delete(&self, last: &Arc<Pod>) {
        self.put(last);
    }
}
