//! One connection of BGP: bytes in, bytes out. Knows nothing of what they say.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bgp::ConnectionId;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::PORT;

/// Who takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// As long as the longest message.
const BUFFER: usize = 4096;
/// As many as there may be nodes.
const BACKLOG: i32 = 1024;

pub(super) enum Event {
    Dialed(IpAddr, io::Result<TcpStream>),
    Received(ConnectionId, Vec<u8>),
    Closed(ConnectionId),
}

/// In the network namespace of the calling thread. Of one family; nobody is waited for yet.
pub(super) fn listen(address: IpAddr) -> io::Result<TcpListener> {
    let socket = open(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &SocketAddr::new(address, PORT))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// In the network namespace of the calling thread: what is to become a connection from one address
/// to the other.
pub(super) fn prepare(from: IpAddr, to: IpAddr, password: Option<&str>) -> io::Result<OwnedFd> {
    let socket = open(to)?;
    if let Some(password) = password {
        linux::tcp_md5::set_password(&socket, to, password.as_bytes())?;
    }
    rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    Ok(socket)
}

fn open(of: IpAddr) -> io::Result<OwnedFd> {
    let family = if of.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

pub(super) async fn dial(socket: OwnedFd, to: IpAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::from_std_stream(socket.into());
    let connecting = socket.connect(SocketAddr::new(to, PORT));
    tokio::time::timeout(PATIENCE, connecting).await.map_err(io::Error::from)?
}

/// Until either side closes, or what is to be sent is nobody's any more and was sent.
pub(super) async fn run(
    id: ConnectionId,
    stream: TcpStream,
    outgoing: mpsc::Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
) {
    let (mut read, mut write) = stream.into_split();
    let mut outgoing = outgoing;
    let sending = async {
        while let Some(bytes) = outgoing.recv().await {
            match tokio::time::timeout(PATIENCE, write.write_all(&bytes)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
        // Whoever is gone hears no farewell.
        let _ = write.shutdown().await;
    };
    let receiving = async {
        let mut buffer = vec![0; BUFFER];
        // A connection that broke is one that was closed.
        while let Ok(length @ 1..) = read.read(&mut buffer).await {
            let received = Event::Received(id, buffer[..length].to_vec());
            if events.send(received).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = sending => {}
        () = receiving => {}
    }
    // Nobody listens at the end.
    let _ = events.send(Event::Closed(id)).await;
}
