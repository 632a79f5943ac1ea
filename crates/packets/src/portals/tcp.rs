//! Connections: accepted, dialed on, and what comes moved by splice(2), never through our memory.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::balancer::Balancer;
use super::limits::{Pipe, Shared};

/// How long an endpoint has to answer before another is dialed, or the same again.
const DIALS: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// Of a peer that says nothing it is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(300);
/// As much as a pipe holds.
const PIECE: usize = 64 * 1024;
/// When there are no files for another connection.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn serve(
    listener: TcpListener,
    balancer: Rc<RefCell<Balancer>>,
    shared: Rc<Shared>,
) {
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(err) => {
                shared.complain("accept", &format!("a connection could not be accepted: {err}"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(counted) = shared.connection() else {
            reset(&stream);
            continue;
        };
        let (balancer, shared) = (balancer.clone(), shared.clone());
        tokio::task::spawn_local(async move {
            carry(&stream, client, &balancer, &shared).await;
            drop(counted);
        });
    }
}

async fn carry(
    near: &TcpStream,
    client: SocketAddr,
    balancer: &RefCell<Balancer>,
    shared: &Shared,
) {
    let Some(far) = dial(client, balancer).await else {
        return reset(near);
    };
    let is_set = [near, &far].into_iter().try_for_each(prepare);
    let moved = async { tokio::try_join!(copy(near, &far, shared), copy(&far, near, shared)) };
    if is_set.is_err() || moved.await.is_err() {
        reset(near);
        reset(&far);
    }
}

/// What comes is passed on at once, and who is gone is noticed.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(sockopt::set_tcp_keepidle(stream, KEEPALIVE)?)
}

/// So that the other side learns that this was no end as it should be.
fn reset(stream: &TcpStream) {
    let _ = sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// `None`: no endpoint answers.
async fn dial(client: SocketAddr, balancer: &RefCell<Balancer>) -> Option<TcpStream> {
    for patience in DIALS {
        let start = Instant::now();
        let endpoint = balancer.borrow_mut().choose(client.ip(), start)?;
        let deadline = start + patience;
        if let Ok(Ok(stream)) = timeout_at(deadline, TcpStream::connect(endpoint)).await {
            return Some(stream);
        }
        let n_endpoints = {
            let mut balancer = balancer.borrow_mut();
            balancer.forget(client.ip());
            balancer.n_endpoints()
        };
        // One that refuses may be starting; another is asked at once.
        if n_endpoints < 2 {
            sleep_until(deadline).await;
        }
    }
    None
}

/// Until the one has no more to say; then the other is told so.
async fn copy(from: &TcpStream, to: &TcpStream, shared: &Shared) -> io::Result<()> {
    loop {
        from.readable().await?;
        // One that never pauses lets others have their turn.
        tokio::task::coop::consume_budget().await;
        // Who is silent has no pipe.
        let pipe = shared.take_pipe()?;
        let taken = from.try_io(Interest::READABLE, || {
            Ok(splice(from, None, &pipe.write, None, PIECE, flags())?)
        });
        match taken {
            Ok(0) => {
                shared.give_back(pipe);
                return Ok(shutdown(to, Shutdown::Write)?);
            }
            Ok(length) => {
                empty(&pipe, to, length).await?;
                shared.give_back(pipe);
            }
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => shared.give_back(pipe),
            Err(err) => return Err(err),
        }
    }
}

async fn empty(pipe: &Pipe, to: &TcpStream, mut left: usize) -> io::Result<()> {
    while left > 0 {
        to.writable().await?;
        let given = to
            .try_io(Interest::WRITABLE, || Ok(splice(&pipe.read, None, to, None, left, flags())?));
        match given {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => left = left.saturating_sub(length),
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
            Err(err) => return Err(err),
        }
    }
    Ok(())
}

fn flags() -> SpliceFlags {
    SpliceFlags::MOVE | SpliceFlags::NONBLOCK
}
