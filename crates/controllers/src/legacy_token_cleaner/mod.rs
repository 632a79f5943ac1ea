//! Tokens that older clusters made for every account, and that nobody uses any more: marked
//! invalid after a period without use, and deleted after another one.
//!
//! Days are what is counted, so this looks once a day: by then the cache shows what it wrote, and
//! every write carries the uid or the version that was looked at.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Identified as _;
use api::core::pod_spec::references;
use api::core::secret::SecretView;
use api::core::{ConfigMap, Pod, Secret, ServiceAccount};
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, ListOptions, PatchKind, Preconditions};
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, Reconciler};
use serde_json::json;
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::{Action, Candidate, Limits};
use crate::flags::duration;
use crate::{Descriptor, Flags, MANAGER, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "legacy-serviceaccount-token-cleaner-controller",
    aliases: &["legacy-service-account-token-cleaner"],
    identity: "legacy-service-account-token-cleaner",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// How long a token that was made for an account may be without use before it is marked
    /// invalid, and then before it is deleted
    #[arg(long, value_name = "DURATION", default_value = "8760h0m0s", value_parser = duration)]
    legacy_service_account_token_clean_up_period: Duration,
}

const INTERVAL: Duration = Duration::from_secs(24 * 3600);
const NAMESPACE: &str = "kube-system";
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
/// There is one thing to do.
const ALL: &str = "all-tokens";

struct Cleaner {
    secrets: Indexer<SecretView>,
    accounts: Indexer<ServiceAccount>,
    secrets_api: Api<Secret>,
    config_maps_api: Api<ConfigMap>,
    /// Only asked where a token would go.
    pods_api: Api<Pod>,
    period: Duration,
    clock: SharedClock,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = Cleaner {
        secrets: controller.cache(),
        accounts: controller.cache(),
        secrets_api: startup.client.api(),
        config_maps_api: startup.client.api(),
        pods_api: (startup.client_for)(MANAGER).api(),
        period: startup.settings::<Settings>().legacy_service_account_token_clean_up_period,
        clock: startup.world.clock.clone(),
    };
    controller.queue().add(ALL);
    controller.run(reconciler);
}

impl Reconciler for Cleaner {
    type Key = &'static str;
    type Error = Failed;

    async fn reconcile(&self, _all: &&'static str) -> Result<Next, Failed> {
        let key = ObjectKey::new(NAMESPACE, TRACKING);
        let tracking = self.config_maps_api.get(NAMESPACE, TRACKING).await.unless_gone();
        let tracking = tracking.map_err(Failed::to::<ConfigMap>("read", &key))?;
        let data = tracking.as_ref().and_then(|it| it.data.as_ref());
        let since = data.and_then(|it| it.get("since")).map_or("", String::as_str);
        let Some(limits) = Limits::new(since, self.period, self.clock.now()) else {
            return Ok(Next::After(INTERVAL));
        };
        let mut used = BTreeMap::new();
        for secret in self.secrets.list() {
            let action = plan::plan(&self.candidate(&secret), &limits);
            if action == Action::Nothing || self.is_used(&secret, &mut used).await? {
                continue;
            }
            self.apply(&secret, action).await?;
        }
        Ok(Next::After(INTERVAL))
    }
}

impl Cleaner {
    fn candidate<'a>(&self, secret: &'a SecretView) -> Candidate<'a> {
        let token = secret.token.as_deref();
        let account = token.and_then(|token| {
            let key = ObjectKey::new(secret.namespace(), &token.account);
            let account = self.accounts.get(&key)?;
            let is_it = token.account_uid.is_empty() || account.uid() == token.account_uid;
            is_it.then_some(account)
        });
        let name = &secret.meta.key.name;
        let is_automatic = account.is_some_and(|it| {
            it.secrets.iter().flatten().any(|it| it.name.as_deref() == Some(name.as_str()))
        });
        Candidate {
            created: token.and_then(|it| it.created),
            is_automatic,
            is_deleting: secret.is_deleting(),
            last_used: secret.label(plan::LAST_USED),
            invalid_since: secret.label(plan::INVALID_SINCE),
        }
    }

    /// Whether a pod names the Secret. Each namespace is asked for once.
    async fn is_used(
        &self,
        secret: &SecretView,
        used: &mut BTreeMap<String, BTreeSet<String>>,
    ) -> Result<bool, Failed> {
        let namespace = secret.namespace();
        if !used.contains_key(namespace) {
            let pods = self.pods_api.list(namespace, ListOptions::default()).await;
            let pods = pods.map_err(Failed::to::<Pod>("list", &ObjectKey::cluster(namespace)))?;
            let mut names = BTreeSet::new();
            for pod in &pods.items {
                // One that cannot be read may use any.
                let Ok(pod) = pod.shared::<Pod>() else { return Ok(true) };
                let spec = pod.spec.iter();
                names.extend(spec.flat_map(references::secrets).map(str::to_owned));
            }
            used.insert(namespace.to_owned(), names);
        }
        Ok(used.get(namespace).is_some_and(|it| it.contains(&secret.meta.key.name)))
    }

    async fn apply(&self, secret: &SecretView, action: Action) -> Result<(), Failed> {
        let key = secret.key();
        match action {
            Action::Nothing => Ok(()),
            Action::Invalidate(today) => {
                tracing::info!(secret = %key, "a token that nobody uses is marked invalid");
                let labels = json!({plan::INVALID_SINCE: today});
                let patch = json!({"metadata": {"uid": secret.uid(), "labels": labels}});
                let body = patch.to_string().into();
                let api = &self.secrets_api;
                let patched = api.patch(&key.namespace, &key.name, PatchKind::Merge, body).await;
                patched.unless_replaced().map_err(Failed::to::<Secret>("mark", &key)).map(|_| ())
            }
            Action::Delete => {
                tracing::info!(secret = %key, "a token that was invalid for long is deleted");
                let version = Some(secret.version().to_string());
                let preconditions = Preconditions { uid: None, resource_version: version };
                let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
                let deleted = self.secrets_api.delete(&key.namespace, &key.name, options).await;
                deleted.unless_replaced().map_err(Failed::to::<Secret>("delete", &key)).map(|_| ())
            }
        }
    }
}
