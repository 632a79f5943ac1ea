//! A TCP proxy between the engine and a member, which can lose requests or answers, hold requests
//! back, and cut.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone)]
pub(crate) struct Proxy {
    state: Arc<State>,
    pub(crate) url: String,
}

struct State {
    target: String,
    /// Answers are read and thrown away.
    is_mute: AtomicBool,
    /// Requests are kept here.
    holds: AtomicBool,
    held: Mutex<Vec<u8>>,
    /// Requests are read and thrown away.
    is_deaf: AtomicBool,
    /// New connections are ended at once.
    refuses: AtomicBool,
    /// Changes to end all connections.
    cuts: watch::Sender<u64>,
    /// Told to write what is held.
    releases: watch::Sender<u64>,
    from_client: AtomicU64,
    from_server: AtomicU64,
}

impl Proxy {
    pub(crate) async fn start(client_url: &str) -> Self {
        let target = client_url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            target,
            is_mute: AtomicBool::new(false),
            holds: AtomicBool::new(false),
            held: Mutex::default(),
            is_deaf: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            cuts: watch::Sender::new(0),
            releases: watch::Sender::new(0),
            from_client: AtomicU64::new(0),
            from_server: AtomicU64::new(0),
        });
        let accepting = state.clone();
        spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = accepting.clone();
                spawn(async move { state.join(client).await });
            }
        });
        Self { state, url }
    }

    /// Loses the answers from now on.
    pub(crate) fn mute(&self, is_mute: bool) {
        self.state.is_mute.store(is_mute, Ordering::SeqCst);
    }

    /// Loses the requests from now on.
    pub(crate) fn deafen(&self, is_deaf: bool) {
        self.state.is_deaf.store(is_deaf, Ordering::SeqCst);
    }

    /// Ends all connections and takes no new ones.
    pub(crate) fn close(&self) {
        self.state.refuses.store(true, Ordering::SeqCst);
        self.cut();
    }

    pub(crate) fn open(&self) {
        self.state.refuses.store(false, Ordering::SeqCst);
    }

    pub(crate) fn hold(&self) {
        self.state.holds.store(true, Ordering::SeqCst);
    }

    pub(crate) fn holds(&self, text: &str) -> bool {
        let held = self.state.held.lock().unwrap();
        held.windows(text.len()).any(|it| it == text.as_bytes())
    }

    /// What was held goes on its way.
    pub(crate) fn release(&self) {
        self.state.releases.send_modify(|it| *it += 1);
    }

    pub(crate) fn cut(&self) {
        self.state.cuts.send_modify(|it| *it += 1);
    }

    pub(crate) fn bytes_from_client(&self) -> u64 {
        self.state.from_client.load(Ordering::SeqCst)
    }

    pub(crate) fn bytes_from_server(&self) -> u64 {
        self.state.from_server.load(Ordering::SeqCst)
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's runtime ends with the test")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

impl State {
    async fn join(self: Arc<Self>, client: TcpStream) {
        if self.refuses.load(Ordering::SeqCst) {
            return;
        }
        let Ok(server) = TcpStream::connect(&self.target).await else { return };
        let mut cuts = self.cuts.subscribe();
        tokio::select! {
            biased;
            _ = cuts.changed() => {}
            () = self.relay(client, server) => {}
        }
    }

    async fn relay(&self, client: TcpStream, server: TcpStream) {
        let (mut client_read, mut client_write) = client.into_split();
        let (mut server_read, mut server_write) = server.into_split();
        let mut releases = self.releases.subscribe();
        let requests = async {
            let mut buffer = vec![0; 64 << 10];
            loop {
                tokio::select! {
                    biased;
                    _ = releases.changed() => {
                        let held = std::mem::take(&mut *self.held.lock().unwrap());
                        if server_write.write_all(&held).await.is_err() {
                            return;
                        }
                    }
                    read = client_read.read(&mut buffer) => {
                        let Ok(n @ 1..) = read else {
                            // A client that has gone is not told to the server while something is
                            // held.
                            if self.holds.load(Ordering::SeqCst) {
                                std::future::pending::<()>().await;
                            }
                            return;
                        };
                        self.from_client.fetch_add(n as u64, Ordering::SeqCst);
                        if self.is_deaf.load(Ordering::SeqCst) {
                            continue;
                        }
                        if self.holds.load(Ordering::SeqCst) {
                            self.held.lock().unwrap().extend_from_slice(&buffer[..n]);
                        } else if server_write.write_all(&buffer[..n]).await.is_err() {
                            return;
                        }
                    }
                }
            }
        };
        let answers = async {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = server_read.read(&mut buffer).await {
                self.from_server.fetch_add(n as u64, Ordering::SeqCst);
                let is_lost = self.is_mute.load(Ordering::SeqCst);
                if !is_lost && client_write.write_all(&buffer[..n]).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = requests => {}
            () = answers => {}
        }
    }
}
