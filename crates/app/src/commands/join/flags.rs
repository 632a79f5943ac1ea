//! Flags of `xebec join`, and where its token comes from: never necessarily the command line, which
//! others on the machine see.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use linux::sysctl::Pattern;
use service_proxy::backends;

use crate::cluster::{Cluster, ContainerRuntime, Name};
use crate::commands::network::{Addresses, parse_addresses};
use crate::commands::up::{parse_container_runtime, parse_sysctl_pattern};
use crate::commands::ways;
use crate::joining::{JoinToken, Target, parse_pin};
use crate::{component, data_dir};

/// Longer is no token.
const TOKEN_FILE_MAX: u64 = 4096;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The cluster, as `xebec up --bind-address IP` and `xebec token create --print-join-command`
    /// print it; HOST:PORT with --token-file; nothing for a machine that has joined already
    #[arg(value_name = "TOKEN@HOST:PORT", value_parser = Target::parse)]
    pub(super) target: Option<Target>,
    /// File with the token, in place of one that others see on the command line; `-` is standard
    /// input
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// SHA-256 of the key of the cluster's authority, for a token without it: sha256:DIGITS
    #[arg(long, value_name = "PIN", value_parser = parse_pin)]
    ca_cert_hash: Option<String>,
    /// Name of what is kept here: of its data directory (default: xebec)
    #[arg(long, value_name = "NAME", value_parser = Name::parse)]
    pub(super) name: Option<Name>,
    /// Where the node keeps everything (default: /var/lib/xebec or /var/lib/xebec-NAME)
    #[arg(long, value_name = "DIR", value_parser = data_dir::parser())]
    pub(super) data_dir: Option<PathBuf>,
    /// Name of the node (default: the one it had, else the host's)
    #[arg(long, value_name = "NAME")]
    pub(super) node_name: Option<String>,
    /// Address of the node, or one of each family (default: those that the machine sends from)
    #[arg(long, value_name = "IP[,IP]", value_parser = parse_addresses)]
    pub(super) node_ip: Option<Addresses>,
    /// Port of the kubelet (default: the one it had, else the first free one from 10250 on)
    #[arg(long, value_name = "N")]
    pub(super) kubelet_port: Option<u16>,
    /// Cgroup below which the pods' are made (default: xebec-ID, where ID is this directory's)
    #[arg(long, value_name = "PATH")]
    pub(super) cgroup_root: Option<String>,
    /// Socket of a container runtime that speaks CRI, such as unix:///run/containerd/containerd.sock;
    /// empty: none but ourselves (default: the one it had, else none)
    #[arg(long, value_name = "ENDPOINT", value_parser = parse_container_runtime)]
    pub(super) container_runtime_endpoint: Option<ContainerRuntime>,
    /// Kernel settings that pods may ask for though they are not safe; `*` at the end stands for
    /// anything
    #[arg(long, value_name = "SYSCTL,...", value_delimiter = ',', value_parser = parse_sysctl_pattern)]
    pub(super) allowed_unsafe_sysctls: Vec<Pattern>,
    /// How the node serves Services
    #[arg(long, value_name = "MODE", default_value = "nftables", value_parser = backends::mode)]
    pub(super) proxy_mode: &'static backends::Mode,
    #[command(flatten)]
    pub(super) ways: ways::Flags,
    /// Go to the background once the node is ready
    #[arg(long)]
    pub(super) detach: bool,
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more
    /// everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub(super) verbosity: u8,
    #[command(flatten)]
    pub(super) component: component::Flags,
    /// Set on the process in the background
    #[arg(long, hide = true)]
    pub(super) detached_child: bool,
}

impl Flags {
    pub(super) fn reads_stdin(&self) -> bool {
        self.token_file.as_ref().is_some_and(|it| it.as_os_str() == "-")
    }

    /// Whether there is one, wherever that is from.
    pub(super) fn has_token(&self, target: &Target) -> bool {
        target.token.is_some() || self.token_file.is_some()
    }

    /// With its pin, wherever that is from.
    pub(super) fn token(&self, target: &Target) -> Result<JoinToken> {
        let in_file = self.token_file.as_ref().map(|path| self.read(path)).transpose()?;
        let token = match (&target.token, in_file) {
            (Some(_), Some(_)) => bail!("--token-file: there is a token before the @ already"),
            (Some(token), None) => token.clone(),
            (None, Some(token)) => token,
            (None, None) => bail!(
                "say with which token: TOKEN@{}, or --token-file FILE (`-` is standard input)",
                target.place
            ),
        };
        match (&token.pin, &self.ca_cert_hash) {
            (Some(pin), Some(given)) if pin != given => {
                bail!("--ca-cert-hash sha256:{given}: the token says sha256:{pin}")
            }
            (None, Some(given)) => Ok(JoinToken { pin: Some(given.clone()), ..token }),
            _ => Ok(token),
        }
    }

    fn read(&self, path: &PathBuf) -> Result<JoinToken> {
        let doing = || format!("--token-file: reading {}", path.display());
        let mut text = String::new();
        if self.reads_stdin() {
            std::io::stdin().take(TOKEN_FILE_MAX).read_to_string(&mut text).with_context(doing)?;
        } else {
            let file = std::fs::File::open(path).with_context(doing)?;
            file.take(TOKEN_FILE_MAX).read_to_string(&mut text).with_context(doing)?;
        }
        JoinToken::parse(text.trim()).map_err(|why| anyhow!("--token-file: {why}"))
    }
}

/// What is missing to become a node.
pub(super) fn how_to_join(kept: Option<&Cluster>) -> String {
    match kept.and_then(|it| it.joined.as_ref()) {
        Some(joined) => format!(
            "the certificate of this node is gone or has ended, so the cluster at {server} does not know it any more: join again with a new token, \
             `xebec join TOKEN@{server}`",
            server = joined.server
        ),
        None => "this machine has not joined a cluster yet: give TOKEN@HOST:PORT, as `xebec token create --print-join-command` prints it there"
            .to_owned(),
    }
}
