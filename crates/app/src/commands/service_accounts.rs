//! Clients that act as service accounts: each controller of a controller manager that runs alone
//! gets a token of its own, renewed before it ends.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::core::ServiceAccount;
use apimachinery::ApiError;
use arc_swap::ArcSwap;
use bytes::Bytes;
use client::https::{Config, Https};
use client::{Client, Discovered, Reply, Request, Transport, WatchStream};
use futures_util::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lifecycle::Tasks;
use stdx::World;

const NAMESPACE: &str = "kube-system";
const LIFETIME: Duration = Duration::from_secs(3600);
/// A token is replaced well before it ends, and again soon if that fails.
const RENEW_AFTER: Duration = Duration::from_secs(2880);
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// What is needed to make more clients like the manager's own.
pub(crate) struct Issuer {
    /// Acts as the manager, which may make service accounts and their tokens.
    pub(crate) manager: Client,
    /// How to reach the server; its credentials are not used.
    pub(crate) config: Config,
    pub(crate) tasks: Tasks,
    pub(crate) world: World,
}

/// The newest transport; requests under way finish on the one they started with.
struct Renewed(ArcSwap<Https>);

impl Issuer {
    /// A client that acts as `system:serviceaccount:kube-system:<name>`, at a pace so many times
    /// that of the manager.
    pub(crate) async fn client(
        self: &Arc<Self>,
        name: &str,
        field_manager: &str,
        times: (f64, f64),
    ) -> Result<Client> {
        self.ensure_account(name)
            .await
            .with_context(|| format!("making the service account {name}"))?;
        let transport = self.transport(name, times).await?;
        let renewed = Arc::new(Renewed(ArcSwap::from_pointee(transport)));
        let (issuer, name, renewing) = (self.clone(), name.to_owned(), renewed.clone());
        self.tasks.spawn(&format!("token-of-{name}"), |shutdown| async move {
            let mut delay = RENEW_AFTER;
            loop {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(delay) => {}
                }
                delay = match issuer.transport(&name, times).await {
                    Ok(transport) => {
                        renewing.0.store(Arc::new(transport));
                        RENEW_AFTER
                    }
                    Err(err) => {
                        tracing::warn!(account = %name, error = format!("{err:#}"), "token not renewed");
                        RETRY_AFTER
                    }
                };
            }
        });
        Ok(Client::new(renewed, field_manager))
    }

    async fn ensure_account(&self, name: &str) -> Result<(), ApiError> {
        let accounts = self.manager.api::<ServiceAccount>();
        match accounts.get(NAMESPACE, name).await {
            Err(err) if err.is_not_found() => {
                let metadata = ObjectMeta {
                    name: Some(name.to_owned()),
                    namespace: Some(NAMESPACE.to_owned()),
                    ..ObjectMeta::default()
                };
                match accounts
                    .create(ServiceAccount { metadata, ..ServiceAccount::default() })
                    .await
                {
                    Err(err) if !err.is_already_exists() => Err(err),
                    _ => Ok(()),
                }
            }
            outcome => outcome.map(|_| ()),
        }
    }

    async fn transport(&self, name: &str, times: (f64, f64)) -> Result<Https> {
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: i64::try_from(LIFETIME.as_secs()).ok(),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = self
            .manager
            .api::<ServiceAccount>()
            .exchange_subresource(NAMESPACE, name, "token", request)
            .await
            .with_context(|| format!("asking for a token of the service account {name}"))?;
        let token = answer.status.as_ref().and_then(|it| it.token.clone());
        let pace = self.config.pace.map(|it| it.times(times.0, times.1));
        let config = Config { token, certificate_pem: None, pace, ..self.config.clone() };
        Ok(Https::new(&self.tasks, &self.world, &config)?)
    }
}

impl Transport for Renewed {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        Box::pin(async move { self.0.load_full().call(request).await })
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        Box::pin(async move { self.0.load_full().watch(request).await })
    }

    fn get_path(&self, path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        Box::pin(async move { self.0.load_full().get_path(path).await })
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        Box::pin(async move { self.0.load_full().discover().await })
    }
}
