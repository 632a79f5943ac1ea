//! Tokens in Secrets: made on request, kept complete, and gone with their account.
//!
//! A Secret of the type for tokens names its account in an annotation. It gets a token that is
//! signed with the key of this process (`--service-account-private-key-file`); without one the
//! controller does not start. What it writes to it reads from the server first, so that a cache
//! that is behind its own writes changes nothing.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Identified as _;
use api::core::secret::SecretView;
use api::core::{Secret, ServiceAccount};
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use informer::Indexer;
use k8s_openapi::ByteString;
use reconcile::{Change, Failed, Next, Outcome as _, Reconciler, WorkQueue};

pub(crate) use self::garbage::plan_any;
use self::plan::{Account, Action, Missing};
use crate::flags::at_least_one;
use crate::{Descriptor, Flags, SignToken, Startup, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "serviceaccount-token-controller",
    aliases: &["serviceaccount-token"],
    identity: crate::MANAGER,
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Secrets for tokens of service accounts that are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_serviceaccount_token_syncs: usize,
}

/// After so many a Secret is left alone until it, or its account, changes.
const RETRIES_MAX: u32 = 10;

/// Index: the account that a Secret is for, with its namespace.
const BY_ACCOUNT: &str = "service-account";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("sign the token of secret {secret}")]
    Sign {
        secret: ObjectKey,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(transparent)]
    Call(#[from] Failed),
}

/// A Secret, with the account that it is or was for: that may have to forget it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    secret: ObjectKey,
    account: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.secret, self.account)
    }
}

impl Key {
    fn of(secret: &SecretView) -> Option<Self> {
        let token = secret.token.as_ref().filter(|it| !it.account.is_empty())?;
        Some(Self { secret: secret.key(), account: token.account.clone() })
    }
}

struct Tokens {
    secrets: Indexer<SecretView>,
    accounts: Indexer<ServiceAccount>,
    secrets_api: Api<Secret>,
    accounts_api: Api<ServiceAccount>,
    root_ca: String,
    sign: SignToken,
}

fn start(startup: &Startup<'_>) {
    let Some(sign) = startup.sign_token.clone() else {
        let controller = DESCRIPTOR.name;
        tracing::warn!(controller, "not started: there is no --service-account-private-key-file");
        return;
    };
    let mut controller = startup.controller();
    let secrets: Indexer<SecretView> = controller.indexed_cache(&[(BY_ACCOUNT, index_by_account)]);
    let reconciler = Tokens {
        secrets: secrets.clone(),
        accounts: controller.cache(),
        secrets_api: startup.client.api(),
        accounts_api: startup.client.api(),
        root_ca: startup.root_ca.clone(),
        sign,
    };
    controller
        .watches(|it: &SecretView| Key::of(it))
        .follows(move |change: Change<'_, ServiceAccount>, queue: &WorkQueue<Key>| {
            // One that is there changes nothing for its tokens.
            if matches!(change, Change::Updated { before, after } if before.uid() == after.uid()) {
                return;
            }
            let account = change.latest().key().to_string();
            let secrets = secrets.by_index(BY_ACCOUNT, &account);
            secrets.iter().filter_map(|it| Key::of(it)).for_each(|it| queue.add(it));
        })
        .workers(startup.settings::<Settings>().concurrent_serviceaccount_token_syncs)
        .gives_up_after(RETRIES_MAX)
        .run(reconciler);
}

fn index_by_account(secret: &SecretView) -> Vec<String> {
    let key = Key::of(secret);
    key.map(|it| ObjectKey::new(&it.secret.namespace, &it.account).to_string())
        .into_iter()
        .collect()
}

impl Reconciler for Tokens {
    type Key = Key;
    type Error = Error;

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(secret) = self.secrets.get(&key.secret) else {
            self.forget(key).await?;
            return Ok(Next::Settled);
        };
        let Some(token) = secret.token.as_ref().filter(|it| it.account == key.account) else {
            return Ok(Next::Settled);
        };
        let account = self.account(key, &token.account_uid).await?;
        match plan::plan(token, account.as_ref(), &self.root_ca) {
            Action::Nothing => {}
            Action::Delete => self.delete(&secret).await?,
            Action::Fill(account) => self.fill(&secret, account).await?,
        }
        Ok(Next::Settled)
    }
}

impl Tokens {
    /// The account of a Secret. Before one is taken for gone the server is asked.
    async fn account(&self, key: &Key, uid: &str) -> Result<Option<Account>, Failed> {
        let account = ObjectKey::new(&key.secret.namespace, &key.account);
        let is_it = |it: &ServiceAccount| uid.is_empty() || owners::uid(&it.metadata) == uid;
        let of = |it: &ServiceAccount| Account {
            name: owners::name(&it.metadata).to_owned(),
            uid: owners::uid(&it.metadata).to_owned(),
        };
        if let Some(found) = self.accounts.get(&account).filter(|it| is_it(it)) {
            return Ok(Some(of(&found)));
        }
        let live = self.accounts_api.get(&account.namespace, &account.name).await.unless_gone();
        let live = live.map_err(Failed::to::<ServiceAccount>("read", &account))?;
        Ok(live.filter(|it| is_it(it)).map(|it| of(&it)))
    }

    async fn delete(&self, secret: &SecretView) -> Result<(), Failed> {
        let key = secret.key();
        let uid = Some(secret.uid().to_owned());
        let preconditions = Preconditions { uid, resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.secrets_api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_replaced().map_err(Failed::to::<Secret>("delete", &key))?;
        Ok(())
    }

    /// Into the Secret as it is; one that has changed since comes again.
    async fn fill(&self, secret: &SecretView, account: Account) -> Result<(), Error> {
        let key = secret.key();
        let live = self.secrets_api.get(&key.namespace, &key.name).await.unless_gone();
        let live = live.map_err(Failed::to::<Secret>("read", &key))?;
        let version = secret.version().to_string();
        let is_current =
            |it: &Arc<Secret>| it.metadata.resource_version.as_deref() == Some(version.as_str());
        let Some(live) = live.filter(is_current) else { return Ok(()) };
        let Missing { ca, namespace, token } = plan::missing(&live, &self.root_ca);
        let token = match token {
            false => None,
            true => Some(
                (self.sign)(&key, &account.name, &account.uid)
                    .map_err(|source| Error::Sign { secret: key.clone(), source })?,
            ),
        };
        let mut filled = Secret::clone(&live);
        let data = filled.data.get_or_insert_default();
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        if ca {
            data.insert("ca.crt".to_owned(), bytes(&self.root_ca));
        }
        if namespace {
            data.insert("namespace".to_owned(), bytes(&key.namespace));
        }
        if let Some(token) = token {
            data.insert("token".to_owned(), bytes(&token));
        }
        let annotations = filled.metadata.annotations.get_or_insert_default();
        annotations.insert(plan::ACCOUNT_NAME.to_owned(), account.name);
        annotations.insert(plan::ACCOUNT_UID.to_owned(), account.uid);
        let written = self.secrets_api.update(filled).await.unless_replaced();
        written.map_err(Failed::to::<Secret>("fill", &key))?;
        Ok(())
    }

    /// Takes a Secret that is gone out of the list of its account.
    async fn forget(&self, key: &Key) -> Result<(), Failed> {
        let account_key = ObjectKey::new(&key.secret.namespace, &key.account);
        let cached = self.accounts.get(&account_key);
        if !cached.is_some_and(|it| plan::refers(&it, &key.secret.name)) {
            return Ok(());
        }
        let (namespace, name) = (&key.secret.namespace, &key.secret.name);
        let live = self.secrets_api.get(namespace, name).await.unless_gone();
        if live.map_err(Failed::to::<Secret>("read", &key.secret))?.is_some() {
            return Ok(());
        }
        let account = self.accounts_api.get(namespace, &key.account).await.unless_gone();
        let account = account.map_err(Failed::to::<ServiceAccount>("read", &account_key))?;
        let Some(account) = account.filter(|it| plan::refers(it, name)) else { return Ok(()) };
        let updated = self.accounts_api.update(plan::without(&account, name)).await.unless_gone();
        updated.map_err(Failed::to::<ServiceAccount>("update", &account_key))?;
        Ok(())
    }
}
