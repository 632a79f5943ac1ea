//! The way to a server, by a kubeconfig.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use client::kubeconfig::{self, Source};
use client::{Client, https};
use lifecycle::Tasks;
use stdx::World;

/// What the server's audit log and managedFields call this operator.
const NAME: &str = "websites-operator";

/// A client with the rights of the user in the context, or in the current one.
pub fn connect(
    path: &Path,
    context: Option<&str>,
    world: &World,
    tasks: &Tasks,
) -> anyhow::Result<Client> {
    let transport = https::Https::new(tasks, world, &config(path, context)?)?;
    Ok(Client::new(Arc::new(transport), NAME))
}

fn config(path: &Path, context: Option<&str>) -> anyhow::Result<https::Config> {
    let text = std::fs::read_to_string(path)?;
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
        user_agent: NAME.to_owned(),
        metrics: telemetry::Registry::default(),
        ..https::Config::default()
    })
}
