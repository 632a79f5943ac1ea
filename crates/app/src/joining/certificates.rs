//! The certificates of a node: asked for, kept in its directory, and renewed at two thirds of their
//! life while they are in use.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use authn::pki::{Identity, Rotating, Subject, validity};
use client::Client;
use client::https::Https;
use control_plane::{KUBE_APISERVER_CLIENT_KUBELET, KUBELET_SERVING, NODE_COMPONENT};
use jiff::{SignedDuration, Timestamp};
use lifecycle::{Shutdown, Tasks};
use stdx::{Backoff, World};

use super::request::{Wish, ask};
use super::storage::Storage;

/// Signers begin certificates this much before they sign them: clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// A machine that sleeps does not count the time, so that the calendar is looked at once a day.
const LOOK_MAX: Duration = Duration::from_secs(24 * 3600);
const PATIENCE: Duration = Duration::from_secs(30);
/// As upstream's kubelet.
const PATIENCE_WITH_PEOPLE: Duration = Duration::from_secs(15 * 60);
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(3600);

/// What a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Who the node is to the API.
    Kubelet,
    /// What the kubelet shows to those who call it, at these addresses.
    Serving(Vec<IpAddr>),
    /// A user that runs on the node; the name of its files.
    Component(&'static str, &'static str),
}

impl Purpose {
    /// What runs on a node beside its kubelet.
    pub(crate) const COMPONENTS: [Self; 3] = [
        Self::Component("kube-proxy", crate::node::PROXY),
        Self::Component("coredns", crate::node::DNS),
        Self::Component("xebec-network", crate::node::NETWORK),
    ];

    pub(crate) fn file(&self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet-client",
            Self::Serving(_) => "kubelet",
            Self::Component(file, _) => file,
        }
    }

    fn signer(&self) -> (&'static str, &'static str) {
        match self {
            Self::Kubelet => (KUBE_APISERVER_CLIENT_KUBELET, "client auth"),
            Self::Serving(_) => (KUBELET_SERVING, "server auth"),
            Self::Component(..) => (NODE_COMPONENT, "client auth"),
        }
    }

    fn subject(&self, node: &str) -> Subject {
        let of_node = Subject {
            common_name: crate::node::user_of(node),
            organization: "system:nodes".to_owned(),
            ..Subject::default()
        };
        match self {
            Self::Kubelet => of_node,
            Self::Serving(addresses) => {
                Subject { names: vec![node.to_owned()], addresses: addresses.clone(), ..of_node }
            }
            Self::Component(_, user) => Subject {
                common_name: (*user).to_owned(),
                organization: format!("xebec:node:{node}"),
                ..Subject::default()
            },
        }
    }
}

/// Where they are kept, for which node, and how they are asked for.
#[derive(Clone)]
pub(crate) struct Credentials {
    storage: Storage,
    node: String,
    world: World,
    /// How long a request may wait for approval and signature.
    patience: Duration,
}

/// One that is kept: what connections show, and until when it holds.
pub(crate) struct Kept {
    pub(crate) purpose: Purpose,
    pub(crate) shown: Arc<Rotating>,
    life: Life,
}

impl Credentials {
    /// Where controllers approve and sign, which takes milliseconds.
    pub(crate) fn new(folder: PathBuf, node: &str, world: &World) -> Self {
        let (storage, node) = (Storage::Pairs(folder), node.to_owned());
        Self { storage, node, world: world.clone(), patience: PATIENCE }
    }

    /// Of an upstream kubelet, whose requests people may approve.
    pub(crate) fn of_kubelet(folder: PathBuf, node: &str, world: &World) -> Self {
        let (storage, node) = (Storage::Dated(folder), node.to_owned());
        Self { storage, node, world: world.clone(), patience: PATIENCE_WITH_PEOPLE }
    }

    /// As `client`, which is the node, or somebody who may become it.
    pub(crate) async fn ask(&self, client: &Client, purpose: &Purpose) -> Result<Identity> {
        let what = format!("{} ({})", self.node, purpose.file());
        let subject = purpose.subject(&self.node);
        let wish = Wish { signer: purpose.signer(), subject: &subject, patience: self.patience };
        ask(client, &wish, &what, &self.world).await
    }

    pub(crate) fn save(&self, purpose: &Purpose, identity: &Identity) -> Result<()> {
        self.storage.save(purpose, identity, self.world.clock.now())
    }

    /// For a node that is somebody else from now on.
    pub(crate) fn forget(&self, purpose: &Purpose) -> Result<()> {
        self.storage.forget(purpose)
    }

    /// `None`: there is none, or it holds no more.
    pub(crate) fn load(&self, purpose: &Purpose) -> Result<Option<Identity>> {
        let Some(identity) = self.storage.load(purpose)? else { return Ok(None) };
        let is_good = identity.not_after()? > self.world.clock.now();
        Ok(is_good.then_some(identity))
    }

    pub(crate) fn keep(&self, purpose: Purpose, identity: &Identity) -> Result<Kept> {
        let shown = Rotating::new(identity)
            .with_context(|| format!("using the certificate `{}`", purpose.file()))?;
        Ok(Kept { purpose, shown, life: Life::of(identity)? })
    }

    /// One that nobody signed, which is shown until there is a signed one.
    pub(crate) fn keep_unsigned(&self, purpose: Purpose, identity: &Identity) -> Result<Kept> {
        let now = self.world.clock.now();
        Ok(Kept { life: Life { begin: now, end: now }, ..self.keep(purpose, identity)? })
    }

    /// The one that there is, else a new one.
    pub(crate) async fn load_or_ask(&self, client: &Client, purpose: Purpose) -> Result<Kept> {
        if let Some(identity) = self.load(&purpose)? {
            return self.keep(purpose, &identity);
        }
        let identity = self.ask(client, &purpose).await?;
        self.save(&purpose, &identity)?;
        self.keep(purpose, &identity)
    }

    /// Renews it for as long as the process runs. `users` make new connections then.
    pub(crate) fn renew(&self, kept: Kept, client: &Client, users: Vec<Https>, tasks: &Tasks) {
        let (own, client) = (self.clone(), client.clone());
        tasks.spawn("certificate-renewal", |shutdown| async move {
            own.run(kept, &client, &users, shutdown).await;
        });
    }

    async fn run(&self, mut kept: Kept, client: &Client, users: &[Https], shutdown: Shutdown) {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX);
        loop {
            let wait = match kept.life.left(self.world.clock.now()) {
                Some(left) => left.min(LOOK_MAX),
                None => match self.exchange(&kept, client).await {
                    Ok(renewed) => {
                        let until = renewed.life.end;
                        tracing::info!(certificate = kept.purpose.file(), %until, "renewed");
                        kept = renewed;
                        backoff.reset();
                        for user in users {
                            user.reconnect().await;
                        }
                        continue;
                    }
                    Err(err) => {
                        let delay = backoff.step();
                        let (certificate, until) = (kept.purpose.file(), kept.life.end);
                        let error = format!("{err:#}");
                        tracing::warn!(certificate, %until, error, ?delay, "not renewed");
                        delay
                    }
                },
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// A new one in its place.
    pub(crate) async fn exchange(&self, kept: &Kept, client: &Client) -> Result<Kept> {
        let identity = self.ask(client, &kept.purpose).await?;
        self.save(&kept.purpose, &identity)?;
        kept.shown.replace(&identity)?;
        let (purpose, shown) = (kept.purpose.clone(), kept.shown.clone());
        Ok(Kept { purpose, shown, life: Life::of(&identity)? })
    }
}

/// Of one certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    begin: Timestamp,
    end: Timestamp,
}

impl Life {
    fn of(identity: &Identity) -> Result<Self> {
        let (begin, end) = validity(&identity.certificate_pem)?;
        Ok(Self::between(begin, end))
    }

    /// From when it was signed.
    fn between(not_before: Timestamp, end: Timestamp) -> Self {
        let signed = not_before.checked_add(BACKDATE).unwrap_or(not_before);
        Self { begin: if signed < end { signed } else { not_before }, end }
    }

    /// Until two thirds of it are over; `None`: they are.
    fn left(self, now: Timestamp) -> Option<Duration> {
        let life = self.end.duration_since(self.begin);
        let due = self.begin.checked_add(life * 2 / 3).unwrap_or(self.end);
        Duration::try_from(due.duration_since(now)).ok().filter(|it| !it.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::Life;

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_life() {
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        let check = |begin: i64, end: i64, now: i64, expected: Option<u64>| {
            let left = Life::between(at(begin), at(end)).left(at(now));
            assert_eq!(left.map(|it| it.as_secs()), expected, "{begin}..{end} at {now}");
        };
        check(-300, 900, 0, Some(600));
        check(-300, 900, 599, Some(1));
        check(-300, 900, 600, None);
        check(-300, 900, 2000, None);
        // One that was not begun early.
        check(0, 60, 0, Some(40));
    }
}
