//! The cluster's certificate authority, certificates, and keys, all as PEM in memory. Files are the
//! app's business.

mod authority;
mod clients;
mod der;
mod offer;
mod pod_key;
mod requested;
mod rotating;
mod service_account_key;
pub(crate) mod since;
mod tls;
mod verifying_key;
mod wanted;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use x509_parser::pem::parse_x509_pem;

pub use authority::Authority;
pub use clients::{ChangingTrust, Trust, garbage};
pub use offer::{Group, MinVersion, Offer, OfferError, Suite};
pub use pod_key::PodKey;
pub use requested::Terms;
pub use rotating::Rotating;
pub use service_account_key::ServiceAccountKey;
pub use tls::{
    changing_server_config, client_config, rotating_client_config, rotating_server_config,
    server_config, trusting_server_config,
};
pub use verifying_key::VerifyingKey;
pub use wanted::{Subject, Wanted, pin, validity};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the key cannot be read or made: {0}")]
    Key(String),
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
    #[error("signing: {0}")]
    Sign(String),
    #[error("a client certificate carries at most one organization; {0} were asked for")]
    Organizations(usize),
    #[error("{0:?} cannot be a name in a certificate")]
    Name(String),
    #[error("the request cannot be read: {0}")]
    Request(String),
    #[error("the attribute {0} of the subject is no text")]
    Subject(String),
    #[error("unrecognized usage values: [{0:?}]")]
    Usage(String),
    #[error("the TLS configuration: {0}")]
    Tls(String),
}

/// A certificate with its private key.
#[derive(Clone)]
pub struct Identity {
    pub certificate_pem: String,
    pub private_key_pem: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys stay out of logs.
        f.debug_struct("Identity")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

impl Identity {
    pub fn not_after(&self) -> Result<Timestamp, Error> {
        not_after(&self.certificate_pem)
    }
}

/// The end of the validity of the first certificate in `pem`: renew before it.
pub fn not_after(pem: &str) -> Result<Timestamp, Error> {
    let unreadable = |err: String| Error::Certificate(err);
    let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|err| unreadable(err.to_string()))?;
    let certificate = pem.parse_x509().map_err(|err| unreadable(err.to_string()))?;
    Timestamp::from_second(certificate.validity().not_after.timestamp())
        .map_err(|err| unreadable(err.to_string()))
}
