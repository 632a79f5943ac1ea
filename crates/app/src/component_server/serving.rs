//! Where a component listens, and what of TLS it speaks there.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use authn::pki::{
    ChangingTrust, Group, Identity, MinVersion, Offer, Rotating, Suite, changing_server_config,
};
use rustls::ServerConfig;
use stdx::World;
use tokio::net::{TcpListener, TcpSocket};

use crate::own_certificate;
use crate::switch::{self, named};

/// Upstream's, and Go's.
const STREAMS_MAX: &str = "250";
/// Of connections that wait to be taken.
const BACKLOG: u32 = 1024;

#[derive(clap::Args, Clone)]
#[group(id = "serving")]
pub(super) struct Flags {
    /// Address to serve health and metrics on
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Certificate to serve with; without it one is made at start that nobody signed
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    #[arg(requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file", value_parser = switch::path)]
    tls_private_key_file: Option<PathBuf>,
    /// Directory to keep the certificate in that is made; without it, it is not kept
    #[arg(long, value_name = "DIR", value_parser = switch::path)]
    cert_dir: Option<PathBuf>,
    /// Oldest version of TLS: VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION")]
    tls_min_version: Option<MinVersion>,
    /// Cipher suites of TLS 1.2 to offer, by Go's names; all that there are, if none are named
    #[arg(long, value_name = "SUITE,...", value_delimiter = ',')]
    tls_cipher_suites: Vec<Suite>,
    /// Key exchanges to offer, by their numbers; all that there are, if none are named
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',')]
    tls_curve_preferences: Vec<Group>,
    /// Speak HTTP/1.1 alone
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = switch::parse)]
    #[arg(action = clap::ArgAction::Set)]
    disable_http2_serving: bool,
    /// Requests of one HTTP/2 connection at once: 250, or 0, which means the same
    #[arg(long, value_name = "N", default_value = "0", value_parser = streams)]
    http2_max_streams_per_connection: u32,
    /// Listen although others do, who allow it, too (SO_REUSEPORT)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = switch::parse)]
    #[arg(action = clap::ArgAction::Set)]
    permit_port_sharing: bool,
    /// Listen on single addresses beside somebody who listens on all (SO_REUSEADDR); always so
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value = "false", default_missing_value = "true", value_parser = switch::parse)]
    #[arg(action = clap::ArgAction::Set)]
    permit_address_sharing: bool,
}

fn streams(text: &str) -> Result<u32, String> {
    match text {
        "0" | STREAMS_MAX => Ok(text.parse().unwrap_or_default()),
        other => Err(format!("{other:?} is not supported: every connection has {STREAMS_MAX}")),
    }
}

impl Flags {
    pub(super) fn tls(
        &self,
        name: &str,
        trust: Arc<ChangingTrust>,
        world: &World,
    ) -> Result<ServerConfig> {
        let offer = Offer {
            min_version: self.tls_min_version.unwrap_or_default(),
            suites: self.tls_cipher_suites.clone(),
            groups: self.tls_curve_preferences.clone(),
            without_http2: self.disable_http2_serving,
        };
        let identity = Rotating::new(&self.identity(name, world)?);
        let config = identity.and_then(|it| changing_server_config(it, trust, &offer));
        config.context("setting up TLS for health and metrics")
    }

    fn identity(&self, name: &str, world: &World) -> Result<Identity> {
        let files = (named(&self.tls_cert_file), named(&self.tls_private_key_file));
        if let (Some(certificate), Some(key)) = files {
            return Ok(Identity {
                certificate_pem: super::read(certificate).context("--tls-cert-file")?,
                private_key_pem: super::read(key).context("--tls-private-key-file")?,
            });
        }
        let mut addresses = vec![IpAddr::from([127, 0, 0, 1])];
        addresses.extend(Some(self.bind_address).filter(|it| !it.is_unspecified()));
        let names = ["localhost"];
        match named(&self.cert_dir) {
            Some(folder) => own_certificate::keep(folder, name, name, (&names, &addresses), world),
            None => own_certificate::make(name, (&names, &addresses), world),
        }
    }

    pub(super) fn listen(&self, port: u16) -> Result<TcpListener> {
        let address = SocketAddr::new(self.bind_address, port);
        self.try_listen(address).with_context(|| {
            format!(
                "cannot listen on {address}: choose another port with --secure-port, or 0 for none"
            )
        })
    }

    fn try_listen(&self, address: SocketAddr) -> std::io::Result<TcpListener> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As Go does without being asked.
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(self.permit_port_sharing)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }
}
