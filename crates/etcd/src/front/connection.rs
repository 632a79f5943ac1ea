//! One HTTP/2 connection. Its short calls run inside its own task: a put starts no task, and all
//! answers that are ready leave in one write.

use std::collections::HashMap;
use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use lifecycle::{Shutdown, Tasks};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::exchange::{Inbound, Messages, Reply, no_message};
use super::kv::write::{self, WriteCall};
use super::link::Link;
use super::patience::Patience;
use super::peer::{Peer, UnderWay};
use super::routes::{self, Answered, Call, Route};
use super::{Front, error, kv, probe};
use crate::http2::{Event, Head, Method, Reason, Session, Settings, Violation};
use crate::wire::{Status, frame};

const WINDOW_STREAM: u32 = 1 << 20;
const WINDOW_CONNECTION: u32 = 4 << 20;
const FRAME_MAX: u32 = 64 << 10;
const HEADERS_MAX: u32 = 16 << 10;
/// What one read takes at most.
const READ: usize = 64 << 10;
/// Buffers that have grown beyond this are given back when they are empty.
const BUFFER_KEPT: usize = 16 << 10;
/// A call that is alone in what was read: its beginning and its message.
const ALONE_EVENTS: usize = 2;

pub(super) async fn run<S>(io: S, front: Arc<Front>, tasks: Tasks, shutdown: Shutdown)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let session = Session::new(Settings {
        streams_max: front.limits.streams,
        window_stream: WINDOW_STREAM,
        window_connection: WINDOW_CONNECTION,
        frame_max: FRAME_MAX,
        headers_max: HEADERS_MAX,
    });
    let mut patience = Patience::new(front.limits);
    let peer = Arc::new(Peer::new(front, tasks, Link::new(session)));
    let mut connection = Connection {
        io,
        peer: peer.clone(),
        input: BytesMut::new(),
        events: Vec::new(),
        writing: Vec::new(),
        n_written: 0,
        requests: HashMap::new(),
        calls: FuturesUnordered::new(),
        writes: Vec::new(),
        was_heard: false,
        is_leaving: false,
        is_broken: false,
    };
    let mut stop = pin!(shutdown.cancelled());
    poll_fn(|cx| {
        if !connection.is_leaving && stop.as_mut().poll(cx).is_ready() {
            connection.leave(Reason::NoError);
        }
        peer.link.register_writer(cx.waker());
        if connection.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if connection.is_leaving {
            patience.limit_rest();
        }
        patience.poll(cx, &mut connection.was_heard, &peer.link)
    })
    .await;
    peer.link.session().close();
}

struct Connection<S> {
    io: S,
    peer: Arc<Peer>,
    /// Read, and not yet a whole frame.
    input: BytesMut,
    /// Kept for its memory.
    events: Vec<Event>,
    writing: Vec<u8>,
    n_written: usize,
    /// Calls whose request has not arrived whole.
    requests: HashMap<u32, Request>,
    calls: FuturesUnordered<Running>,
    /// Writes that have arrived and were not asked for yet.
    writes: Vec<WriteCall>,
    /// Something was read since it was last asked.
    was_heard: bool,
    /// No new calls are taken.
    is_leaving: bool,
    /// The peer broke the protocol: it is told so, and that is all.
    is_broken: bool,
}

/// Short calls whose requests are there.
enum Running {
    One { stream: u32, answer: BoxFuture<'static, Answered>, _under_way: UnderWay },
    Writes(BoxFuture<'static, Vec<(u32, Answered)>>),
}

impl Future for Running {
    type Output = Vec<(u32, Answered)>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::One { stream, answer, .. } => {
                answer.as_mut().poll(cx).map(|answered| vec![(*stream, answered)])
            }
            Self::Writes(answers) => answers.as_mut().poll(cx),
        }
    }
}

enum Request {
    /// The message is not complete.
    Partial(Route, Messages, UnderWay),
    /// A task of its own reads it.
    Streamed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.collect(cx);
            let Poll::Ready(is_written) = self.poll_write(cx) else { return Poll::Pending };
            if !is_written || self.is_done() {
                return Poll::Ready(());
            }
            // A peer that does not read its answers is not read from either.
            match self.poll_read(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Hands the answers that are there to the session.
    fn collect(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(answers)) = self.calls.poll_next_unpin(cx) {
            let mut session = self.peer.link.session();
            for (stream, answered) in answers {
                say(&mut session, stream, answered);
            }
        }
    }

    /// Everything has been said.
    fn is_done(&self) -> bool {
        self.is_broken || (self.is_leaving && self.peer.link.session().n_streams() == 0)
    }

    /// Ready when everything is written that can be; false when the peer is gone.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut is_flushed = true;
        loop {
            if self.n_written == self.writing.len() {
                let mut spent = std::mem::take(&mut self.writing);
                if spent.capacity() > BUFFER_KEPT {
                    spent = Vec::new();
                }
                self.writing = self.peer.link.session().output(spent);
                self.n_written = 0;
                if self.writing.is_empty() {
                    break;
                }
            }
            let rest = &self.writing[self.n_written..];
            match Pin::new(&mut self.io).poll_write(cx, rest) {
                Poll::Ready(Ok(n @ 1..)) => self.n_written += n,
                Poll::Ready(_) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
            is_flushed = false;
        }
        if is_flushed {
            return Poll::Ready(true);
        }
        Pin::new(&mut self.io).poll_flush(cx).map(|it| it.is_ok())
    }

    /// Ready when something was read, and false when there is no more.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // On the stack: an idle connection has no buffer.
        let mut piece = [const { MaybeUninit::uninit() }; READ];
        let mut piece = ReadBuf::uninit(&mut piece);
        match Pin::new(&mut self.io).poll_read(cx, &mut piece) {
            Poll::Ready(Ok(())) if !piece.filled().is_empty() => {}
            Poll::Ready(_) => return Poll::Ready(false),
            Poll::Pending => return Poll::Pending,
        }
        self.input.extend_from_slice(piece.filled());
        if let Err(Violation(reason)) = self.receive() {
            self.leave(reason);
            self.is_broken = true;
        }
        if self.input.is_empty() && self.input.capacity() > BUFFER_KEPT {
            self.input = BytesMut::new();
        }
        Poll::Ready(true)
    }

    fn leave(&mut self, reason: Reason) {
        self.is_leaving = true;
        self.peer.link.session().leave(reason);
    }

    fn receive(&mut self) -> Result<(), Violation> {
        self.was_heard = true;
        let mut events = std::mem::take(&mut self.events);
        let received = {
            let mut session = self.peer.link.session();
            loop {
                match session.receive(&mut self.input) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break Ok(()),
                    Err(violation) => break Err(violation),
                }
            }
        };
        // A write that came with anything else would hold it up.
        let is_alone = events.len() <= ALONE_EVENTS && self.calls.is_empty();
        for event in events.drain(..) {
            match event {
                Event::Open { stream, head, is_complete } => self.open(stream, &head, is_complete),
                Event::Data { stream, bytes, is_complete } => self.data(stream, bytes, is_complete),
                Event::Reset { stream } => drop(self.requests.remove(&stream)),
            }
        }
        self.events = events;
        self.ask(is_alone);
        received
    }

    /// Asks for the writes that have arrived.
    fn ask(&mut self, is_alone: bool) {
        if is_alone && let Some(call) = self.writes.pop() {
            match write::run_here(&self.peer, call) {
                Ok((stream, answered)) => say(&mut self.peer.link.session(), stream, answered),
                Err(call) => self.writes.push(call),
            }
        }
        if !self.writes.is_empty() {
            let writes = std::mem::take(&mut self.writes);
            let answers = write::run(self.peer.clone(), writes);
            self.calls.push(Running::Writes(Box::pin(answers)));
        }
    }

    fn open(&mut self, stream: u32, head: &Head, is_complete: bool) {
        let Some(under_way) = self.peer.begin() else {
            return self.peer.link.session().reset(stream, Reason::RefusedStream);
        };
        if !head.is_grpc {
            return self.probe(stream, head, under_way);
        }
        match Route::find(&head.path) {
            Err(status) => self.refuse(stream, &status),
            Ok(Route::Stream(name, method)) => {
                let peer = self.peer.clone();
                let inbound = Inbound::new(stream, peer.clone());
                let reply = Reply::new(stream, peer.clone());
                if !is_complete {
                    self.requests.insert(stream, Request::Streamed);
                }
                routes::spawn(name, method, Call { peer, inbound, reply }, under_way);
            }
            Ok(_) if is_complete => self.refuse(stream, &no_message()),
            Ok(route) => {
                let messages = Messages::new(self.peer.clone());
                self.requests.insert(stream, Request::Partial(route, messages, under_way));
            }
        }
    }

    fn refuse(&self, stream: u32, status: &Status) {
        self.peer.link.session().refuse(stream, status);
    }

    /// Whoever does not speak gRPC.
    fn probe(&mut self, stream: u32, head: &Head, under_way: UnderWay) {
        let (peer, method, path) = (self.peer.clone(), head.method, head.path.clone());
        let answer = async move {
            let (code, body) = match method {
                Method::Get => {
                    probe::answer(&peer.front, path.split('?').next().unwrap_or("")).await
                }
                Method::Post | Method::Other => probe::unsupported(),
            };
            Answered::Plain(code.as_u16(), body)
        };
        let answer = Box::pin(answer);
        self.calls.push(Running::One { stream, answer, _under_way: under_way });
    }

    fn data(&mut self, stream: u32, bytes: Bytes, is_complete: bool) {
        let mut session = self.peer.link.session();
        let request = self.requests.remove(&stream);
        if let Some(Request::Streamed) = request {
            session.deliver(stream, bytes);
            if !is_complete {
                self.requests.insert(stream, Request::Streamed);
            }
            return;
        }
        session.take(stream, bytes.len());
        drop(session);
        // Otherwise the call has its message, and nobody wants more.
        let Some(Request::Partial(route, mut messages, under_way)) = request else { return };
        let message = match messages.push(bytes).and_then(|()| messages.next()) {
            Ok(None) if is_complete => messages.end().and(Err(no_message())),
            message => message,
        };
        match message {
            Ok(Some(message)) => self.start(stream, route, message, under_way),
            Ok(None) => {
                self.requests.insert(stream, Request::Partial(route, messages, under_way));
            }
            Err(status) => self.refuse(stream, &status),
        }
    }

    fn start(&mut self, stream: u32, route: Route, message: Bytes, under_way: UnderWay) {
        let peer = self.peer.clone();
        let answer = match route {
            Route::Write(_) if message.len() > peer.front.limits.request_bytes => {
                return self.refuse(stream, &error::request_too_large());
            }
            Route::Write(read) => match read(message) {
                Ok(write) => return self.writes.push(WriteCall { stream, write, under_way }),
                Err(status) => return self.refuse(stream, &status),
            },
            Route::Unary(method) => method(peer, message),
            Route::Range => match frame::decode(message) {
                Ok(request) if kv::is_wide(&request) => {
                    return kv::range_apart(request, Reply::new(stream, peer), under_way);
                }
                Ok(request) => routes::range(peer, request),
                Err(status) => return self.refuse(stream, &status),
            },
            Route::Stream(..) => return peer.link.session().abandon(stream),
        };
        self.calls.push(Running::One { stream, answer, _under_way: under_way });
    }
}

fn say(session: &mut Session, stream: u32, answered: Answered) {
    match answered {
        Answered::Message(message) => session.answer(stream, message),
        Answered::Refused(status) => session.refuse(stream, &status),
        Answered::Plain(code, body) => session.plain(stream, code, &body),
    }
}
