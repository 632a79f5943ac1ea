//! What the kubelet shows to those who call it: a certificate from files, or one that it made
//! itself and keeps, as upstream's does.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use authn::pki::{Authority, Identity};
use jiff::SignedDuration;
use stdx::World;

use super::flags::Flags;
use crate::component_config::kubelet::KubeletConfiguration;
use crate::data_dir::{make_private, write_private};

/// One that ends sooner is made anew at a start.
const LEFT_MIN: SignedDuration = SignedDuration::from_hours(30 * 24);

pub(super) fn identity(
    flags: &Flags,
    configuration: &KubeletConfiguration,
    addresses: &[IpAddr],
    world: &World,
) -> Result<Identity> {
    let (certificate, key) = (&configuration.tls_cert_file, &configuration.tls_private_key_file);
    match (certificate.as_os_str().is_empty(), key.as_os_str().is_empty()) {
        (false, false) => Ok(Identity {
            certificate_pem: Flags::read(certificate)?,
            private_key_pem: Flags::read(key)?,
        }),
        (true, true) => own(&flags.cert_dir(), &flags.node_name(), addresses, world),
        _ => bail!("tlsCertFile and tlsPrivateKeyFile: give both or none"),
    }
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
