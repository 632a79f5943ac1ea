//! One certificate with its key, as two files, and a third that says for what it was issued.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use authn::pki::{Authority, Identity};
use jiff::{SignedDuration, Timestamp};
use stdx::World;

use crate::data_dir::write_private;
use crate::server_names::Subjects;

/// A leaf is made anew when it ends within this time.
pub(super) const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A certificate that there should be.
pub(super) struct Leaf {
    /// The name of its files, without their endings.
    pub(super) file: String,
    pub(super) purpose: Purpose,
}

pub(super) enum Purpose {
    Server { common_name: String, subjects: Subjects },
    Client { user: String, groups: Vec<String> },
}

impl Leaf {
    pub(super) fn client(file: &str, user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|it| (*it).to_owned()).collect();
        Self { file: file.to_owned(), purpose: Purpose::Client { user: user.to_owned(), groups } }
    }

    /// What makes it another one.
    fn subjects(&self) -> String {
        match &self.purpose {
            Purpose::Server { common_name, subjects: Subjects { names, addresses } } => {
                format!("{common_name} {names:?} {addresses:?}")
            }
            Purpose::Client { .. } => String::new(),
        }
    }
}

/// Where leaves are kept, and who issues them.
#[derive(Clone)]
pub(super) struct Cabinet {
    pub(super) folder: PathBuf,
    pub(super) authority: Arc<Authority>,
    pub(super) world: World,
}

impl Cabinet {
    /// A leaf that is missing, near its end, from another authority or for other subjects is issued
    /// anew.
    pub(super) fn load_or_issue(&self, leaf: &Leaf) -> Result<Identity> {
        let (folder, file, now) = (&self.folder, &leaf.file, self.world.clock.now());
        // Which authority issued it, and for what: without this, a replaced CA would leave leaves
        // that nobody trusts.
        let issuer = folder.join(format!("{file}.issuer"));
        let origin = format!("{}{}", self.authority.certificate_pem(), leaf.subjects());
        let is_ours = fs::read_to_string(&issuer).is_ok_and(|it| it == origin);
        if let Some(identity) = read_pair(folder, file)?
            && is_ours
            && identity.not_after().is_ok_and(|end| end.duration_since(now) > RENEW_BEFORE)
        {
            return Ok(identity);
        }
        let identity = self.issue(leaf, now);
        let identity = identity.with_context(|| format!("issuing the certificate `{file}`"))?;
        write_pair(folder, file, &identity)?;
        write_private(&issuer, origin.as_bytes())
            .with_context(|| format!("writing {}", issuer.display()))?;
        Ok(identity)
    }

    fn issue(&self, leaf: &Leaf, now: Timestamp) -> Result<Identity, authn::pki::Error> {
        let random = &self.world.random;
        match &leaf.purpose {
            Purpose::Server { common_name, subjects: Subjects { names, addresses } } => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                self.authority.issue_server(common_name, &names, addresses, now, random)
            }
            Purpose::Client { user, groups } => {
                let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
                self.authority.issue_client(user, &groups, now, random)
            }
        }
    }
}

pub(crate) fn read_pair(folder: &Path, name: &str) -> Result<Option<Identity>> {
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

/// One that is not there is no error.
pub(crate) fn remove_pair(folder: &Path, name: &str) -> Result<()> {
    for ending in ["crt", "key"] {
        let path = folder.join(format!("{name}.{ending}"));
        match fs::remove_file(&path) {
            Err(err) if err.kind() != std::io::ErrorKind::NotFound => {
                return Err(err).with_context(|| format!("removing {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The key first: a certificate without its key would be taken for a whole pair.
pub(crate) fn write_pair(folder: &Path, name: &str, identity: &Identity) -> Result<()> {
    for (ending, content) in
        [("key", &identity.private_key_pem), ("crt", &identity.certificate_pem)]
    {
        let path = folder.join(format!("{name}.{ending}"));
        write_private(&path, content.as_bytes())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
