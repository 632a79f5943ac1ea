//! The accept loop. It never spins, and is never held up by those who are connected already.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Shutdown, Tasks};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::{Meter, Room, Stream};

/// After a failed accept, so that it is not tried in a tight loop.
const DELAY: Duration = Duration::from_millis(20);
/// Whoever fills the room does not fill the log too.
const WARN_INTERVAL: Duration = Duration::from_secs(10);
/// A peer that is gone without a word is noticed: asked after this silence, so often, in this
/// interval.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

/// A new connection.
pub struct Guest<S = TcpStream> {
    pub stream: Stream<S>,
    pub address: SocketAddr,
    pub meter: Arc<Meter>,
}

/// Takes connections until shutdown, and runs `serve` as a task for each. When the room needs a
/// place, the task of an idle one is dropped.
pub async fn accept<F>(
    listener: &TcpListener,
    room: &Arc<Room>,
    tasks: &Tasks,
    shutdown: &Shutdown,
    serve: impl Fn(Guest, Shutdown) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut warned = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(err) => {
                recover(&err, room, &mut warned);
                tokio::time::sleep(DELAY).await;
                continue;
            }
        };
        let Some((seat, meter)) = room.enter(address.ip()) else {
            tracing::debug!(client = %address, "a connection is refused: all others work");
            continue;
        };
        prepare(&stream);
        let stream = Stream::new(stream, meter.clone(), Some(seat));
        let guest = Guest { stream, address, meter: meter.clone() };
        tasks.spawn("connection", |shutdown| {
            let served = serve(guest, shutdown);
            async move {
                tokio::select! {
                    biased;
                    () = meter.evicted() => {}
                    () = served => {}
                }
            }
        });
    }
}

/// Out of descriptors or memory: somebody idle gives theirs up. Other failures are of the one
/// connection.
fn recover(err: &io::Error, room: &Room, warned: &mut Option<Instant>) {
    const EXHAUSTED: [rustix::io::Errno; 4] = [
        rustix::io::Errno::MFILE,
        rustix::io::Errno::NFILE,
        rustix::io::Errno::NOBUFS,
        rustix::io::Errno::NOMEM,
    ];
    let is_exhausted = EXHAUSTED.iter().any(|it| err.raw_os_error() == Some(it.raw_os_error()));
    let made_room = is_exhausted && room.evict_one();
    if is_exhausted && warned.is_none_or(|it| it.elapsed() > WARN_INTERVAL) {
        *warned = Some(Instant::now());
        tracing::warn!(error = %err, made_room, "a connection could not be accepted");
    } else {
        tracing::debug!(error = %err, made_room, "a connection could not be accepted");
    }
}

/// What cannot be set is not worth losing the connection.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let set = || {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)
    };
    if let Err(err) = set() {
        tracing::debug!(error = %err, "keep-alive is not set");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lifecycle::Tasks;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::{Guest, accept};
    use crate::{Limits, Room, Timeouts};

    /// Says one letter to whoever says one, and is busy from then on.
    async fn converse(mut guest: Guest) {
        let Ok(letter) = guest.stream.read_u8().await else { return };
        let _busy = guest.meter.begin();
        let _ = guest.stream.write_u8(letter).await;
        std::future::pending().await
    }

    /// Until something comes, or the end.
    async fn read(stream: &mut TcpStream) -> Option<u8> {
        stream.read_u8().await.ok()
    }

    #[tokio::test]
    async fn the_silent_make_room_and_those_who_work_stay() {
        let tasks = Tasks::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = Limits { connections: 8, per_client: 4, timeouts: Timeouts::HTTPS };
        let (room, connections) = (Room::new(limits), tasks.clone());
        tasks.spawn("accept", |shutdown| async move {
            accept(&listener, &room, &connections, &shutdown, |guest, _| converse(guest)).await;
        });
        let mut busy = TcpStream::connect(address).await.unwrap();
        busy.write_u8(b'a').await.unwrap();
        assert_eq!(read(&mut busy).await, Some(b'a'));
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        // Those who came first are gone; the last is as good as any.
        for stream in &mut silent[..17] {
            assert_eq!(read(stream).await, None);
        }
        silent[19].write_u8(b'b').await.unwrap();
        assert_eq!(read(&mut silent[19]).await, Some(b'b'));
        let waited = tokio::time::timeout(Duration::from_millis(1), read(&mut busy)).await;
        assert!(waited.is_err(), "it was closed");
    }
}
