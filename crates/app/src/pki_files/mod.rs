//! The certificates and keys of a cluster, on disk: made on the first start, kept afterwards,
//! renewed before they end: those that are shown to others also while they are in use.

mod leaf;
mod renewal;

#[cfg(test)]
mod tests;

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use authn::pki::{Authority, Identity, Rotating, ServiceAccountKey};
use lifecycle::Tasks;
use stdx::World;

use self::leaf::{Cabinet, Leaf, Purpose, read_pair, write_pair};
use crate::data_dir::{make_private, write_private};
use crate::server_names::Subjects;

/// Everything that proves who is who.
pub(crate) struct Pki {
    pub(crate) authority: Arc<Authority>,
    pub(crate) admin: Identity,
    pub(crate) service_account_key: Arc<ServiceAccountKey>,
    cabinet: Cabinet,
}

impl Pki {
    pub(crate) fn load_or_create(folder: &Path, world: &World) -> Result<Self> {
        make_private(folder).with_context(|| format!("making {}", folder.display()))?;
        let authority = match read_pair(folder, "ca")? {
            Some(pair) => Authority::load(&pair.certificate_pem, &pair.private_key_pem)
                .with_context(|| {
                    format!("reading the certificate authority in {}", folder.display())
                })?,
            None => {
                let authority = Authority::create("xebec", world.clock.now(), &world.random)?;
                write_pair(folder, "ca", &authority.identity())?;
                authority
            }
        };
        let authority = Arc::new(authority);
        let cabinet = Cabinet {
            folder: folder.to_owned(),
            authority: authority.clone(),
            world: world.clone(),
        };
        let admin =
            cabinet.load_or_issue(&Leaf::client("admin", "xebec-admin", &["system:masters"]))?;
        let service_account_key =
            Arc::new(service_account_key(&folder.join("service-account.key"))?);
        Ok(Self { authority, admin, service_account_key, cabinet })
    }

    /// The client certificate of a component that runs alone.
    pub(crate) fn component(&self, file: &str, user: &str) -> Result<Identity> {
        self.cabinet.load_or_issue(&Leaf::client(file, user, &[]))
    }

    /// What the API server shows to its clients: for what it answers to at this start.
    pub(crate) fn server(&self, subjects: Subjects, tasks: &Tasks) -> Result<Arc<Rotating>> {
        let purpose = Purpose::Server { common_name: "kube-apiserver".to_owned(), subjects };
        self.keep_current(Leaf { file: "apiserver".to_owned(), purpose }, tasks)
    }

    /// What the API server shows to kubelets.
    pub(crate) fn kubelet_client(&self, tasks: &Tasks) -> Result<Arc<Rotating>> {
        let user = "kube-apiserver-kubelet-client";
        let leaf = Leaf::client("apiserver-kubelet-client", user, &["system:masters"]);
        self.keep_current(leaf, tasks)
    }

    /// What the kubelet shows to those who call it.
    pub(crate) fn kubelet_serving(
        &self,
        node: &str,
        addresses: &[IpAddr],
        tasks: &Tasks,
    ) -> Result<Arc<Rotating>> {
        let subjects = Subjects { names: vec![node.to_owned()], addresses: addresses.to_vec() };
        let purpose = Purpose::Server { common_name: format!("system:node:{node}"), subjects };
        self.keep_current(Leaf { file: "kubelet".to_owned(), purpose }, tasks)
    }

    /// A certificate that is good for as long as the process runs.
    fn keep_current(&self, leaf: Leaf, tasks: &Tasks) -> Result<Arc<Rotating>> {
        let identity = self.cabinet.load_or_issue(&leaf)?;
        let (current, end) = (Rotating::new(&identity)?, identity.not_after()?);
        let (cabinet, shown) = (self.cabinet.clone(), current.clone());
        tasks.spawn("certificate-renewal", |shutdown| {
            renewal::run(cabinet, leaf, shown, end, shutdown)
        });
        Ok(current)
    }
}

fn service_account_key(path: &Path) -> Result<ServiceAccountKey> {
    if path.exists() {
        let pem =
            fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        return ServiceAccountKey::load(&pem)
            .with_context(|| format!("reading {}", path.display()));
    }
    let key = ServiceAccountKey::create()?;
    write_private(path, key.private_pem().as_bytes())
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(key)
}
