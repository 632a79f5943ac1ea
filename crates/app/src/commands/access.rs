//! How commands for users reach a cluster: by a kubeconfig, as kubectl does, and as whom.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use client::Transport;
use client::https::{Config, Https};
use lifecycle::Tasks;
use stdx::World;

use crate::kubeconfig_file;

#[derive(clap::Args)]
#[group(id = "access")]
pub(super) struct Flags {
    /// Kubeconfig file; else KUBECONFIG, else ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; else its current one
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of objects that name none
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// User to act as, which takes the right to impersonate them
    #[arg(long = "as", value_name = "USER")]
    user: Option<String>,
    /// Group to act as; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    groups: Vec<String>,
}

/// Where to connect, and what is meant when no namespace is named.
pub(super) struct Access {
    pub(super) config: Config,
    pub(super) namespace: String,
}

impl Flags {
    /// As nobody else, with its current context.
    pub(super) fn of_kubeconfig(kubeconfig: Option<PathBuf>) -> Self {
        Self { kubeconfig, context: None, namespace: None, user: None, groups: Vec::new() }
    }

    pub(super) fn load(&self) -> Result<Access> {
        let Some(path) = self.kubeconfig.clone().or_else(kubeconfig_file::of_user) else {
            bail!("there is no kubeconfig: name one by --kubeconfig");
        };
        let agent = concat!("xebec/", env!("CARGO_PKG_VERSION"));
        let context = self.context.as_deref();
        let (mut config, namespace) = kubeconfig_file::load_context(&path, context, agent)?;
        let user = self.user.iter().map(|it| ("Impersonate-User", it));
        let groups = self.groups.iter().map(|it| ("Impersonate-Group", it));
        let headers = user.chain(groups).map(|(name, it)| (name.to_owned(), it.clone()));
        config.headers.extend(headers);
        let namespace = self.namespace.clone().or(namespace);
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        Ok(Access { config, namespace })
    }
}

pub(super) fn connect(config: &Config, tasks: &Tasks) -> Result<Arc<dyn Transport>> {
    let https = Https::new(tasks, &World::system(), config);
    Ok(Arc::new(https.context("connecting to the API server")?))
}

/// Runs a command that asks a server, and what it left running ends with it.
pub(super) fn block_on<T>(work: impl AsyncFnOnce(&Tasks) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the tokio runtime")?;
    runtime.block_on(async {
        let tasks = Tasks::new();
        let outcome = work(&tasks).await;
        tasks.cancel();
        outcome
    })
}
