//! An authority in this process that signs certificates for all of Kubernetes' own signers and ours.

use std::error::Error;
use std::sync::Arc;

use authn::pki::{Authority, Terms};
use controllers::{
    CertificateTerms, KUBE_APISERVER_CLIENT, KUBE_APISERVER_CLIENT_KUBELET, KUBELET_SERVING,
    LEGACY_UNKNOWN, NODE_COMPONENT, SignCertificate, Signers,
};
use jiff::Timestamp;
use stdx::Random;

const ALL: [&str; 5] = [
    KUBE_APISERVER_CLIENT,
    KUBE_APISERVER_CLIENT_KUBELET,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    NODE_COMPONENT,
];

/// The same for all.
pub fn signs_all(signer: Arc<dyn SignCertificate>) -> Signers {
    ALL.into_iter().map(|it| (it, signer.clone())).collect()
}

pub struct AuthoritySigner {
    pub authority: Arc<Authority>,
    pub random: Random,
}

impl SignCertificate for AuthoritySigner {
    fn not_after(&self) -> Result<Timestamp, Box<dyn Error + Send + Sync>> {
        Ok(self.authority.not_after()?)
    }

    fn sign(
        &self,
        request: &[u8],
        terms: &CertificateTerms,
    ) -> Result<String, Box<dyn Error + Send + Sync>> {
        let CertificateTerms { usages, not_before, not_after, since } = terms.clone();
        let terms = Terms { usages, not_before, not_after, since };
        Ok(self.authority.sign_request(request, &terms, &self.random)?)
    }
}
