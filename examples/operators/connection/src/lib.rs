//! The way to a server for the operators beside: by a kubeconfig, or from inside a pod by its service
//! account.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use client::kubeconfig::{self, Source};
use client::{Client, https};
use lifecycle::Tasks;
use stdx::World;

/// Where every pod finds who it is.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Where every pod finds the API.
const SERVER: &str = "https://kubernetes.default.svc";

/// Which server, and as whom.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// The context of this name, or the current one.
    Kubeconfig(&'a Path, Option<&'a str>),
    /// The cluster that this process is a pod of. The token is read once: start again before it ends.
    Pod,
}

/// A client that the server's audit log and managedFields call `name`.
pub fn connect(
    place: Place<'_>,
    name: &str,
    world: &World,
    tasks: &Tasks,
) -> anyhow::Result<Client> {
    let mut config = match place {
        Place::Kubeconfig(path, context) => of_kubeconfig(path, context)?,
        Place::Pod => of_pod(Path::new(ACCOUNT))?,
    };
    name.clone_into(&mut config.user_agent);
    let transport = https::Https::new(tasks, world, &config)?;
    Ok(Client::new(Arc::new(transport), name))
}

fn of_pod(account: &Path) -> anyhow::Result<https::Config> {
    let read = |name: &str| {
        let path = account.join(name);
        std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
    };
    Ok(https::Config {
        server: SERVER.to_owned(),
        ca_pem: read("ca.crt")?,
        token: Some(String::from_utf8(read("token")?)?.trim().to_owned()),
        metrics: telemetry::Registry::default(),
        ..https::Config::default()
    })
}

fn of_kubeconfig(path: &Path, context: Option<&str>) -> anyhow::Result<https::Config> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading the kubeconfig {}", path.display()))?;
    let context = kubeconfig::pick(&text, context)?;
    // Relative paths are relative to the kubeconfig.
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let read = |source: Option<Source>| -> anyhow::Result<Option<Vec<u8>>> {
        Ok(match source {
            None => None,
            Some(Source::Inline(bytes)) => Some(bytes),
            Some(Source::File(file)) => Some(std::fs::read(folder.join(file))?),
        })
    };
    let Some(ca_pem) = read(context.ca)? else {
        bail!("the cluster of context {:?} has no certificate authority", context.name);
    };
    let certificate_pem = read(context.client_certificate)?.zip(read(context.client_key)?);
    let token = read(context.token)?.map(String::from_utf8).transpose()?;
    Ok(https::Config {
        server: context.server,
        ca_pem,
        certificate_pem,
        token: token.map(|it| it.trim().to_owned()),
        tls_server_name: context.tls_server_name,
        metrics: telemetry::Registry::default(),
        ..https::Config::default()
    })
}
