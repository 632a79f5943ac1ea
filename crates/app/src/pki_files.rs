//! The certificates and keys of a cluster, on disk: made on the first start, kept afterwards, renewed before they end.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use authn::pki::{Authority, Identity, ServiceAccountKey};
use jiff::{SignedDuration, Timestamp};
use stdx::World;

use crate::data_dir::{make_private, write_private};

/// Leaves are made anew at start when they end within this time.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Everything that proves who is who.
pub(crate) struct Pki {
    pub(crate) authority: Authority,
    pub(crate) server: Identity,
    pub(crate) admin: Identity,
    pub(crate) service_account_key: Arc<ServiceAccountKey>,
    folder: PathBuf,
    now: Timestamp,
    world: World,
}

impl Pki {
    /// `names` and `addresses` are what the API server answers to.
    pub(crate) fn load_or_create(
        folder: &Path,
        world: &World,
        names: &[&str],
        addresses: &[IpAddr],
    ) -> Result<Self> {
        make_private(folder).with_context(|| format!("making {}", folder.display()))?;
        let now = world.clock.now();
        let authority = match read_pair(folder, "ca")? {
            Some(pair) => Authority::load(&pair.certificate_pem, &pair.private_key_pem)
                .with_context(|| {
                    format!("reading the certificate authority in {}", folder.display())
                })?,
            None => {
                let authority = Authority::create("xebec", now, &world.random)?;
                write_pair(folder, "ca", &authority.identity())?;
                authority
            }
        };
        let subjects = format!("{names:?} {addresses:?}");
        let server = load_or_issue(folder, ("apiserver", &subjects), &authority, now, || {
            authority.issue_server("kube-apiserver", names, addresses, now, &world.random)
        })?;
        let admin = load_or_issue(folder, ("admin", ""), &authority, now, || {
            authority.issue_client("xebec-admin", &["system:masters"], now, &world.random)
        })?;
        let service_account_key =
            Arc::new(service_account_key(&folder.join("service-account.key"))?);
        Ok(Self {
            authority,
            server,
            admin,
            service_account_key,
            folder: folder.to_owned(),
            now,
            world: world.clone(),
        })
    }

    /// The client certificate of a component that runs alone.
    pub(crate) fn component(&self, file: &str, user: &str) -> Result<Identity> {
        self.client(file, user, &[])
    }

    /// What the API server shows to kubelets.
    pub(crate) fn kubelet_client(&self) -> Result<Identity> {
        let user = "kube-apiserver-kubelet-client";
        self.client("apiserver-kubelet-client", user, &["system:masters"])
    }

    fn client(&self, file: &str, user: &str, groups: &[&str]) -> Result<Identity> {
        load_or_issue(&self.folder, (file, ""), &self.authority, self.now, || {
            self.authority.issue_client(user, groups, self.now, &self.world.random)
        })
    }

    /// What the kubelet shows to those who call it.
    pub(crate) fn kubelet_serving(&self, node: &str, addresses: &[IpAddr]) -> Result<Identity> {
        let subjects = format!("{node} {addresses:?}");
        load_or_issue(&self.folder, ("kubelet", &subjects), &self.authority, self.now, || {
            let name = format!("system:node:{node}");
            self.authority.issue_server(&name, &[node], addresses, self.now, &self.world.random)
        })
    }
}

/// A leaf that is missing, near its end, from another authority or for other subjects is issued anew.
fn load_or_issue(
    folder: &Path,
    (name, subjects): (&str, &str),
    authority: &Authority,
    now: Timestamp,
    issue: impl FnOnce() -> Result<Identity, authn::pki::Error>,
) -> Result<Identity> {
    // Which authority issued it, and for what: without this, a replaced CA would leave leaves that nobody trusts.
    let issuer = folder.join(format!("{name}.issuer"));
    let origin = format!("{}{subjects}", authority.certificate_pem());
    let is_ours = fs::read_to_string(&issuer).is_ok_and(|it| it == origin);
    if let Some(identity) = read_pair(folder, name)?
        && is_ours
        && identity.not_after().is_ok_and(|end| end.duration_since(now) > RENEW_BEFORE)
    {
        return Ok(identity);
    }
    let identity = issue().with_context(|| format!("issuing the certificate `{name}`"))?;
    write_pair(folder, name, &identity)?;
    write_private(&issuer, origin.as_bytes())?;
    Ok(identity)
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

fn read_pair(folder: &Path, name: &str) -> Result<Option<Identity>> {
    let (certificate, key) =
        (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
    if !certificate.exists() && !key.exists() {
        return Ok(None);
    }
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    };
    Ok(Some(Identity { certificate_pem: read(&certificate)?, private_key_pem: read(&key)? }))
}

/// The key first: a certificate without its key would be taken for a whole pair.
fn write_pair(folder: &Path, name: &str, identity: &Identity) -> Result<()> {
    for (ending, content) in
        [("key", &identity.private_key_pem), ("crt", &identity.certificate_pem)]
    {
        let path = folder.join(format!("{name}.{ending}"));
        write_private(&path, content.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
