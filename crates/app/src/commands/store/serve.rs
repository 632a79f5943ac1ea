//! `xebec store serve`: the embedded store as an etcd server of one member. Flags keep etcd's
//! names.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use etcd::front::{self, Config, Snapshots};
use etcd::wire::tls::Identity;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use kvstore::embedded::{Embedded, Options};
use lifecycle::Tasks;

use crate::data_dir::DataDir;
use crate::datastore::socket;
use crate::progress::say;
use crate::serve;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// Where to listen: https://IP:PORT, or http://IP:PORT on loopback
    #[arg(
        long,
        visible_alias = "listen-client-urls",
        value_name = "URL,...",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:2379"
    )]
    listen: Vec<String>,
    /// Certificate of the server
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// Key of the certificate
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// What the certificates of clients are signed by
    #[arg(long, value_name = "FILE")]
    trusted_ca_file: Option<PathBuf>,
    /// Serve only clients with a certificate
    #[arg(long, requires = "trusted_ca_file")]
    client_cert_auth: bool,
    /// Log level: 0 warnings, 2 information, 4 debug
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
}

/// Everything of a serving store; the last to go is the directory's lock.
struct Serving {
    _store: Arc<Embedded>,
    _data: DataDir,
}

pub(super) fn run(directory: PathBuf, flags: Flags) -> Result<()> {
    if flags.trusted_ca_file.is_some() && !flags.client_cert_auth {
        bail!("--trusted-ca-file is for --client-cert-auth: give both or none");
    }
    telemetry::logs::start(flags.verbosity, telemetry::logs::Format::Text);
    serve::run(|tasks| async move { start(&directory, &flags, &tasks).await })
}

async fn start(directory: &Path, flags: &Flags, tasks: &Tasks) -> Result<Serving> {
    let data = DataDir::open(directory)?;
    let store = Embedded::open(&data.store(), Options::default())
        .with_context(|| format!("opening the store in {}", data.store().display()))?;
    socket::serve(data.path(), store.clone(), tasks)?;
    let identity = match (&flags.cert_file, &flags.key_file) {
        (Some(certificate), Some(key)) => {
            Some(Identity { certificate_pem: read(certificate)?, key_pem: read(key)? })
        }
        _ => None,
    };
    let copies = Copies { store: store.clone(), directory: data.path().to_owned() };
    let config = Config {
        identity,
        client_ca_pem: flags.trusted_ca_file.as_deref().map(read).transpose()?,
        snapshots: Some(Arc::new(copies)),
        ..Config::new(flags.listen.clone(), data.path().as_os_str().as_encoded_bytes())
    };
    let has_tls = config.identity.is_some();
    let serving = front::serve(store.clone(), config, tasks).await.context("serving")?;
    for (address, url) in serving.addresses.iter().zip(&flags.listen) {
        let scheme = if has_tls && url.starts_with("https") { "https" } else { "http" };
        say(&format!("serving etcd's API on {scheme}://{address}"));
    }
    Ok(Serving { _store: store, _data: data })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// Snapshots for `etcdctl snapshot save`: files that have no name any more once they are open.
struct Copies {
    store: Arc<Embedded>,
    directory: PathBuf,
}

impl Snapshots for Copies {
    fn snapshot(&self) -> BoxFuture<'_, std::io::Result<File>> {
        async {
            let name = format!("snapshot-{}.tmp", stdx::World::system().random.uuid());
            let path = self.directory.join(name);
            let taken = self.store.snapshot(&path).await;
            let opened = OpenOptions::new().read(true).open(&path);
            let _ = std::fs::remove_file(&path);
            taken.map_err(std::io::Error::other)?;
            opened
        }
        .boxed()
    }
}
