//! Names that are not the cluster's: asked of the node's own servers, one after the other.
//!
//! An answer counts only if it comes from the server that was asked, with the id and the question
//! that it was asked with. Each question has a port and an id of its own, and is on its way once,
//! however many clients ask it: the more copies of a question wait, the easier one of their answers
//! is guessed.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use simple_dns::{PacketFlag, RCODE, header_buffer};
use stdx::Random;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cache::{Cache, Question};
use crate::wire;

/// For one server; the next is asked then.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Questions on their way at once, in all and of one client.
const CONCURRENT_MAX: usize = 1_000;
const CONCURRENT_OF_CLIENT_MAX: usize = 250;
const DATAGRAM_MAX: usize = 4_096;
/// So many answers that are none are chance; more are somebody who guesses. TCP is asked then.
const FORGERIES_MAX: usize = 16;

pub(crate) struct Forwarder {
    upstreams: Vec<SocketAddr>,
    random: Random,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    cache: Cache,
    /// Questions on their way, with the answer that others wait for.
    asking: BTreeMap<Question, watch::Receiver<Option<Bytes>>>,
    /// How many questions each client has on their way.
    clients: BTreeMap<IpAddr, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Udp,
    Tcp,
}

/// One client's place among the questions on their way.
struct Seat {
    state: Arc<Mutex<State>>,
    client: IpAddr,
}

/// Somebody has to ask, and the others wait.
enum Role {
    Asks(watch::Sender<Option<Bytes>>),
    Waits(watch::Receiver<Option<Bytes>>),
}

impl Forwarder {
    pub(crate) fn new(upstreams: Vec<SocketAddr>, random: Random) -> Self {
        Self { upstreams, random, state: Arc::default() }
    }

    pub(crate) fn has_upstreams(&self) -> bool {
        !self.upstreams.is_empty()
    }

    /// The answer to `query`; `None` when no server gave one, or the client asks too much at once.
    pub(crate) async fn ask(&self, query: &[u8], client: IpAddr) -> Option<Bytes> {
        let (id, question) = (wire::id(query)?, wire::subject(query)?);
        let cached = lock(&self.state).cache.get(&question, id, Instant::now());
        if cached.is_some() {
            return cached;
        }
        let _seat = self.enter(client)?;
        let answer = match self.role(&question) {
            Role::Waits(mut answer) => answer.wait_for(Option::is_some).await.ok()?.clone()?,
            Role::Asks(sender) => {
                let asking = Asking { state: self.state.clone(), question: question.clone() };
                let answer = self.ask_upstreams(query).await;
                if let Some(answer) = answer.as_ref().filter(|it| may_be_kept(it)) {
                    lock(&self.state).cache.insert(question, answer.clone(), Instant::now());
                }
                drop(asking);
                let answer = answer?;
                sender.send_replace(Some(answer.clone()));
                answer
            }
        };
        let mut answer = BytesMut::from(&answer[..]);
        wire::set_id(&mut answer, id);
        Some(answer.freeze())
    }

    fn enter(&self, client: IpAddr) -> Option<Seat> {
        let mut state = lock(&self.state);
        let of_client = state.clients.get(&client).copied().unwrap_or(0);
        let in_all: usize = state.clients.values().sum();
        if of_client >= CONCURRENT_OF_CLIENT_MAX || in_all >= CONCURRENT_MAX {
            return None;
        }
        state.clients.insert(client, of_client + 1);
        drop(state);
        Some(Seat { state: self.state.clone(), client })
    }

    fn role(&self, question: &Question) -> Role {
        let mut state = lock(&self.state);
        if let Some(answer) = state.asking.get(question) {
            return Role::Waits(answer.clone());
        }
        let (sender, receiver) = watch::channel(None);
        state.asking.insert(question.clone(), receiver);
        Role::Asks(sender)
    }

    async fn ask_upstreams(&self, query: &[u8]) -> Option<Bytes> {
        for upstream in &self.upstreams {
            match tokio::time::timeout(TIMEOUT, self.ask_one(*upstream, query)).await {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(err)) => {
                    tracing::debug!(%upstream, error = %err, "name server did not answer");
                }
                Err(_) => {}
            }
        }
        None
    }

    /// Over UDP; over TCP what does not fit there, or where somebody else seems to answer.
    async fn ask_one(&self, upstream: SocketAddr, query: &[u8]) -> io::Result<Bytes> {
        let mut query = query.to_vec();
        let mut id = [0; 2];
        self.random.fill(&mut id);
        wire::set_id(&mut query, u16::from_be_bytes(id));
        match over_udp(upstream, &query).await? {
            Some(answer) if !is_cut(&answer) => Ok(answer),
            _ => over_tcp(upstream, &query).await,
        }
    }
}

/// A question is on its way until this is dropped, however that comes.
struct Asking {
    state: Arc<Mutex<State>>,
    question: Question,
}

impl Drop for Asking {
    fn drop(&mut self) {
        lock(&self.state).asking.remove(&self.question);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let Some(count) = state.clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                state.clients.remove(&self.client);
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_cut(answer: &[u8]) -> bool {
    header_buffer::has_flags(answer, PacketFlag::TRUNCATION) != Ok(false)
}

fn may_be_kept(answer: &[u8]) -> bool {
    let code = header_buffer::rcode(answer);
    !is_cut(answer) && matches!(code, Ok(RCODE::NoError | RCODE::NameError))
}

/// From a port that the kernel picks at random; it lets only the server's packets in. `None` if
/// there are too many forgeries.
async fn over_udp(upstream: SocketAddr, query: &[u8]) -> io::Result<Option<Bytes>> {
    let any: SocketAddr =
        if upstream.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(upstream).await?;
    socket.send(query).await?;
    let mut answer = vec![0; DATAGRAM_MAX];
    for _ in 0..FORGERIES_MAX {
        let length = socket.recv(&mut answer).await?;
        if wire::is_answer_to(&answer[..length], query) {
            return Ok(Some(Bytes::copy_from_slice(&answer[..length])));
        }
    }
    tracing::warn!(%upstream, "answers to questions that were not asked: somebody may be forging them");
    Ok(None)
}

async fn over_tcp(upstream: SocketAddr, query: &[u8]) -> io::Result<Bytes> {
    let mut stream = TcpStream::connect(upstream).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), query].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    if !wire::is_answer_to(&answer, query) {
        return Err(io::Error::other("the answer is to another question"));
    }
    Ok(answer.into())
}
