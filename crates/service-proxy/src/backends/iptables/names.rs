//! The names of chains, as upstream makes them, so that notes and scripts for it hold. Pure.

use std::net::{IpAddr, SocketAddr};

use apimachinery::ObjectKey;
use sha2::{Digest as _, Sha256};

use crate::service_port::{Endpoint, Protocol, ServicePort};

const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// What the chains of one port of a Service are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// `namespace/name`, and `:port` if the port has a name.
    pub(super) port: String,
    protocol: &'static str,
    hash: String,
}

impl Names {
    pub(super) fn of(service: &ObjectKey, port: &ServicePort) -> Self {
        let mut text = format!("{}/{}", service.namespace, service.name);
        if !port.name.is_empty() {
            text = format!("{text}:{}", port.name);
        }
        // All of it is DNS labels; what an odd server sends must not become another word.
        let text: String = text.chars().map(plain).collect();
        let protocol = word(port.protocol);
        Self { hash: hash(&format!("{text}{protocol}")), port: text, protocol }
    }

    /// Chooses among all endpoints.
    pub(super) fn cluster(&self) -> String {
        format!("KUBE-SVC-{}", self.hash)
    }

    /// Chooses among those of this node.
    pub(super) fn local(&self) -> String {
        format!("KUBE-SVL-{}", self.hash)
    }

    pub(super) fn external(&self) -> String {
        format!("KUBE-EXT-{}", self.hash)
    }

    pub(super) fn firewall(&self) -> String {
        format!("KUBE-FW-{}", self.hash)
    }

    pub(super) fn endpoint(&self, endpoint: Endpoint) -> String {
        let Self { port, protocol, .. } = self;
        format!("KUBE-SEP-{}", hash(&format!("{port}{protocol}{}", socket(endpoint))))
    }
}

fn plain(letter: char) -> char {
    let is_plain = letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '/' | ':' | '_');
    if is_plain { letter } else { '_' }
}

/// Address and port in one.
pub(super) fn socket(Endpoint { address, port }: Endpoint) -> SocketAddr {
    SocketAddr::new(address, port)
}

pub(super) fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

/// The first sixteen digits, of five bits each, of the SHA-256 of the text.
fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bits = digest.iter().take(10).fold(0u128, |bits, byte| bits << 8 | u128::from(*byte));
    let digit = |index: u32| char::from(LETTERS[(bits >> (75 - 5 * index) & 31) as usize]);
    (0..16).map(digit).collect()
}

/// Whether the chain is one that belongs to a Service.
pub(super) fn is_of_service(chain: &str) -> bool {
    const PREFIXES: [&str; 5] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"];
    PREFIXES.iter().any(|it| chain.starts_with(it))
}

/// An address as a range of one.
pub(super) fn host(address: IpAddr) -> String {
    address.to_string()
}
