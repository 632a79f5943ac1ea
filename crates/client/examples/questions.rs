//! What a question to a webhook costs this side of it: `cargo run --release -p client --example
//! questions [N]` asks a server of its own N times (20,000), one question after the other and 16 at
//! once, and prints microseconds of CPU and of the clock for each.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::hooks::{ANSWER_MAX, Caller, Place, Resolve, Target, Ways};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lifecycle::Tasks;
use rustls::pki_types::PrivatePkcs8KeyDer;
use stdx::World;
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// Of the thread that answers: what it takes does not count.
const THREAD: &str = "webhook";
const SERVICE: &str = "hook.tools.svc";
const QUESTION_BYTES: usize = 3_000;
const ANSWER: &str = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","allowed":true}}"#;
const TIMEOUT: Duration = Duration::from_secs(10);

struct Here(SocketAddr);

impl Resolve for Here {
    fn resolve(&self, _: &str, _: &str, _: u16) -> Result<Ways, String> {
        Ok(Ways { endpoints: vec![self.0], ..Ways::default() })
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let _ = request.into_body().collect().await;
    Ok(Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes()))))
}

/// Answers until the process ends, on a thread of its own.
fn serve() -> (SocketAddr, String) {
    let certified = rcgen::generate_simple_self_signed(vec![SERVICE.to_owned()]).expect("a key");
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .expect("a certificate");
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let (told, address) = std::sync::mpsc::channel();
    let serving = async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        told.send(listener.local_addr().expect("an address")).expect("somebody waits");
        let tasks = Tasks::new();
        while let Ok((tcp, _)) = listener.accept().await {
            let _ = tcp.set_nodelay(true);
            let acceptor = acceptor.clone();
            tasks.spawn("connection", |_| async move {
                let Ok(stream) = acceptor.accept(tcp).await else { return };
                let service = service_fn(answer);
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned());
    let started = thread.spawn(|| {
        let here = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        here.block_on(serving);
    });
    started.expect("a thread");
    (address.recv().expect("it listens"), certified.cert.pem())
}

/// What all other threads have taken of the CPU.
fn cpu() -> Duration {
    let threads = fs::read_dir("/proc/self/task").expect("procfs").flatten();
    let text = |it: &fs::DirEntry, file: &str| fs::read_to_string(it.path().join(file));
    let own = threads.filter(|it| text(it, "comm").is_ok_and(|it| it.trim() != THREAD));
    let nanos =
        own.filter_map(|it| text(&it, "schedstat").ok()?.split(' ').next()?.parse::<u64>().ok());
    Duration::from_nanos(nanos.sum())
}

/// Whoever asks, as a server has it: in tasks of its own.
struct Asking {
    tasks: Tasks,
    caller: Caller,
    target: Arc<Target>,
    body: Bytes,
}

impl Asking {
    /// Until all were answered.
    async fn ask(&self, at_once: usize, n_each: usize) {
        let (done, mut all_done) = mpsc::channel::<()>(1);
        for _ in 0..at_once {
            let (caller, target) = (self.caller.clone(), self.target.clone());
            let (body, done) = (self.body.clone(), done.clone());
            self.tasks.spawn("asking", |_| async move {
                for _ in 0..n_each {
                    let answer = caller.post(&target, body.clone(), TIMEOUT, ANSWER_MAX).await;
                    assert_eq!(answer.expect("an answer").len(), ANSWER.len());
                }
                drop(done);
            });
        }
        drop(done);
        let _ = all_done.recv().await;
    }
}

fn main() {
    let n: usize = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(20_000);
    let (address, authority) = serve();
    let world = World::system();
    let asking = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let text = asking.expect("a runtime").block_on(async {
        let place = Place::Service {
            namespace: "tools".to_owned(),
            name: "hook".to_owned(),
            port: 443,
            path: "/".to_owned(),
        };
        let target = Arc::new(Target::new(place, authority.as_bytes()));
        let (tasks, here) = (Tasks::new(), Arc::new(Here(address)));
        let caller = Caller::new(&tasks, &world.random, here, &Registry::default());
        let body = Bytes::from(vec![b'x'; QUESTION_BYTES]);
        let asking = Asking { tasks, caller, target, body };
        let mut text = String::new();
        for at_once in [1, 16] {
            asking.ask(at_once, 100).await;
            let (cpu_before, begin) = (cpu(), world.clock.now());
            asking.ask(at_once, n / at_once).await;
            let taken = world.clock.now().duration_since(begin).unsigned_abs();
            let each = |it: Duration| it.as_secs_f64() * 1e6 / (n / at_once * at_once) as f64;
            let (cpu, clock) = (each(cpu() - cpu_before), each(taken));
            let _ = writeln!(text, "{at_once} at once: {cpu:.1} us of CPU, {clock:.1} us each");
        }
        text
    });
    #[expect(clippy::print_stdout, reason = "it is what this is for")]
    {
        print!("{text}");
    }
}
