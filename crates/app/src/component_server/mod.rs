//! The HTTPS server of a component that runs alone: health for everybody, metrics for those who may
//! read them. Who clients are and what they may do is the API server's word, as upstream delegates
//! it.

mod authentication;
mod authorization;
mod believed;
mod health;
mod pages;
mod refused;
mod serving;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::serving::Share;
use anyhow::{Context as _, Result};
use authn::ClientCertificate;
use bytes::Bytes;
use client::Client;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use lifecycle::Tasks;
use stdx::World;
use telemetry::Registry;

use self::authentication::Authentication;
use self::authorization::Authorization;
use self::refused::Refused;
use crate::commands::remote;
use crate::switch::named;
pub(crate) use health::{Health, Trouble};
pub(crate) use pages::{Configuration, FlagValues, Places};

/// Of the process's descriptors.
const SHARE: Share = Share(8);

#[derive(clap::Args, Clone)]
#[group(id = "component-server")]
pub(crate) struct Flags {
    #[command(flatten)]
    serving: serving::Flags,
    #[command(flatten)]
    authentication: authentication::Flags,
    #[command(flatten)]
    authorization: authorization::Flags,
}

/// What a component says of how it was started.
pub(crate) struct About {
    pub(crate) flags: FlagValues,
    pub(crate) configuration: Configuration,
}

/// The cluster that a component works for.
pub(crate) struct Cluster<'a> {
    pub(crate) name: &'static str,
    /// By `kubeconfig`.
    pub(crate) client: Client,
    pub(crate) kubeconfig: &'a Path,
    pub(crate) metrics: Registry,
    pub(crate) world: &'a World,
    pub(crate) tasks: &'a Tasks,
}

impl Cluster<'_> {
    /// As another kubeconfig says, if one is named. Kubeadm names the same.
    async fn client(&self, kubeconfig: &Option<PathBuf>) -> Result<Client> {
        match named(kubeconfig).filter(|it| *it != self.kubeconfig) {
            None => Ok(self.client.clone()),
            Some(path) => {
                let config = remote::config(path, self.name, &self.metrics)?;
                remote::connect(&config, self.name, self.tasks, self.world)
            }
        }
    }
}

/// What a component serves with.
pub(crate) struct Parts<'a> {
    pub(crate) cluster: Cluster<'a>,
    pub(crate) health: Health,
    pub(crate) about: About,
    /// Whether to start although nobody says whom to believe, if no flag says.
    pub(crate) is_tolerant: bool,
}

impl Flags {
    /// Listens, and serves until shutdown. Port 0 is none, as upstream has it.
    pub(crate) async fn serve(&self, port: u16, parts: Parts<'_>) -> Result<()> {
        if port == 0 {
            return Ok(());
        }
        let Parts { cluster, health, about, is_tolerant } = parts;
        let listener = self.serving.listen(port)?;
        let authentication = self.authentication.start(is_tolerant, &cluster).await?;
        let authorization = self.authorization.start(&cluster).await?;
        let Cluster { name, metrics, world, tasks, .. } = cluster;
        let trust = authentication.trust();
        let tls = self.serving.tls(name, trust.clone(), world)?;
        let core = Arc::new(Core {
            name,
            authentication,
            authorization,
            metrics,
            slis: Registry::default(),
            health,
            about,
            started: world.clock.now(),
            world: world.clone(),
        });
        let answer = move |certificate, request| {
            let core = core.clone();
            async move { core.answer(certificate, request).await }
        };
        let identify = Authentication::identify(&trust);
        ::serving::serve_https(listener, Arc::new(tls), SHARE, tasks, identify, answer);
        Ok(())
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

struct Core {
    name: &'static str,
    authentication: Authentication,
    authorization: Authorization,
    metrics: Registry,
    /// What checks of health found.
    slis: Registry,
    health: Health,
    about: About,
    started: jiff::Timestamp,
    world: World,
}

impl Core {
    async fn answer(
        &self,
        certificate: Option<Arc<ClientCertificate>>,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !self.authorization.is_open(path)
            && let Err(refused) = self.validate(certificate, &request).await
        {
            return text(refused.status(), refused.to_string());
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n".to_owned());
        }
        let query = request.uri().query().unwrap_or("");
        if let Some((status, said)) = self.health.answer(path, query, &self.slis) {
            return text(status, said);
        }
        self.page(path)
    }

    async fn validate(
        &self,
        certificate: Option<Arc<ClientCertificate>>,
        request: &Request<Incoming>,
    ) -> Result<(), Refused> {
        let now = self.world.clock.now();
        let user = self.authentication.user(certificate, request.headers(), now).await?;
        self.authorization.validate(user, request.method(), request.uri().path()).await
    }

    fn page(&self, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/metrics" | "/metrics/slis" => {
                let registry = if path == "/metrics" { &self.metrics } else { &self.slis };
                of_type(text(StatusCode::OK, registry.render()), telemetry::CONTENT_TYPE)
            }
            "/configz" => {
                let config = self.about.configuration.render(&self.about.flags);
                of_type(text(StatusCode::OK, config.to_string()), "application/json")
            }
            "/flagz" => text(StatusCode::OK, self.about.flags.render(self.name)),
            "/statusz" => {
                let now = self.world.clock.now();
                text(StatusCode::OK, pages::statusz(self.name, self.started, now))
            }
            _ => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        }
    }
}

fn of_type(mut page: Response<Full<Bytes>>, kind: &'static str) -> Response<Full<Bytes>> {
    page.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    page
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
