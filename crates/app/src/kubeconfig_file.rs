//! Kubeconfig files: the cluster's own, and its context in the user's.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use authn::pki::Identity;
use client::kubeconfig::{self, Credential, Entry};
use rustix::fs::Access;

use crate::data_dir::write_private;

/// How to reach a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// The name of the cluster, the user and the context that we write.
    pub(crate) context: String,
    /// `https://127.0.0.1:6443`
    pub(crate) server: String,
    pub(crate) ca_pem: String,
}

/// Writes a kubeconfig of its own for one identity.
pub(crate) fn write(path: &Path, cluster: &Cluster, identity: &Identity) -> Result<()> {
    let text = kubeconfig::merge("", &entry(cluster, identity))?;
    write_private(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}

/// Whether [`merge_into_users`] will do, as far as one can see.
pub(crate) fn validate() -> Result<()> {
    let Some(path) = users_file() else { return Ok(()) };
    let doing = || format!("your kubeconfig {} cannot be extended", path.display());
    kubeconfig::validate(&read(&path)?).with_context(doing)?;
    let folder = path.ancestors().skip(1).find(|it| it.as_os_str().is_empty() || it.exists());
    let folder = folder.filter(|it| !it.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    rustix::fs::access(folder, Access::WRITE_OK)
        .with_context(|| format!("writing in {}", folder.display()))
        .with_context(doing)
}

/// Puts the context into the user's kubeconfig and makes it current; every other context stays.
/// Returns the file, or `None` when there is no place for one.
pub(crate) fn merge_into_users(cluster: &Cluster, identity: &Identity) -> Result<Option<PathBuf>> {
    let Some(path) = users_file() else { return Ok(None) };
    let before = read(&path)?;
    let after = kubeconfig::merge(&before, &entry(cluster, identity))
        .with_context(|| format!("your kubeconfig {} cannot be extended", path.display()))?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    write_private(&path, after.as_bytes())
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(Some(path))
}

/// Takes the context out of the user's kubeconfig, if it is the one of this cluster; what was
/// current before it is again.
pub(crate) fn forget(own: &Path) -> Result<()> {
    let Some(path) = users_file() else { return Ok(()) };
    let (Ok(ours), Ok(text)) = (std::fs::read_to_string(own), std::fs::read_to_string(&path))
    else {
        return Ok(());
    };
    let Ok(ours) = kubeconfig::pick(&ours, None) else { return Ok(()) };
    if kubeconfig::pick(&text, Some(&ours.name)).is_ok_and(|it| it.ca == ours.ca) {
        let left = kubeconfig::remove(&text, &ours.name)?;
        write_private(&path, left.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Reads the current context of a kubeconfig as the settings of an HTTPS client.
pub(crate) fn load(path: &Path, user_agent: &str) -> Result<client::https::Config> {
    load_context(path, None, user_agent).map(|it| it.0)
}

/// The file that kubectl would read.
pub(crate) fn of_user() -> Option<PathBuf> {
    users_path()
}

/// The same of a context by its name, with its namespace.
pub(crate) fn load_context(
    path: &Path,
    context: Option<&str>,
    user_agent: &str,
) -> Result<(client::https::Config, Option<String>)> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let context =
        kubeconfig::pick(&text, context).with_context(|| format!("reading {}", path.display()))?;
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let bytes = |source: &kubeconfig::Source| match source {
        kubeconfig::Source::Inline(bytes) => Ok(bytes.clone()),
        kubeconfig::Source::File(name) => std::fs::read(folder.join(name))
            .with_context(|| format!("reading {}", folder.join(name).display())),
    };
    let optional = |source: &Option<kubeconfig::Source>| source.as_ref().map(bytes).transpose();
    let certificate = optional(&context.client_certificate)?;
    let key = optional(&context.client_key)?;
    let token = optional(&context.token)?.map(|it| String::from_utf8_lossy(&it).trim().to_owned());
    if context.is_insecure {
        return Err(anyhow!(
            "{}: insecure-skip-tls-verify is not supported; give the authority",
            path.display()
        ));
    }
    let config = client::https::Config {
        server: context.server.clone(),
        ca_pem: optional(&context.ca)?.unwrap_or_default(),
        certificate_pem: certificate.zip(key),
        token,
        tls_server_name: context.tls_server_name.clone(),
        user_agent: user_agent.to_owned(),
        ..client::https::Config::default()
    };
    Ok((config, context.namespace))
}

fn entry(cluster: &Cluster, identity: &Identity) -> Entry {
    Entry {
        name: cluster.context.clone(),
        server: cluster.server.clone(),
        ca_pem: cluster.ca_pem.clone().into_bytes(),
        credential: Credential::Certificate {
            certificate_pem: identity.certificate_pem.clone().into_bytes(),
            key_pem: identity.private_key_pem.clone().into_bytes(),
        },
    }
}

/// The first file of `KUBECONFIG`, else `~/.kube/config`, as kubectl chooses the file it writes to.
/// A link is followed: it stays one.
fn users_file() -> Option<PathBuf> {
    let path = users_path()?;
    Some(std::fs::canonicalize(&path).unwrap_or(path))
}

fn users_path() -> Option<PathBuf> {
    if let Some(list) = std::env::var_os("KUBECONFIG").filter(|it| !it.is_empty()) {
        return std::env::split_paths(&list).find(|it| !it.as_os_str().is_empty());
    }
    std::env::var_os("HOME")
        .filter(|it| !it.is_empty())
        .map(|it| PathBuf::from(it).join(".kube/config"))
}

fn read(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        outcome => outcome.with_context(|| format!("reading {}", path.display())),
    }
}
