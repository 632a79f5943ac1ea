//! The builder of a controller: what it reads, what wakes it, how many work.
//!
//! ```text
//! let mut controller = Controller::new("deployment-controller", &tasks, &factory);
//! let reconciler = Deployments { deployments: controller.cache(), replica_sets: controller.cache() };
//! controller
//!     .watches(itself::<Deployment>)
//!     .owns::<Deployment, ReplicaSet>()
//!     .workers(5)
//!     .run(reconciler);
//! ```

use std::sync::Arc;
use std::time::Duration;

use api::{Identified, View};
use apimachinery::ObjectKey;
use futures_util::future::{BoxFuture, join_all};
use informer::{Factory, IndexFn, Indexer, SharedInformer};
use lifecycle::Tasks;

use crate::change::{Change, on_change};
use crate::own_writes::OwnWrites;
use crate::owners;
use crate::queue::{Key, WorkQueue};
use crate::workers::{self, Crew, Reconciler};

/// A controller before it runs: one queue, what puts keys into it, and the caches that must be full
/// before anybody works.
///
/// Nobody works before each kind named here has its first list: a reconciler that saw half of the
/// cluster would take the other half for missing and make it again. Kinds of other controllers are
/// not waited for.
pub struct Controller<K = ObjectKey> {
    queue: WorkQueue<K>,
    tasks: Tasks,
    factory: Arc<Factory>,
    crew: Crew,
    first_lists: Vec<BoxFuture<'static, ()>>,
}

impl<K: Key> Controller<K> {
    /// `name` is that of the queue and of the workers.
    pub fn new(name: &'static str, tasks: &Tasks, factory: &Arc<Factory>) -> Self {
        Self {
            queue: WorkQueue::new(name),
            tasks: tasks.clone(),
            factory: factory.clone(),
            crew: Crew { workers: 1, retries_max: None },
            first_lists: Vec::new(),
        }
    }

    /// For keys that come from elsewhere than from informers of typed objects.
    pub fn queue(&self) -> WorkQueue<K> {
        self.queue.clone()
    }

    /// A kind that the reconciler reads.
    pub fn cache<T: View>(&mut self) -> Indexer<T> {
        self.informer().indexer()
    }

    /// The same, with indexes; an index of that name that is there already is as good.
    pub fn indexed_cache<T: View>(&mut self, indexes: &[(&'static str, IndexFn<T>)]) -> Indexer<T> {
        let informer = self.informer::<T>();
        for (name, index) in indexes {
            informer.add_index(name, *index);
        }
        informer.indexer()
    }

    /// A tracker of what the reconciler writes to objects of a kind. See `OwnWrites`.
    pub fn own_writes<T: Identified>(&mut self, patience: Duration) -> Arc<OwnWrites<T, K>> {
        let informer = self.informer::<T>();
        let writes = Arc::new(OwnWrites::new(informer.indexer(), patience));
        let noted = writes.clone();
        informer.add_event_handler(on_change(move |change: Change<'_, T>| {
            if let Change::Deleted(object) = change {
                noted.gone(&**object);
            }
        }));
        writes
    }

    fn informer<T: View>(&mut self) -> Arc<SharedInformer<T>> {
        let informer = self.factory.informer::<T>();
        let waiting = informer.clone();
        self.first_lists.push(Box::pin(async move { waiting.wait_for_sync().await }));
        informer
    }

    /// Every change of an object wakes the keys that it has, and those that it had before.
    #[must_use]
    pub fn watches<T: View, I: IntoIterator<Item = K>>(
        self,
        keys: impl Fn(&T) -> I + Send + Sync + 'static,
    ) -> Self {
        self.follows(move |change: Change<'_, T>, queue| {
            change.states().flat_map(|it| keys(it)).for_each(|it| queue.add(it));
        })
    }

    /// Every change of an object that an `Owner` controls wakes that owner.
    #[must_use]
    pub fn owns<Owner: Identified, Owned: Identified>(mut self) -> Self
    where
        K: From<ObjectKey>,
    {
        let owners = self.cache::<Owner>();
        self.watches(move |owned: &Owned| owners::owner_key(&owners, owned).map(K::from))
    }

    /// For changes of which only some matter, or only later: `handle` chooses the keys and when
    /// they are due.
    #[must_use]
    pub fn follows<T: View>(
        mut self,
        handle: impl Fn(Change<'_, T>, &WorkQueue<K>) + Send + Sync + 'static,
    ) -> Self {
        let queue = self.queue.clone();
        let handler = on_change(move |change: Change<'_, T>| handle(change, &queue));
        self.informer::<T>().add_event_handler(handler);
        self
    }

    /// How many keys are worked on at once; one, if nobody says.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.crew.workers = workers;
        self
    }

    /// After so many retries in a row a key is let go until something changes it; without this it
    /// is retried for ever, ever more seldom.
    #[must_use]
    pub fn gives_up_after(mut self, retries: u32) -> Self {
        self.crew.retries_max = Some(retries);
        self
    }

    /// Nobody works before, however soon the lists are there.
    #[must_use]
    pub fn starts_after(mut self, delay: Duration) -> Self {
        if !delay.is_zero() {
            self.first_lists.push(Box::pin(tokio::time::sleep(delay)));
        }
        self
    }

    /// Works until the tasks are shut down; returns at once.
    pub fn run<R: Reconciler<Key = K>>(self, reconciler: R) {
        let Self { queue, tasks, crew, first_lists, .. } = self;
        let reconciler = Arc::new(reconciler);
        let workers_tasks = tasks.clone();
        tasks.spawn("waiting-for-caches", move |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                _ = join_all(first_lists) => workers::run(&workers_tasks, &queue, crew, &reconciler),
            }
        });
    }
}
