//! A client's certificate as an identity. It is read once, when its connection is made; requests
//! only look at its time.

use std::sync::Arc;

use api::certificates::certificate_signing_request::NODE_SINCE;
use apimachinery::User;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::nodes::OfNode;
use crate::pki::since;
use crate::{Unauthorized, among_the_authenticated};

/// Of a connection whose chain TLS has verified. The common name is the user, the last one if there
/// are several, each organization a group.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    proven: Result<Proven, Unauthorized>,
    vouched: Vouched,
}

/// By whose authority a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouched {
    /// It names a user.
    Clients,
    /// It names somebody who may speak for users, and is none.
    Proxies,
    /// Both: one authority may have signed for either.
    Both,
}

#[derive(Clone, Debug)]
struct Proven {
    user: Arc<User>,
    /// Seconds of Unix time, both included.
    not_before: i64,
    not_after: i64,
    /// What it is a certificate of, if of a node.
    node: Option<OfNode>,
}

impl ClientCertificate {
    /// One that names nobody, or cannot be read, says so when it is used.
    pub fn read(der: &[u8]) -> Self {
        Self::read_as(der, Vouched::Clients)
    }

    pub fn read_as(der: &[u8], vouched: Vouched) -> Self {
        Self { proven: read(der), vouched }
    }

    /// Of a server that knows no other clients than users.
    pub fn of_connection(chain: &[CertificateDer<'_>]) -> Option<Arc<Self>> {
        chain.first().map(|it| Arc::new(Self::read(it)))
    }

    /// Whom it proves at this time: a connection may outlive it.
    pub fn user(&self, now: Timestamp) -> Result<&Arc<User>, Unauthorized> {
        match self.vouched {
            Vouched::Clients | Vouched::Both => self.holder(now),
            Vouched::Proxies => Err(Unauthorized::CertificateOfProxy),
        }
    }

    /// The name of the proxy that it is of, at this time.
    pub fn proxy(&self, now: Timestamp) -> Result<&str, Unauthorized> {
        match self.vouched {
            Vouched::Proxies | Vouched::Both => self.holder(now).map(|it| it.name.as_str()),
            Vouched::Clients => Err(Unauthorized::NoProxy),
        }
    }

    /// Of a node's own, or of what runs there.
    pub fn of_node(&self) -> Option<&OfNode> {
        self.proven.as_ref().ok().and_then(|it| it.node.as_ref())
    }

    /// Whether it can be a proxy's at all.
    pub fn is_of_proxy(&self) -> bool {
        self.vouched != Vouched::Clients
    }

    /// Whether it can be a user's at all.
    pub fn is_of_user(&self) -> bool {
        self.vouched != Vouched::Proxies
    }

    fn holder(&self, now: Timestamp) -> Result<&Arc<User>, Unauthorized> {
        let proven = self.proven.as_ref().map_err(Clone::clone)?;
        let is_valid = (proven.not_before..=proven.not_after).contains(&now.as_second());
        if is_valid { Ok(&proven.user) } else { Err(Unauthorized::CertificateExpired) }
    }
}

fn read(der: &[u8]) -> Result<Proven, Unauthorized> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| Unauthorized::Certificate)?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().filter_map(|it| it.as_str().ok()).last();
    let name = name.filter(|it| !it.is_empty()).ok_or(Unauthorized::CertificateWithoutUser)?;
    let groups = subject.iter_organization().filter_map(|it| it.as_str().ok());
    let fingerprint: String = Sha256::digest(der).iter().map(|it| format!("{it:02x}")).collect();
    let id = ("authentication.kubernetes.io/credential-id", format!("X509SHA256={fingerprint}"));
    let mut user = User {
        name: name.to_owned(),
        uid: String::new(),
        groups: groups.map(str::to_owned).collect(),
        extra: [(id.0.to_owned(), vec![id.1])].into(),
    };
    let validity = certificate.validity();
    let since = since::read(&certificate);
    let node = OfNode::of(&user, since, validity.not_before.timestamp());
    if let Some(since) = since.filter(|_| node.is_some()) {
        user.extra.insert(NODE_SINCE.to_owned(), vec![since.to_string()]);
    }
    Ok(Proven {
        user: Arc::new(among_the_authenticated(user)),
        not_before: validity.not_before.timestamp(),
        not_after: validity.not_after.timestamp(),
        node,
    })
}
