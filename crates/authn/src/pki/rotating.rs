//! An identity that is exchanged while it is in use: connections that are open keep the one they
//! began with, later ones get the newest.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::tls::certified;
use super::{Error, Identity};

/// What TLS asks for the certificate to show, on either side.
#[derive(Debug)]
pub struct Rotating {
    current: ArcSwap<CertifiedKey>,
}

impl Rotating {
    pub fn new(identity: &Identity) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self { current: ArcSwap::from_pointee(certified(identity)?) }))
    }

    /// From the next handshake on. An identity that cannot be used changes nothing.
    pub fn replace(&self, identity: &Identity) -> Result<(), Error> {
        self.current.store(Arc::new(certified(identity)?));
        Ok(())
    }

    /// What the next handshake shows, in DER.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        self.current.load().end_entity_cert().ok().map(|it| it.to_vec())
    }
}

impl ResolvesServerCert for Rotating {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl ResolvesClientCert for Rotating {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
