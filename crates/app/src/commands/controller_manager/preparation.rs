//! What has to be known before the controllers can start: what the server has for them, and who
//! they are. Tried for as long as this process leads, and seen in its health meanwhile: others wait
//! for it to do its work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use apimachinery::GroupVersionResource;
use client::Client;
use control_plane::{
    Availability, CONTROLLER_MANAGER as NAME, Clients, ControllerSettings, Identity,
    ServedResource, Unavailable, needed_resources,
};
use features::Gates;
use lifecycle::Tasks;
use stdx::{Backoff, World};

use crate::commands::service_accounts::Issuer;
use crate::component_server::Trouble;

const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Clients of these may ask so many times as often, and so many times as much at once, as
/// upstream's: they have work with every object there is.
const CHATTY: &[(&str, f64, f64)] = &[
    ("generic-garbage-collector", 2.0, 1.0),
    ("namespace-controller", 20.0, 100.0),
    ("storage-version-migrator-controller", 20.0, 100.0),
];

pub(super) struct Preparation {
    pub(super) world: World,
    pub(super) manager: Client,
    /// Who makes tokens for the controllers' own accounts, and how to reach the server with them.
    pub(super) issuer: Option<(Client, client::https::Config)>,
    pub(super) controllers: ControllerSettings,
    pub(super) gates: Gates,
    pub(super) trouble: Trouble,
}

impl Preparation {
    /// Until it is done, or cannot be: a controller was named that this server has nothing for.
    pub(super) async fn run(&self, tasks: &Tasks) -> Result<(Clients, Availability), Unavailable> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX);
        loop {
            // What a try leaves running ends with it.
            let attempt = tasks.child("controllers");
            let err = match self.attempt(&attempt).await {
                Ok(prepared) => {
                    self.trouble.end();
                    return prepared;
                }
                Err(err) => err,
            };
            attempt.cancel();
            let (error, delay) = (format!("{err:#}"), backoff.step());
            tracing::error!(error, ?delay, "the controllers did not start; trying again");
            self.trouble.begin(format!("the controllers did not start: {error}"));
            tokio::time::sleep(self.world.random.jitter(delay, 0.2)).await;
        }
    }

    async fn attempt(&self, tasks: &Tasks) -> Result<Result<(Clients, Availability), Unavailable>> {
        let availability = self.availability().await?;
        if let Err(unavailable) = self.controllers.check(&availability) {
            return Ok(Err(unavailable));
        }
        let clients = self.clients(tasks, self.controllers.identities(&availability)).await?;
        Ok(Ok((clients, availability)))
    }

    /// By discovery, where there is anything to ask for.
    async fn availability(&self) -> Result<Availability> {
        if self.gates == Gates::default() {
            return Ok(Availability::default());
        }
        let served = self.manager.discover().await.context("asking what is served")?;
        let is_served = |(group, version, plural): &ServedResource| {
            let wanted = GroupVersionResource::new(*group, *version, *plural);
            served.iter().any(|it| it.resource == wanted)
        };
        let served: BTreeSet<ServedResource> = needed_resources().filter(is_served).collect();
        let gates = self.gates.clone();
        Ok(Availability { gates, serves: Arc::new(move |it| served.contains(&it)) })
    }

    /// The manager's own client, and one for each service account that a selected controller acts
    /// as.
    async fn clients(&self, tasks: &Tasks, names: BTreeSet<&'static str>) -> Result<Clients> {
        let mut accounts = BTreeMap::new();
        if let Some((issuing, config)) = &self.issuer {
            let (tasks, world) = (tasks.clone(), self.world.clone());
            let (manager, config) = (issuing.clone(), config.clone());
            let issuer = Arc::new(Issuer { manager, config, tasks, world });
            for account in names {
                let chatty = CHATTY.iter().find(|it| it.0 == account);
                let (often, much) = chatty.map_or((1.0, 1.0), |it| (it.1, it.2));
                accounts.insert(account, issuer.client(account, NAME, (often, much)).await?);
            }
        }
        let manager = self.manager.clone();
        Ok(Clients::new(move |identity| {
            let own = match identity {
                Identity::Controller(account) => accounts.get(account),
                Identity::ControllerManager | Identity::Scheduler | Identity::Node(_) => None,
            };
            own.unwrap_or(&manager).clone()
        }))
    }
}

/// As whoever starts the process is told.
pub(super) fn refused(unavailable: Unavailable) -> Error {
    Error::new(unavailable).context("--controllers")
}
