//! Events live for a while and then go by themselves.

mod expiry;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::GroupResource;
use stdx::SharedClock;

use self::expiry::Expiry;
use crate::cache::Change;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of};

pub(crate) struct Events {
    expiry: Arc<Expiry>,
}

impl Events {
    pub(crate) fn new(ttl: Duration, clock: SharedClock) -> Self {
        Self { expiry: Arc::new(Expiry::new(ttl, clock)) }
    }
}

impl Hooks for Events {
    fn of(&self) -> &'static [Of] {
        &[("", "events")]
    }

    fn observe(&self, _resource: &GroupResource, change: &Change) {
        self.expiry.follow(change);
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        let (expiry, its) = (self.expiry.clone(), core.clone());
        core.tasks.spawn("events-expiry", |shutdown| expiry.run(its, shutdown));
    }
}
