//! How `xebec store` speaks to the server that has the store open: one request and one answer, each
//! a line of JSON, over a socket in the data directory that its owner alone can reach.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kvstore::embedded::Embedded;
use kvstore::{Revision, Store as _};
use lifecycle::Tasks;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

const NAME: &str = "store.sock";
const REQUEST_BYTES_MAX: u64 = 64 << 10;
const REQUEST_WAIT_MAX: Duration = Duration::from_secs(10);
/// Requests at once; a snapshot can take a while.
const REQUESTS_MAX: usize = 4;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Request {
    Status,
    /// `None`: everything that is not current.
    Compact {
        through: Option<u64>,
    },
    /// Into a file that must not exist yet; the path is absolute.
    Snapshot {
        file: PathBuf,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Answer {
    Status(Status),
    Compacted(Compacted),
    Snapshot(Snapshot),
    Refused { why: String },
}

/// How a store is, as `xebec store status -o json` shows it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) revision: u64,
    pub(crate) oldest_revision: u64,
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_current: u64,
    pub(crate) hash: Option<String>,
    pub(crate) read_only: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Compacted {
    pub(crate) through: u64,
    /// What the store takes on disk, before and after.
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) bytes: u64,
}

/// Carries out a request, for whoever has the store open.
pub(crate) async fn carry_out(store: &Embedded, request: Request) -> Answer {
    let outcome = match request {
        Request::Status => status(store).await.map(Answer::Status),
        Request::Compact { through } => compact(store, through).await.map(Answer::Compacted),
        Request::Snapshot { file } => snapshot(store, &file).await.map(Answer::Snapshot),
    };
    outcome.unwrap_or_else(|err| Answer::Refused { why: format!("{err:#}") })
}

async fn status(store: &Embedded) -> Result<Status> {
    let status = store.status().await?;
    Ok(Status {
        revision: status.revision.0,
        oldest_revision: status.oldest.0,
        keys: status.n_keys,
        bytes: status.bytes,
        bytes_current: status.bytes_current,
        hash: status.hash.map(|it| format!("{it:016x}")),
        read_only: status.read_only,
    })
}

/// Answers when the disk has the space back: whoever asks for it looks there next.
async fn compact(store: &Embedded, through: Option<u64>) -> Result<Compacted> {
    let through = through.unwrap_or_else(|| store.revision().0);
    let bytes_before = store.status().await?.bytes;
    store.compact(Revision(through)).await?;
    store.reclaim().await?;
    Ok(Compacted { through, bytes_before, bytes_after: store.status().await?.bytes })
}

async fn snapshot(store: &Embedded, file: &Path) -> Result<Snapshot> {
    if file.exists() {
        bail!("{} exists already", file.display());
    }
    let revision = store.snapshot(file).await?;
    let bytes = std::fs::metadata(file).map_or(0, |it| it.len());
    Ok(Snapshot { revision: revision.0, bytes })
}

/// The socket by way of an open directory: its own path may be too long for a socket's address.
fn address(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", directory.as_raw_fd()))
}

/// Answers until shutdown. The directory's lock must be held: a socket that is there is an old one.
pub(crate) fn serve(directory: &Path, store: Arc<Embedded>, tasks: &Tasks) -> Result<()> {
    let doing = || format!("listening on {}", directory.join(NAME).display());
    let _ = std::fs::remove_file(directory.join(NAME));
    let opened = File::open(directory).with_context(doing)?;
    let listener = UnixListener::bind(address(&opened)).with_context(doing)?;
    let owner_alone = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(directory.join(NAME), owner_alone).with_context(doing)?;
    let connections = tasks.child("store-socket");
    let seats = Arc::new(Semaphore::new(REQUESTS_MAX));
    tasks.spawn("store-socket", |shutdown| async move {
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = async {
                    let seat = seats.clone().acquire_owned().await;
                    (seat, listener.accept().await)
                } => accepted,
            };
            let (Ok(seat), Ok((stream, _))) = accepted else {
                // No descriptors, most likely.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let store = store.clone();
            connections.spawn("request", |shutdown| async move {
                let _seat = seat;
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => {}
                    () = answer(stream, &store) => {}
                }
            });
        }
    });
    Ok(())
}

async fn answer(stream: tokio::net::UnixStream, store: &Embedded) {
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut read = BufReader::new(read.take(REQUEST_BYTES_MAX));
    let request = tokio::time::timeout(REQUEST_WAIT_MAX, read.read_until(b'\n', &mut line)).await;
    if !matches!(request, Ok(Ok(_))) {
        return;
    }
    let answer = match serde_json::from_slice(&line) {
        Ok(request) => carry_out(store, request).await,
        Err(err) => Answer::Refused { why: format!("the server does not know the request: {err}") },
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    // Whoever asked may be gone.
    let _ = write.write_all(&text).await;
}

/// Asks the server that runs on the directory.
pub(crate) fn ask(directory: &Path, request: &Request) -> Result<Answer> {
    let opened = File::open(directory)
        .with_context(|| format!("opening the data directory {}", directory.display()))?;
    let mut stream = UnixStream::connect(address(&opened)).with_context(|| {
        format!(
            "the server that runs on {} has no embedded store to ask (it may keep its objects in etcd: use etcdctl)",
            directory.display()
        )
    })?;
    let mut text = serde_json::to_vec(request).context("writing the request")?;
    text.push(b'\n');
    stream.write_all(&text).context("asking the running server")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).context("waiting for the running server's answer")?;
    serde_json::from_slice(&answer).context("the running server ended without an answer")
}
