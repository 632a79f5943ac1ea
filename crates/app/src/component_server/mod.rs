//! The HTTPS server of a component that runs alone: health for everybody, metrics for those who may
//! read them. Who clients are and what they may do is the API server's word, as upstream delegates
//! it.

mod access;
mod health;
mod pages;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use authn::ClientCertificate;
use authn::pki::{Authority, Identity};
use bytes::Bytes;
use client::Client;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use lifecycle::Tasks;
use serving::Share;
use stdx::World;
use telemetry::Registry;
use tokio::net::TcpListener;

use access::Access;
pub(crate) use health::Health;
pub(crate) use pages::{FlagValues, Places};

/// Of the process's descriptors.
const SHARE: Share = Share(8);
/// Upstream's `--authorization-always-allow-paths`.
const OPEN_PATHS: &[&str] = &["/healthz", "/livez", "/readyz"];

#[derive(clap::Args, Clone)]
#[group(id = "component-server")]
pub(crate) struct Flags {
    /// Address to serve health and metrics on
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Authority of clients' certificates; without it the one of the kubeconfig
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Certificate to serve with; without it one is made at start that nobody signed
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
}

/// What a component says of how it was started.
pub(crate) struct About {
    pub(crate) flags: FlagValues,
    /// The group of its configuration, and where upstream has what the flags say.
    pub(crate) config: (&'static str, Places),
}

/// What a component serves with.
pub(crate) struct Parts<'a> {
    pub(crate) client: Client,
    /// PEM of the authority in the kubeconfig.
    pub(crate) authority: &'a [u8],
    pub(crate) metrics: Registry,
    pub(crate) health: Health,
    pub(crate) about: About,
    pub(crate) world: &'a World,
    pub(crate) tasks: &'a Tasks,
}

impl Flags {
    /// Listens, and serves until shutdown. Port 0 is none, as upstream has it.
    pub(crate) async fn serve(&self, name: &str, port: u16, parts: Parts<'_>) -> Result<()> {
        if port == 0 {
            return Ok(());
        }
        let identity = self.identity(name, parts.world)?;
        let client_ca = match &self.client_ca_file {
            Some(path) => read(path)?,
            None => String::from_utf8_lossy(parts.authority).into_owned(),
        };
        let tls = authn::pki::server_config(&identity, &client_ca)
            .context("setting up TLS for health and metrics")?;
        let address = SocketAddr::new(self.bind_address, port);
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!(
                "cannot listen on {address}: choose another port with --secure-port, or 0 for none"
            )
        })?;
        let core = Arc::new(Core {
            name: name.to_owned(),
            access: Access::new(parts.client, parts.world.clock.clone()),
            metrics: parts.metrics,
            slis: Registry::default(),
            health: parts.health,
            about: parts.about,
            started: parts.world.clock.now(),
            world: parts.world.clone(),
        });
        let answer = move |certificate: Option<Arc<ClientCertificate>>, request| {
            let core = core.clone();
            async move { core.answer(certificate.as_deref(), request).await }
        };
        let identify = ClientCertificate::of_connection;
        serving::serve_https(listener, Arc::new(tls), SHARE, parts.tasks, identify, answer);
        Ok(())
    }

    fn identity(&self, name: &str, world: &World) -> Result<Identity> {
        if let (Some(certificate), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file) {
            return Ok(Identity {
                certificate_pem: read(certificate)?,
                private_key_pem: read(key)?,
            });
        }
        let (now, random) = (world.clock.now(), &world.random);
        let authority = Authority::create(&format!("{name}-ca"), now, random)?;
        let local = [IpAddr::from([127, 0, 0, 1])];
        Ok(authority.issue_server(name, &["localhost"], &local, now, random)?)
    }
}

fn read(path: &std::path::Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

struct Core {
    name: String,
    access: Access,
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
        certificate: Option<&ClientCertificate>,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !OPEN_PATHS.contains(&path)
            && let Err(refused) = self.access.validate(certificate, &request).await
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

    fn page(&self, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/metrics" | "/metrics/slis" => {
                let registry = if path == "/metrics" { &self.metrics } else { &self.slis };
                of_type(text(StatusCode::OK, registry.render()), telemetry::CONTENT_TYPE)
            }
            "/configz" => {
                let (group, places) = self.about.config;
                let config = pages::configz(group, places, &self.about.flags);
                of_type(text(StatusCode::OK, config.to_string()), "application/json")
            }
            "/flagz" => text(StatusCode::OK, self.about.flags.render(&self.name)),
            "/statusz" => {
                let now = self.world.clock.now();
                text(StatusCode::OK, pages::statusz(&self.name, self.started, now))
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
