//! Which store the API server stands on, as the flags of `up` and `apiserver` choose it: the
//! embedded one in the data directory, or an etcd cluster.

pub(crate) mod amounts;
mod endpoint;
pub(crate) mod socket;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use apiserver::{Compaction, Encoding};
use etcd::engine::{Config, Etcd};
use etcd::wire::tls::Identity;
use kvstore::Store;
use kvstore::embedded::{Embedded, HistoryBudget, Options};
use lifecycle::Tasks;
use stdx::World;

use crate::data_dir::DataDir;
pub(crate) use amounts::parse_duration;
use amounts::parse_size;
use endpoint::Endpoints;

/// Flags keep upstream's and k3s's names.
#[derive(Clone, clap::Args)]
#[group(id = "datastore")]
pub(crate) struct Flags {
    /// Keep objects in this etcd cluster and not in the data directory, as https://HOST:PORT,...; a
    /// user goes before the host as USER:PASSWORD@ (better in the environment, as
    /// XEBEC_DATASTORE_ENDPOINT)
    #[arg(long, visible_alias = "etcd-servers", value_name = "URL,...")]
    datastore_endpoint: Option<String>,
    /// What the certificates of etcd are signed by
    #[arg(long, visible_alias = "datastore-cafile", value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,
    /// Certificate to show to etcd
    #[arg(
        long,
        visible_alias = "datastore-certfile",
        value_name = "FILE",
        requires = "etcd_keyfile"
    )]
    etcd_certfile: Option<PathBuf>,
    /// Key of that certificate
    #[arg(
        long,
        visible_alias = "datastore-keyfile",
        value_name = "FILE",
        requires = "etcd_certfile"
    )]
    etcd_keyfile: Option<PathBuf>,
    /// What objects are written to etcd as: application/vnd.kubernetes.protobuf (as upstream;
    /// custom resources are JSON in any case) or application/json. Both are read. The embedded
    /// store has the JSON that clients are sent, and nothing else
    #[arg(long, value_name = "TYPE", value_parser = parse_media_type)]
    storage_media_type: Option<Encoding>,
    /// How long clients can read and watch what was; 0 is as long as the store remembers
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    etcd_compaction_interval: Duration,
    /// How long the embedded store remembers
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_duration)]
    history_max_age: Duration,
    /// How much the embedded store remembers beside what is current
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = parse_size)]
    history_max_size: u64,
}

/// Where the endpoint is looked for when no flag names one: a process's environment is its owner's
/// alone, its flags are not.
const ENDPOINT_VARIABLE: &str = "XEBEC_DATASTORE_ENDPOINT";
/// How often a start asks an etcd that does not answer, a request's own patience apart.
const CONNECT_TRIES: usize = 4;

pub(crate) enum Datastore {
    Embedded(Arc<Embedded>),
    Etcd(Arc<Etcd>),
}

impl Flags {
    pub(crate) fn compaction_interval(&self) -> Duration {
        self.etcd_compaction_interval
    }

    /// What objects are written as: in etcd what upstream's API server writes.
    pub(crate) fn encoding(&self, datastore: &Datastore) -> Encoding {
        match datastore {
            Datastore::Embedded(_) => Encoding::Json,
            Datastore::Etcd(_) => self.storage_media_type.unwrap_or(Encoding::Protobuf),
        }
    }

    /// Whether they go together, and their files are there. Changes nothing.
    pub(crate) fn validate(&self) -> Result<()> {
        self.endpoints()?.map_or(Ok(()), |it| self.etcd(it, "").map(drop))
    }

    /// `None`: the embedded store.
    fn endpoints(&self) -> Result<Option<Endpoints>> {
        let given = self.datastore_endpoint.clone();
        let endpoint = given.or_else(|| std::env::var(ENDPOINT_VARIABLE).ok());
        if let Some(endpoint) = endpoint.filter(|it| !it.is_empty()) {
            return Endpoints::parse(&endpoint).map(Some);
        }
        if self.etcd_cafile.is_some() || self.etcd_certfile.is_some() {
            bail!("--etcd-cafile and --etcd-certfile need --datastore-endpoint");
        }
        if self.storage_media_type == Some(Encoding::Protobuf) {
            bail!(
                "--storage-media-type={} needs --datastore-endpoint: the embedded store has the JSON that clients are sent",
                api::protobuf::MEDIA_TYPE
            );
        }
        Ok(None)
    }

    /// `name` tells this server from others over the same etcd.
    pub(crate) async fn open(
        &self,
        data: &DataDir,
        name: &str,
        world: &World,
        tasks: &Tasks,
    ) -> Result<Datastore> {
        let Some(endpoints) = self.endpoints()? else {
            let store = Embedded::open(&data.store(), self.options())
                .with_context(|| format!("opening the store in {}", data.store().display()))?;
            socket::serve(data.path(), store.clone(), tasks)?;
            return Ok(Datastore::Embedded(store));
        };
        let config = self.etcd(endpoints, name)?;
        // Leases are given back while everything else ends.
        Ok(Datastore::Etcd(connect(config, world, &tasks.child_last("datastore")).await?))
    }

    fn options(&self) -> Options {
        let history = HistoryBudget { age: self.history_max_age, bytes: self.history_max_size };
        Options { history, ..Options::default() }
    }

    fn etcd(&self, endpoints: Endpoints, name: &str) -> Result<Config> {
        let identity = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate_pem: read(certificate)?, key_pem: read(key)? })
            }
            _ => None,
        };
        Ok(Config {
            ca_pem: self.etcd_cafile.as_deref().map(read).transpose()?,
            identity,
            credentials: endpoints.credentials,
            name: name.to_owned(),
            ..Config::new(endpoints.urls)
        })
    }
}

fn parse_media_type(text: &str) -> Result<Encoding, String> {
    match text {
        "application/json" => Ok(Encoding::Json),
        api::protobuf::MEDIA_TYPE => Ok(Encoding::Protobuf),
        _ => Err(format!("must be {} or application/json", api::protobuf::MEDIA_TYPE)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// An etcd that starts together with this server may need a moment.
async fn connect(config: Config, world: &World, tasks: &Tasks) -> Result<Arc<Etcd>> {
    let mut tries = 1;
    loop {
        match Etcd::connect(config.clone(), world, tasks).await {
            Err(etcd::engine::ConnectError::Reach { source }) if tries < CONNECT_TRIES => {
                tracing::warn!(error = %stdx::error_chain(&source), "etcd does not answer yet");
                tries += 1;
            }
            outcome => return outcome.context("connecting to the datastore"),
        }
    }
}

impl Datastore {
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => store.clone(),
            Self::Etcd(store) => store.clone(),
        }
    }

    /// The embedded store keeps its own budget; an etcd keeps what it is not told to forget.
    pub(crate) fn compaction(&self) -> Compaction {
        match self {
            Self::Embedded(_) => Compaction::ByStore,
            Self::Etcd(_) => Compaction::ByServer,
        }
    }
}
