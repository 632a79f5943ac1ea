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

use self::leaf::{Cabinet, Leaf, Purpose};
pub(crate) use self::leaf::{read_pair, remove_pair, write_pair};
use crate::data_dir::{make_private, write_private};
use crate::server_names::Subjects;

/// Everything that proves who is who.
pub(crate) struct Pki {
    pub(crate) authority: Arc<Authority>,
    pub(crate) admin: Identity,
    pub(crate) service_account_key: Arc<ServiceAccountKey>,
    cabinet: Cabinet,
    /// Of those who speak for others, and nobody else.
    front_proxy: Cabinet,
}

impl Pki {
    pub(crate) fn load_or_create(folder: &Path, world: &World) -> Result<Self> {
        make_private(folder).with_context(|| format!("making {}", folder.display()))?;
        let users = Arc::new(authority(folder, "ca", "xebec", world)?);
        let front_proxy = authority(folder, "front-proxy-ca", "xebec-front-proxy", world)?;
        let of = |authority: Arc<Authority>| Cabinet {
            folder: folder.to_owned(),
            authority,
            world: world.clone(),
        };
        let (cabinet, front_proxy) = (of(users.clone()), of(Arc::new(front_proxy)));
        let admin =
            cabinet.load_or_issue(&Leaf::client("admin", "xebec-admin", &["system:masters"]))?;
        let service_account_key =
            Arc::new(service_account_key(&folder.join("service-account.key"))?);
        Ok(Self { authority: users, admin, service_account_key, cabinet, front_proxy })
    }

    /// By whom those are vouched for who speak for others, in PEM.
    pub(crate) fn front_proxy_authority(&self) -> &str {
        self.front_proxy.authority.certificate_pem()
    }

    /// What the API server shows to servers that serve parts of its API.
    pub(crate) fn front_proxy_client(&self, tasks: &Tasks) -> Result<Arc<Rotating>> {
        let leaf = Leaf::client("front-proxy-client", "front-proxy-client", &[]);
        keep_current(&self.front_proxy, leaf, tasks)
    }

    /// The client certificate of a component that runs alone.
    pub(crate) fn component(&self, file: &str, user: &str) -> Result<Identity> {
        self.cabinet.load_or_issue(&Leaf::client(file, user, &[]))
    }

    /// What the API server shows to its clients: for what it answers to at this start.
    pub(crate) fn server(&self, subjects: Subjects, tasks: &Tasks) -> Result<Arc<Rotating>> {
        let purpose = Purpose::Server { common_name: "kube-apiserver".to_owned(), subjects };
        keep_current(&self.cabinet, Leaf { file: "apiserver".to_owned(), purpose }, tasks)
    }

    /// What the API server shows to kubelets.
    pub(crate) fn kubelet_client(&self, tasks: &Tasks) -> Result<Arc<Rotating>> {
        let user = "kube-apiserver-kubelet-client";
        let leaf = Leaf::client("apiserver-kubelet-client", user, &["system:masters"]);
        keep_current(&self.cabinet, leaf, tasks)
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
        keep_current(&self.cabinet, Leaf { file: "kubelet".to_owned(), purpose }, tasks)
    }
}

fn authority(folder: &Path, file: &str, name: &str, world: &World) -> Result<Authority> {
    if let Some(pair) = read_pair(folder, file)? {
        return Authority::load(&pair.certificate_pem, &pair.private_key_pem).with_context(|| {
            format!("reading the certificate authority `{file}` in {}", folder.display())
        });
    }
    let authority = Authority::create(name, world.clock.now(), &world.random)?;
    write_pair(folder, file, &authority.identity())?;
    Ok(authority)
}

/// A certificate that is good for as long as the process runs.
fn keep_current(cabinet: &Cabinet, leaf: Leaf, tasks: &Tasks) -> Result<Arc<Rotating>> {
    let identity = cabinet.load_or_issue(&leaf)?;
    let (current, end) = (Rotating::new(&identity)?, identity.not_after()?);
    let (cabinet, shown) = (cabinet.clone(), current.clone());
    tasks
        .spawn("certificate-renewal", |shutdown| renewal::run(cabinet, leaf, shown, end, shutdown));
    Ok(current)
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
