//! What the kubelet shows to those who call it: a certificate from files, or one that it made
//! itself and keeps, as upstream's does, until somebody signs one, if it is to ask for that.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use authn::pki::{Authority, Identity, Rotating};
use jiff::SignedDuration;
use stdx::World;

use super::flags::Flags;
use crate::component_config::kubelet::KubeletConfiguration;
use crate::data_dir::{make_private, write_private};
use crate::joining::{Credentials, Kept, Purpose};

/// One that ends sooner is made anew at a start.
const LEFT_MIN: SignedDuration = SignedDuration::from_hours(30 * 24);

/// What is shown, and what is to be exchanged of it.
pub(super) struct Serving {
    pub(super) shown: Arc<Rotating>,
    pub(super) kept: Option<Kept>,
}

pub(super) fn serving(
    flags: &Flags,
    configuration: &KubeletConfiguration,
    credentials: &Credentials,
    addresses: &[IpAddr],
    world: &World,
) -> Result<Serving> {
    if configuration.server_tls_bootstrap {
        let purpose = Purpose::Serving(addresses.to_vec());
        let kept = match credentials.load(&purpose)? {
            Some(signed) => credentials.keep(purpose, &signed)?,
            None => {
                let own = own(&flags.cert_dir(), &flags.node_name(), addresses, world)?;
                credentials.keep_unsigned(purpose, &own)?
            }
        };
        return Ok(Serving { shown: kept.shown.clone(), kept: Some(kept) });
    }
    let identity = identity(flags, configuration, addresses, world)?;
    let shown = Rotating::new(&identity).context("reading the certificate to serve with")?;
    Ok(Serving { shown, kept: None })
}

/// What no single field shows.
pub(super) fn validate(configuration: &KubeletConfiguration) -> Result<()> {
    let (certificate, key) = (&configuration.tls_cert_file, &configuration.tls_private_key_file);
    let is_given = |it: &Path| !it.as_os_str().is_empty();
    ensure!(
        is_given(certificate) == is_given(key),
        "tlsCertFile and tlsPrivateKeyFile: give both or none"
    );
    ensure!(
        !configuration.server_tls_bootstrap || !is_given(certificate),
        "serverTLSBootstrap: there is a tlsCertFile already; give one of the two"
    );
    Ok(())
}

fn identity(
    flags: &Flags,
    configuration: &KubeletConfiguration,
    addresses: &[IpAddr],
    world: &World,
) -> Result<Identity> {
    let (certificate, key) = (&configuration.tls_cert_file, &configuration.tls_private_key_file);
    if certificate.as_os_str().is_empty() {
        return own(&flags.cert_dir(), &flags.node_name(), addresses, world);
    }
    Ok(Identity { certificate_pem: Flags::read(certificate)?, private_key_pem: Flags::read(key)? })
}

/// `kubelet.crt` and `kubelet.key`, as upstream names them.
fn own(folder: &Path, node_name: &str, addresses: &[IpAddr], world: &World) -> Result<Identity> {
    let (certificate, key) = (folder.join("kubelet.crt"), folder.join("kubelet.key"));
    let now = world.clock.now();
    if let (Ok(certificate_pem), Ok(private_key_pem)) =
        (std::fs::read_to_string(&certificate), std::fs::read_to_string(&key))
    {
        let identity = Identity { certificate_pem, private_key_pem };
        if identity.not_after().is_ok_and(|it| it.duration_since(now) > LEFT_MIN) {
            return Ok(identity);
        }
    }
    let random = &world.random;
    let authority = Authority::create(&format!("{node_name}-ca"), now, random)?;
    let identity = authority.issue_server(node_name, &[node_name], addresses, now, random)?;
    make_private(folder).with_context(|| format!("making {}", folder.display()))?;
    for (path, text) in
        [(&key, &identity.private_key_pem), (&certificate, &identity.certificate_pem)]
    {
        write_private(path, text.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(identity)
}

/// Who signed the certificates of those who may call: what was given, else who signed the API
/// server's.
pub(super) fn client_authority(
    configuration: &KubeletConfiguration,
    of_kubeconfig: &[u8],
) -> Result<String> {
    let path = &configuration.authentication.x509.client_ca_file;
    match path.as_os_str().is_empty() {
        true => Ok(String::from_utf8_lossy(of_kubeconfig).into_owned()),
        false => Flags::read(path),
    }
}
