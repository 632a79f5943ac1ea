//! Names that are not the cluster's: asked of the node's own servers, one after the other.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use simple_dns::{PacketFlag, RCODE, header_buffer};
use stdx::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::wire;

/// For one server; the next is asked then.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Questions on their way at once.
const CONCURRENT_MAX: usize = 1_000;
const DATAGRAM_MAX: usize = 4_096;

pub(crate) struct Forwarder {
    upstreams: Vec<SocketAddr>,
    random: Random,
    seats: Semaphore,
    cache: Mutex<Cache>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Udp,
    Tcp,
}

impl Forwarder {
    pub(crate) fn new(upstreams: Vec<SocketAddr>, random: Random) -> Self {
        Self { upstreams, random, seats: Semaphore::new(CONCURRENT_MAX), cache: Mutex::default() }
    }

    pub(crate) fn has_upstreams(&self) -> bool {
        !self.upstreams.is_empty()
    }

    /// The answer to `query`, whose question in lower case is `question`; `None` when no server gave one.
    pub(crate) async fn ask(&self, query: &[u8], question: Bytes, way: Way) -> Option<Bytes> {
        let id = wire::id(query)?;
        let cached = self.cache().get(&question, id, Instant::now());
        if cached.is_some() {
            return cached;
        }
        let _seat = self.seats.try_acquire().ok()?;
        for upstream in &self.upstreams {
            let asked = tokio::time::timeout(TIMEOUT, self.ask_one(*upstream, query, way)).await;
            let mut answer = match asked {
                Ok(Ok(answer)) => answer,
                Ok(Err(err)) => {
                    tracing::debug!(%upstream, error = %err, "name server did not answer");
                    continue;
                }
                Err(_) => continue,
            };
            wire::set_id(&mut answer, id);
            let answer = answer.freeze();
            if may_be_kept(&answer) {
                self.cache().insert(question, answer.clone(), Instant::now());
            }
            return Some(answer);
        }
        None
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A socket and an id of its own for each question, so that answers are hard to forge.
    async fn ask_one(
        &self,
        upstream: SocketAddr,
        query: &[u8],
        way: Way,
    ) -> std::io::Result<BytesMut> {
        let id = self.random.next_u64() as u16;
        let mut query = query.to_vec();
        wire::set_id(&mut query, id);
        if way == Way::Tcp {
            return over_tcp(upstream, &query).await;
        }
        let any: SocketAddr =
            if upstream.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 8], 0).into() };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(upstream).await?;
        socket.send(&query).await?;
        let mut answer = BytesMut::zeroed(DATAGRAM_MAX);
        loop {
            let length = socket.recv(&mut answer).await?;
            let is_ours = wire::id(&answer[..length]) == Some(id)
                && header_buffer::has_flags(&answer[..length], PacketFlag::RESPONSE) == Ok(true);
            if is_ours {
                answer.truncate(length);
                return Ok(answer);
            }
        }
    }
}

fn may_be_kept(answer: &[u8]) -> bool {
    let is_cut = header_buffer::has_flags(answer, PacketFlag::TRUNCATION) != Ok(false);
    let code = header_buffer::rcode(answer);
    !is_cut && matches!(code, Ok(RCODE::NoError | RCODE::NameError))
}

async fn over_tcp(upstream: SocketAddr, query: &[u8]) -> std::io::Result<BytesMut> {
    let mut stream = TcpStream::connect(upstream).await?;
    let length = u16::try_from(query.len()).map_err(std::io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), query].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = BytesMut::zeroed(usize::from(length));
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}
