//! What the kubelet shows to those who call it: a certificate from files, or one that it made
//! itself and keeps, as upstream's does.

use std::net::IpAddr;

use anyhow::{Result, bail};
use authn::pki::Identity;
use stdx::World;

use super::flags::Flags;
use crate::component_config::kubelet::KubeletConfiguration;
use crate::own_certificate;

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
        (true, true) => {
            let name = flags.node_name();
            let who = (&[&*name][..], addresses);
            own_certificate::keep(&flags.cert_dir(), "kubelet", &name, who, world)
        }
        _ => bail!("tlsCertFile and tlsPrivateKeyFile: give both or none"),
    }
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
