//! Who the kubelet is to the API: by its kubeconfig, which it writes itself where it was only given
//! a token; with a certificate that it exchanges in time, if it is told to. Files are those of
//! upstream's kubelet.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use authn::pki::Identity;
use client::Client;
use client::https::{Config, Https};
use client::kubeconfig::{self, Source};
use lifecycle::Tasks;
use serde_json::json;
use stdx::World;
use telemetry::Registry;

use super::flags::Flags;
use crate::commands::remote;
use crate::component_config::kubelet::KubeletConfiguration;
use crate::data_dir::write_private;
use crate::joining::{Credentials, Purpose, current_path, is_unauthorized};

const NAME: &str = "kubelet";

pub(super) struct Connected {
    pub(super) client: Client,
    /// Who signed the API server's certificate, in PEM.
    pub(super) ca_pem: Vec<u8>,
    pub(super) credentials: Credentials,
}

pub(super) async fn connect(
    flags: &Flags,
    configuration: &KubeletConfiguration,
    metrics: &Registry,
    world: &World,
    tasks: &Tasks,
) -> Result<Connected> {
    let credentials = Credentials::of_kubelet(flags.cert_dir(), &flags.node_name(), world);
    if let Some(bootstrap) = &flags.bootstrap_kubeconfig
        && !is_good(&flags.kubeconfig, world)
    {
        let config = remote::config(bootstrap, NAME, metrics)?;
        let client = remote::connect(&config, NAME, tasks, world)?;
        let identity = first(&credentials, &client, bootstrap).await?;
        credentials.save(&Purpose::Kubelet, &identity)?;
        write_kubeconfig(flags, bootstrap)?;
    }
    let config = remote::config(&flags.kubeconfig, NAME, metrics)?;
    let ca_pem = config.ca_pem.clone();
    let client = match configuration.rotate_certificates {
        true => rotating(config, &credentials, world, tasks).await?,
        false => remote::connect(&config, NAME, tasks, world)?,
    };
    Ok(Connected { client, ca_pem, credentials })
}

/// Whether it says who the node is, for a while yet.
fn is_good(kubeconfig: &Path, world: &World) -> bool {
    let Ok(config) = crate::kubeconfig_file::load(kubeconfig, NAME) else { return false };
    config.certificate_pem.is_some_and(|(certificate_pem, private_key_pem)| {
        let end = identity_of(&certificate_pem, &private_key_pem).not_after();
        end.is_ok_and(|it| it > world.clock.now())
    })
}

fn identity_of(certificate_pem: &[u8], private_key_pem: &[u8]) -> Identity {
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    Identity {
        certificate_pem: text(certificate_pem),
        private_key_pem: text(private_key_pem),
    }
}

async fn first(credentials: &Credentials, client: &Client, bootstrap: &Path) -> Result<Identity> {
    let asked = credentials.ask(client, &Purpose::Kubelet).await;
    asked.map_err(|err| match is_unauthorized(&err) {
        true => err.context(format!(
            "the API server does not let in who {} says: its token has expired or was deleted",
            bootstrap.display()
        )),
        false => err,
    })
}

/// With the cluster of the other one, and the node's own certificate, wherever that leads to later.
fn write_kubeconfig(flags: &Flags, bootstrap: &Path) -> Result<()> {
    let (path, folder) = (&flags.kubeconfig, bootstrap.parent().unwrap_or_else(|| Path::new(".")));
    let pem = absolute(&current_path(&flags.cert_dir(), &Purpose::Kubelet))?;
    let context = kubeconfig::pick(&Flags::read(bootstrap)?, None)
        .with_context(|| format!("reading {}", bootstrap.display()))?;
    let ca = match context.ca {
        None => bail!("{}: there is no certificate-authority", bootstrap.display()),
        Some(Source::File(name)) => {
            json!({ "certificate-authority": absolute(&folder.join(name))? })
        }
        Some(Source::Inline(pem)) => {
            json!({ "certificate-authority-data": k8s_openapi::ByteString(pem) })
        }
    };
    let mut cluster = ca;
    cluster["server"] = json!(context.server);
    if let Some(name) = context.tls_server_name {
        cluster["tls-server-name"] = json!(name);
    }
    let written = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{ "name": "default-cluster", "cluster": cluster }],
        "users": [{ "name": "default-auth", "user": { "client-certificate": pem, "client-key": pem } }],
        "contexts": [{
            "name": "default-context",
            "context": { "cluster": "default-cluster", "user": "default-auth", "namespace": "default" },
        }],
        "current-context": "default-context",
    });
    let text = serde_saphyr::to_string(&written).context("writing a kubeconfig")?;
    write_private(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("finding {}", path.display()))
}

/// With the certificate that was exchanged last, else the kubeconfig's; who has neither asks for one
/// as whoever the kubeconfig says.
async fn rotating(
    config: Config,
    credentials: &Credentials,
    world: &World,
    tasks: &Tasks,
) -> Result<Client> {
    let given = config.certificate_pem.as_ref().map(|it| identity_of(&it.0, &it.1));
    let identity = match credentials.load(&Purpose::Kubelet)?.or(given) {
        Some(identity) => identity,
        None => {
            let asking = remote::connect(&config, NAME, tasks, world)?;
            let identity = credentials.ask(&asking, &Purpose::Kubelet).await?;
            credentials.save(&Purpose::Kubelet, &identity)?;
            identity
        }
    };
    let kept = credentials.keep(Purpose::Kubelet, &identity)?;
    let shown = Some(kept.shown.clone());
    let config = Config { identity: shown, certificate_pem: None, token: None, ..config };
    // They last until all others have ended.
    let https = Https::new(&tasks.child_last("connections"), world, &config)?;
    let client = Client::new(Arc::new(https.clone()), NAME);
    credentials.renew(kept, &client, vec![https], tasks);
    Ok(client)
}
