//! What any bytes do to those who read a client's certificate. The fuzz target calls it, and the
//! test suite does with random bytes.

use std::sync::LazyLock;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use stdx::Random;

use super::super::{self as pki, tls};
use super::authority::Authority;
use super::version1::Version1;
use crate::ClientCertificate;

/// Nobody but this process has its key.
static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let authority = pki::Authority::create("nobody", Timestamp::UNIX_EPOCH, &Random::from_seed(1));
    let pem = authority.expect("an authority can be made").certificate_pem().to_owned();
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).expect("it is PEM");
    Authority::read(&der).expect("it may sign")
});

/// Whatever it is, it is not signed by an authority that nobody has.
pub fn certificate(bytes: &[u8]) {
    let _ = ClientCertificate::read(bytes);
    let _ = Authority::read(bytes);
    let Some(plain) = Version1::read(bytes) else { return };
    let algorithms = tls::provider().signature_verification_algorithms.all;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1));
    let verified = plain.verify(std::slice::from_ref(&*AUTHORITY), algorithms, now);
    assert!(verified.is_err(), "{bytes:02x?}");
}
