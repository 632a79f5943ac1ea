//! Keys that sign certificates for others: of authorities in files, read again when they change,
//! or the cluster's own.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use authn::pki::{Authority, Identity, Rotating};
use control_plane::{
    AuthoritySigner, CertificateTerms, KUBE_APISERVER_CLIENT, KUBE_APISERVER_CLIENT_KUBELET,
    KUBELET_SERVING, LEGACY_UNKNOWN, SignCertificate, Signers, signs_all,
};
use jiff::Timestamp;
use stdx::{Random, World};

use crate::switch::{self, named};

#[derive(clap::Args, Clone, Default)]
#[group(skip)]
pub(crate) struct Flags {
    /// The authority that signs requests for certificates, for all of Kubernetes' own signers
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_key_file: Option<PathBuf>,
    /// The authority for the signer kubernetes.io/kubelet-serving; those without one sign nothing
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_kubelet_serving_key_file: Option<PathBuf>,
    /// The authority for the signer kubernetes.io/kube-apiserver-client-kubelet
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_kubelet_client_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_kubelet_client_key_file: Option<PathBuf>,
    /// The authority for the signer kubernetes.io/kube-apiserver-client
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_kube_apiserver_client_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_kube_apiserver_client_key_file: Option<PathBuf>,
    /// The authority for the signer kubernetes.io/legacy-unknown
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_legacy_unknown_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", value_parser = switch::path)]
    cluster_signing_legacy_unknown_key_file: Option<PathBuf>,
}

impl Flags {
    /// By the files that are named; if none are, `own` signs for all.
    pub(crate) fn signers(&self, own: Option<&Arc<Authority>>, world: &World) -> Result<Signers> {
        let default = Files::named(
            "",
            named(&self.cluster_signing_cert_file),
            named(&self.cluster_signing_key_file),
        )?;
        let mut specific: BTreeMap<&'static str, Files> = BTreeMap::new();
        for (signer, flag, certificate, key) in self.pairs() {
            if let Some(files) = Files::named(flag, certificate, key)? {
                specific.insert(signer, files);
            }
        }
        if default.is_some() && !specific.is_empty() {
            bail!("cannot specify default and per controller certs at the same time");
        }
        let signers: Signers = match (default, own) {
            (Some(files), _) => signs_all(Arc::new(files.open(world)?)),
            (None, Some(own)) if specific.is_empty() => {
                let (authority, random) = (own.clone(), world.random.clone());
                signs_all(Arc::new(AuthoritySigner { authority, random }))
            }
            (None, _) => {
                let open = |(signer, files): (&'static str, Files)| {
                    let opened: Arc<dyn SignCertificate> = Arc::new(files.open(world)?);
                    Ok((signer, opened))
                };
                specific.into_iter().map(open).collect::<Result<_>>()?
            }
        };
        Ok(signers)
    }

    fn pairs(&self) -> [(&'static str, &'static str, Option<&Path>, Option<&Path>); 4] {
        [
            (
                KUBELET_SERVING,
                "kubelet-serving-",
                named(&self.cluster_signing_kubelet_serving_cert_file),
                named(&self.cluster_signing_kubelet_serving_key_file),
            ),
            (
                KUBE_APISERVER_CLIENT_KUBELET,
                "kubelet-client-",
                named(&self.cluster_signing_kubelet_client_cert_file),
                named(&self.cluster_signing_kubelet_client_key_file),
            ),
            (
                KUBE_APISERVER_CLIENT,
                "kube-apiserver-client-",
                named(&self.cluster_signing_kube_apiserver_client_cert_file),
                named(&self.cluster_signing_kube_apiserver_client_key_file),
            ),
            (
                LEGACY_UNKNOWN,
                "legacy-unknown-",
                named(&self.cluster_signing_legacy_unknown_cert_file),
                named(&self.cluster_signing_legacy_unknown_key_file),
            ),
        ]
    }
}

/// Where an authority is.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn named(flag: &str, certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<Self>> {
        match (certificate, key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Ok(Some(Self { certificate: certificate.to_owned(), key: key.to_owned() }))
            }
            (Some(_), None) => {
                bail!("--cluster-signing-{flag}cert-file needs --cluster-signing-{flag}key-file")
            }
            (None, Some(_)) => {
                bail!("--cluster-signing-{flag}key-file needs --cluster-signing-{flag}cert-file")
            }
        }
    }

    fn read(&self) -> Result<Identity> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
        };
        Ok(Identity {
            certificate_pem: read(&self.certificate)?,
            private_key_pem: read(&self.key)?,
        })
    }

    fn load(&self, identity: &Identity) -> Result<Arc<Authority>> {
        let path = self.certificate.display();
        let found = api::certificates::pem::blocks(&identity.certificate_pem).len();
        if found != 1 {
            bail!("error reading CA cert file {path}: expected 1 certificate, found {found}");
        }
        // Checks that the two belong together.
        Rotating::new(identity).with_context(|| format!("error reading CA cert file {path}"))?;
        let authority = Authority::load(&identity.certificate_pem, &identity.private_key_pem);
        Ok(Arc::new(authority.with_context(|| format!("error reading CA cert file {path}"))?))
    }

    fn open(self, world: &World) -> Result<InFiles> {
        let identity = self.read()?;
        let authority = self.load(&identity)?;
        let random = world.random.clone();
        Ok(InFiles { files: self, current: Mutex::new((identity, authority)), random })
    }
}

/// An authority in files, as they are when something is to be signed.
struct InFiles {
    files: Files,
    current: Mutex<(Identity, Arc<Authority>)>,
    random: Random,
}

impl InFiles {
    fn signer(&self) -> Result<AuthoritySigner> {
        let read = self.files.read()?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = read.certificate_pem == current.0.certificate_pem
            && read.private_key_pem == current.0.private_key_pem;
        if !is_same {
            let authority = self.files.load(&read)?;
            *current = (read, authority);
        }
        Ok(AuthoritySigner { authority: current.1.clone(), random: self.random.clone() })
    }
}

impl SignCertificate for InFiles {
    fn not_after(&self) -> Result<Timestamp, Box<dyn Error + Send + Sync>> {
        self.signer()?.not_after()
    }

    fn sign(
        &self,
        request: &[u8],
        terms: &CertificateTerms,
    ) -> Result<String, Box<dyn Error + Send + Sync>> {
        self.signer()?.sign(request, terms)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use authn::pki::Authority;
    use jiff::Timestamp;
    use stdx::{Random, World};

    use super::{Flags, KUBELET_SERVING};

    fn write(directory: &std::path::Path, name: &str) {
        let authority =
            Authority::create(name, Timestamp::now(), &Random::from_seed(1)).unwrap().identity();
        fs::write(directory.join(format!("{name}.crt")), authority.certificate_pem).unwrap();
        fs::write(directory.join(format!("{name}.key")), authority.private_key_pem).unwrap();
    }

    #[test]
    fn files_are_for_all_signers_or_for_one_and_change_while_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(directory.path().join(name));
        write(directory.path(), "a");
        write(directory.path(), "b");
        let world = World::system();
        let of = |flags: &Flags| {
            let signers = flags.signers(None, &world);
            signers.map(|it| it.into_keys().collect::<Vec<_>>()).map_err(|it| format!("{it:#}"))
        };
        assert_eq!(of(&Flags::default()).unwrap(), Vec::<&str>::new());
        let mut flags = Flags {
            cluster_signing_cert_file: at("a.crt"),
            cluster_signing_key_file: at("a.key"),
            ..Flags::default()
        };
        assert_eq!(of(&flags).unwrap().len(), 5);
        flags.cluster_signing_kubelet_serving_cert_file = at("b.crt");
        let needs = "--cluster-signing-kubelet-serving-cert-file needs \
                     --cluster-signing-kubelet-serving-key-file";
        assert_eq!(of(&flags).unwrap_err(), needs);
        flags.cluster_signing_kubelet_serving_key_file = at("b.key");
        let both = "cannot specify default and per controller certs at the same time";
        assert_eq!(of(&flags).unwrap_err(), both);
        flags.cluster_signing_cert_file = None;
        flags.cluster_signing_key_file = None;
        assert_eq!(of(&flags).unwrap(), [KUBELET_SERVING]);
        let signers = flags.signers(None, &world).unwrap();
        assert!(signers[KUBELET_SERVING].not_after().is_ok());
        // A pair that does not belong together is no pair, at the start or later.
        fs::copy(directory.path().join("a.key"), directory.path().join("b.key")).unwrap();
        assert!(of(&flags).unwrap_err().starts_with("error reading CA cert file"));
        assert!(signers[KUBELET_SERVING].not_after().is_err());
        fs::copy(directory.path().join("a.crt"), directory.path().join("b.crt")).unwrap();
        assert!(signers[KUBELET_SERVING].not_after().is_ok());
    }
}
