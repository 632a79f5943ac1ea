//! The connection to the runtime: made when it is needed and again when it broke, with growing
//! pauses. A call that the runtime has not seen is made again until its deadline; one that it may
//! have seen, only if that does no harm.

use std::path::{Path, PathBuf};
use std::time::Duration;

use grpc::Method;
use grpc::channel::{CallError, Channel, Responses, Timing};
use lifecycle::Tasks;
use prost::Message;
use stdx::Backoff;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::error::Failure;

/// As upstream's `--runtime-request-timeout`.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);
/// As upstream's clients of CRI have it.
const ANSWER_MAX: usize = 16 << 20;
/// Servers in Go hang up on who pings more often than every five minutes; and the kernel tells when
/// the other end of a Unix socket is gone.
const PING_INTERVAL: Duration = Duration::from_secs(600);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Asking twice is asking once.
    Safe,
    /// Only if the runtime has surely not seen it.
    IfUnseen,
}

pub(crate) struct Link {
    socket: PathBuf,
    tasks: Tasks,
    /// Held while connecting, so that there is one connection.
    channel: Mutex<Option<Channel>>,
}

impl Link {
    pub(crate) fn new(socket: &Path, tasks: &Tasks) -> Self {
        Self { socket: socket.to_owned(), tasks: tasks.clone(), channel: Mutex::default() }
    }

    pub(crate) async fn call<Q, A>(
        &self,
        method: Method<Q, A>,
        question: &Q,
        repeat: Repeat,
    ) -> Result<A, Failure>
    where
        Q: Message,
        A: Message + Default,
    {
        self.call_within(TIMEOUT, method, question, repeat).await
    }

    pub(crate) async fn call_within<Q, A>(
        &self,
        timeout: Duration,
        method: Method<Q, A>,
        question: &Q,
        repeat: Repeat,
    ) -> Result<A, Failure>
    where
        Q: Message,
        A: Message + Default,
    {
        let deadline = Instant::now() + timeout;
        let mut pause = Backoff::new(PAUSE_FIRST, PAUSE_MAX);
        loop {
            let call = async { Ok(self.channel().await?.unary(method, question).await?) };
            let failure = match tokio::time::timeout_at(deadline, call).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failure)) => failure,
                Err(_) => return Err(Failure::Late(timeout)),
            };
            let again = Instant::now() + pause.step();
            if !may_repeat(&failure, repeat) || again >= deadline {
                return Err(failure);
            }
            tokio::time::sleep_until(again).await;
        }
    }

    /// A call whose answers do not end. The first value ends it when it is dropped.
    pub(crate) async fn follow<Q, A>(
        &self,
        method: Method<Q, A>,
        question: &Q,
    ) -> Result<(impl Sized + use<Q, A>, Responses<A>), Failure>
    where
        Q: Message,
        A: Message + Default,
    {
        let (requests, pending) = self.channel().await?.open(method, question).await?;
        Ok((requests, pending.answers().await?))
    }

    async fn channel(&self) -> Result<Channel, Failure> {
        let mut held = self.channel.lock().await;
        if let Some(channel) = held.as_ref().filter(|it| !it.is_closed()) {
            return Ok(channel.clone());
        }
        let timing = Timing { ping_interval: PING_INTERVAL, ..Timing::default() };
        let channel = Channel::connect_unix(&self.socket, timing, &self.tasks).await?;
        let channel = channel.with_answers_up_to(ANSWER_MAX);
        *held = Some(channel.clone());
        Ok(channel)
    }
}

fn may_repeat(failure: &Failure, repeat: Repeat) -> bool {
    match failure {
        Failure::Connect(_) | Failure::Call(CallError::NotSent { .. }) => true,
        Failure::Call(CallError::Broken { .. }) => repeat == Repeat::Safe,
        Failure::Call(CallError::Status(_)) => failure.is_starting(),
        Failure::Late(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Response};
    use tokio::net::UnixListener;

    use super::*;
    use crate::messages::{VersionRequest, VersionResponse};
    use crate::methods::VERSION;

    /// Takes one connection: answers its first call, or hangs up when it has seen it.
    async fn serve(listener: &UnixListener, answers: bool) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        if !answers {
            return;
        }
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        let answer = VersionResponse { runtime_name: "fake".to_owned(), ..Default::default() };
        body.send_data(grpc::frame::encode(&answer), false).unwrap();
        let status = ("grpc-status".parse().unwrap(), HeaderValue::from_static("0"));
        body.send_trailers(HeaderMap::from_iter([status])).unwrap();
        // Until the client hangs up.
        while connection.accept().await.is_some() {}
    }

    async fn name(link: &Link, repeat: Repeat) -> Result<String, Failure> {
        let answer = link.call(VERSION, &VersionRequest::default(), repeat).await?;
        Ok(answer.runtime_name)
    }

    #[tokio::test]
    async fn a_call_waits_for_the_socket_to_come() {
        let directory = tempfile::tempdir().unwrap();
        let (path, tasks) = (directory.path().join("socket"), Tasks::new());
        let link = Link::new(&path, &tasks);
        let server = async {
            // The call has found nobody.
            tokio::task::yield_now().await;
            serve(&UnixListener::bind(&path).unwrap(), true).await;
        };
        tokio::select! {
            biased;
            named = name(&link, Repeat::IfUnseen) => assert_eq!(named.unwrap(), "fake"),
            () = server => panic!("the client hung up"),
        }
    }

    #[tokio::test]
    async fn what_may_have_happened_is_asked_again_only_if_that_is_safe() {
        let directory = tempfile::tempdir().unwrap();
        let (path, tasks) = (directory.path().join("socket"), Tasks::new());
        let listener = UnixListener::bind(&path).unwrap();
        let server = async {
            serve(&listener, false).await;
            serve(&listener, false).await;
            serve(&listener, true).await;
        };
        let calls = async {
            let link = Link::new(&path, &tasks);
            let once = name(&link, Repeat::IfUnseen).await;
            assert!(matches!(once, Err(Failure::Call(CallError::Broken { .. }))), "{once:?}");
            assert_eq!(name(&link, Repeat::Safe).await.unwrap(), "fake");
        };
        tokio::select! {
            biased;
            () = calls => {}
            () = server => panic!("the client hung up"),
        }
    }
}
