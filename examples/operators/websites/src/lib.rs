//! An operator: keeps a ConfigMap for each `Website`, and says in its status how many pages there
//! are.
//!
//! The same way as every controller goes: informers put keys into a queue, a reconciler takes one,
//! observes, plans and applies.

mod objects;
mod plan;

use api::View as _;
use apimachinery::{ApiError, ObjectKey};
use client::{Client, DynamicApi, PatchKind, WriteOptions};
use informer::{Factory, Indexer};
use lifecycle::Tasks;
use reconcile::{Controller, Next, Reconciler};
use stdx::World;

pub use objects::{Pages, Website};
use plan::Action;

/// What the server's audit log and managedFields call this operator.
pub const NAME: &str = "websites-operator";

const WORKERS: usize = 2;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("write the pages of website {site}")]
    WritePages {
        site: ObjectKey,
        #[source]
        source: ApiError,
    },
    #[error("report on website {site}")]
    Report {
        site: ObjectKey,
        #[source]
        source: ApiError,
    },
}

struct Websites {
    sites: Indexer<Website>,
    maps: Indexer<Pages>,
    sites_api: DynamicApi,
    maps_api: DynamicApi,
}

/// Follows websites and their pages until the tasks are shut down.
pub fn start(client: &Client, world: World, tasks: &Tasks) {
    let factory = Factory::new(client.clone(), world, tasks);
    let mut controller = Controller::new("websites", tasks, &factory);
    let reconciler = Websites {
        sites: controller.cache(),
        maps: controller.cache(),
        sites_api: client.dynamic(Website::resource()),
        maps_api: client.dynamic(Pages::resource()),
    };
    controller
        .watches(|site: &Website| [site.meta.key.clone()])
        .watches(|map: &Pages| map.site())
        .workers(WORKERS)
        .run(reconciler);
    factory.start();
}

impl Reconciler for Websites {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        // Its pages go with a website: they have it as their owner.
        let Some(site) = self.sites.get(key) else { return Ok(Next::Settled) };
        let pages = self.maps.get(&plan::map_of(key));
        for action in plan::plan(&site, pages.as_deref()) {
            self.apply(key, action).await?;
        }
        Ok(Next::Settled)
    }
}

impl Websites {
    async fn apply(&self, site: &ObjectKey, action: Action) -> Result<(), Error> {
        match action {
            Action::WritePages(map) => {
                let (key, body) = (plan::map_of(site), map.to_string().into());
                // Who else writes the same fields is in the wrong.
                let options = WriteOptions { force: true, ..WriteOptions::default() };
                let (namespace, kind) = (&key.namespace, PatchKind::Apply);
                let written = self.maps_api.patch(namespace, &key.name, kind, body, options).await;
                written.map_err(|source| Error::WritePages { site: site.clone(), source })?;
            }
            Action::Report(status) => {
                let (namespace, name, body) = (&site.namespace, &site.name, status.to_string());
                let kind = PatchKind::Merge;
                let told = self.sites_api.patch_status(namespace, name, kind, body.into()).await;
                told.map_err(|source| Error::Report { site: site.clone(), source })?;
            }
        }
        Ok(())
    }
}
