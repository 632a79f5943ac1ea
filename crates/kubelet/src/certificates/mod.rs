//! Certificates of one pod, for its `podCertificate` projections: a key each, signed by whoever the
//! projection names, and renewed in time. Nothing is kept on the disk: after a restart each is asked
//! for anew.

mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::certificates::PodCertificateRequest;
use apimachinery::ApiError;
use authn::pki::PodKey;
use client::Client;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1beta1::PodCertificateRequestSpec;
use k8s_openapi::api::core::v1::{Node, Pod, PodCertificateProjection, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use stdx::World;

use crate::pod_facts::{CertificateKey, Credential};
use state::{Asked, State, Told};

/// Renewals of many pods are spread over this.
const JITTER_SECONDS: u64 = 300;
/// A request that could not be made is tried again with the volumes; while the old certificate is
/// still there, after this.
const RETRY: Duration = Duration::from_secs(60);

pub(crate) struct Certificates {
    client: Client,
    world: World,
    node_name: String,
    held: Mutex<BTreeMap<CertificateKey, State>>,
}

/// What [`Certificates::get`] brings.
#[derive(Default)]
pub(crate) struct Got {
    /// Each that is there, or why it is not.
    pub(crate) credentials: BTreeMap<CertificateKey, Result<Credential, String>>,
    /// When to ask again.
    pub(crate) wake: Option<Timestamp>,
    /// Reasons and messages of warnings about the pod.
    pub(crate) warnings: Vec<(&'static str, String)>,
}

/// What the pod's volumes ask for.
pub(crate) fn wanted(pod: &Pod) -> Vec<(CertificateKey, &PodCertificateProjection)> {
    let volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
    let mut wanted = Vec::new();
    for volume in volumes {
        let sources = volume.projected.iter().flat_map(|it| it.sources.iter().flatten());
        for (source, projection) in sources.enumerate() {
            if let Some(projection) = &projection.pod_certificate {
                wanted.push((CertificateKey { volume: volume.name.clone(), source }, projection));
            }
        }
    }
    wanted
}

impl Certificates {
    pub(crate) fn new(client: Client, world: World, node_name: String) -> Self {
        Self { client, world, node_name, held: Mutex::default() }
    }

    /// All that the pod asks for, as far as they are there; asks for those that are due.
    pub(crate) async fn get(&self, pod: &Pod, requests: &[Arc<PodCertificateRequest>]) -> Got {
        let mut got = Got::default();
        for (key, projection) in wanted(pod) {
            let (state, wake, told) = self.advance(pod, &key, projection, requests).await;
            got.wake = [got.wake, wake].into_iter().flatten().min();
            got.warnings.extend(told.into_iter().map(|it| (it.reason, it.message)));
            let credential = match state {
                Ok(State::Held(held)) => Ok(held.credential),
                Ok(State::Over(why)) => Err(why),
                Ok(State::Nothing | State::Asked(_)) => {
                    Err("credential bundle is not issued yet".to_owned())
                }
                Err(why) => Err(why),
            };
            got.credentials.insert(key, credential);
        }
        got
    }

    async fn advance(
        &self,
        pod: &Pod,
        key: &CertificateKey,
        projection: &PodCertificateProjection,
        requests: &[Arc<PodCertificateRequest>],
    ) -> (Result<State, String>, Option<Timestamp>, Vec<Told>) {
        let now = self.world.clock.now();
        let namespace = pod.metadata.namespace.as_deref();
        let find = |name: &str| {
            let is_it = |it: &&Arc<PodCertificateRequest>| {
                it.metadata.name.as_deref() == Some(name)
                    && it.metadata.namespace.as_deref() == namespace
            };
            requests.iter().find(is_it).cloned()
        };
        let known = self.all().get(key).cloned().unwrap_or_default();
        let jitter = Duration::from_secs(self.world.random.below(JITTER_SECONDS));
        let step = state::step(known, find, now, jitter);
        let (mut state, mut wake) = (step.state, step.wake);
        let mut problem = None;
        if step.must_ask {
            match self.ask(pod, projection, now).await {
                Ok(asked) => state = state::asked(state, asked),
                Err(err) => problem = Some(stdx::error_chain(&err)),
            }
        }
        self.all().insert(key.clone(), state.clone());
        let Some(problem) = problem else { return (Ok(state), wake, step.told) };
        if !matches!(state, State::Held(_)) {
            return (Err(problem), wake, step.told);
        }
        tracing::warn!(error = problem, "certificate not renewed");
        wake = [wake, now.checked_add(RETRY).ok()].into_iter().flatten().min();
        (Ok(state), wake, step.told)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, BTreeMap<CertificateKey, State>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(
        &self,
        pod: &Pod,
        projection: &PodCertificateProjection,
        now: Timestamp,
    ) -> Result<Asked, Error> {
        let key_type = projection.key_type.clone();
        let key = tokio::task::spawn_blocking(move || PodKey::create(&key_type)).await;
        let key = key.map_err(Error::Ended)?.map_err(Error::Key)?;
        let meta = &pod.metadata;
        let namespace = meta.namespace.clone().unwrap_or_default();
        let account = pod.spec.as_ref().and_then(|it| it.service_account_name.clone());
        let account = account.unwrap_or_else(|| "default".to_owned());
        let accounts = self.client.api::<ServiceAccount>();
        let found = accounts.get(&namespace, &account).await.map_err(Error::Account)?;
        let node = self.client.api::<Node>().get("", &self.node_name).await.map_err(Error::Node)?;
        let (name, uid) =
            (meta.name.clone().unwrap_or_default(), meta.uid.clone().unwrap_or_default());
        let request = PodCertificateRequest {
            metadata: ObjectMeta {
                namespace: Some(namespace),
                generate_name: Some("req-".to_owned()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Pod".to_owned(),
                    name: name.clone(),
                    uid: uid.clone(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: PodCertificateRequestSpec {
                signer_name: projection.signer_name.clone(),
                pod_name: name,
                pod_uid: uid,
                service_account_name: account,
                service_account_uid: found.metadata.uid.clone().unwrap_or_default(),
                node_name: self.node_name.clone(),
                node_uid: node.metadata.uid.clone().unwrap_or_default(),
                max_expiration_seconds: projection.max_expiration_seconds,
                stub_pkc_s10_request: ByteString(key.request),
                unverified_user_annotations: projection.user_annotations.clone(),
                ..PodCertificateRequestSpec::default()
            },
            status: None,
        };
        let requests = self.client.api::<PodCertificateRequest>();
        let made = requests.create(request).await.and_then(|it| it.object());
        let made = made.map_err(Error::Request)?;
        let name = made.metadata.name.clone().unwrap_or_default();
        Ok(Asked { name, key_pem: key.private_pem, at: now })
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("while generating keypair")]
    Key(#[source] authn::pki::Error),
    #[error("while generating keypair")]
    Ended(#[source] tokio::task::JoinError),
    #[error("while fetching service account")]
    Account(#[source] ApiError),
    #[error("while getting node object")]
    Node(#[source] ApiError),
    #[error("while creating PodCertificateRequest")]
    Request(#[source] ApiError),
}
