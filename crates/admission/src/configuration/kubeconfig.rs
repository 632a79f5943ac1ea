//! Kubeconfigs that settings name: who this server is to those whom plugins ask, and where they are.
//! What is wrong with one is told with its path, and with line or user.

use std::path::{Path, PathBuf};

use client::hooks::{Credentials, Identity, IdentityError, Place, Target};
use client::kubeconfig::{self, Source, Users};

use super::Error;

pub(crate) struct Kubeconfig {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Kubeconfig {
    /// By the names of its users.
    pub(crate) fn credentials(&self) -> Result<Credentials, Error> {
        let made = Credentials::new(&self.users()?, self.folder());
        made.map_err(|(user, err)| self.unusable(&user, &err))
    }

    /// The server of its current context, as its user.
    pub(crate) fn target(&self) -> Result<Target, Error> {
        let context = kubeconfig::pick(&self.text, None).map_err(|err| self.unreadable(err))?;
        if !context.server.starts_with("https://") {
            let what = format!("{:?} is no https URL", context.server);
            return Err(self.refused("clusters[].cluster.server", what));
        }
        let authority = match &context.ca {
            None => Vec::new(),
            Some(Source::Inline(pem)) => pem.clone(),
            Some(Source::File(name)) => {
                let path = self.folder().join(name);
                std::fs::read(&path).map_err(|source| Error::read(&path, source))?
            }
        };
        let target = Target::new(Place::Url { url: context.server }, &authority);
        let target = target.named(context.tls_server_name);
        let target = if context.is_insecure { target.unverified() } else { target };
        let users = self.users()?;
        let named = users.current.as_ref().and_then(|it| Some((it, users.by_name.get(it)?)));
        let Some((name, user)) = named else { return Ok(target) };
        let identity = Identity::new(user, self.folder());
        Ok(target.as_user(identity.map_err(|err| self.unusable(name, &err))?))
    }

    fn users(&self) -> Result<Users, Error> {
        kubeconfig::users(&self.text).map_err(|err| self.unreadable(err))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or_else(|| Path::new(""))
    }

    fn unreadable(&self, err: kubeconfig::Error) -> Error {
        match err {
            kubeconfig::Error::Parse(source) => Error::parse(&self.path, &self.text, *source),
            err => self.refused("users", stdx::error_chain(&err).to_string()),
        }
    }

    fn unusable(&self, user: &str, err: &IdentityError) -> Error {
        self.refused(&format!("users[{user:?}]"), stdx::error_chain(err).to_string())
    }

    fn refused(&self, field: &str, what: String) -> Error {
        Error::Refused { path: self.path.clone(), field: field.to_owned(), what }
    }
}
