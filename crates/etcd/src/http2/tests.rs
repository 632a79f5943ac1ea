//! The protocol, byte by byte: what a peer is answered, and what it cannot do to us.

use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::frame::{self, PREFACE, Reason};
use super::{Closed, Event, Head, Method, Session, Settings, Violation};
use crate::wire::{Code, Status};

const SETTINGS: Settings = Settings {
    streams_max: 4,
    window_stream: 1000,
    window_connection: 70_000,
    frame_max: 16_384,
    headers_max: 400,
};

/// `:method POST`, `:scheme http`, `:path /a`, `content-type application/grpc`; nothing to be
/// remembered.
const POST: &[u8] = b"\x83\x86\x04\x02/a\x0f\x10\x10application/grpc";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::push(&mut bytes, kind, flags, stream, |it| it.extend_from_slice(payload));
    bytes
}

fn request(stream: u32, is_complete: bool) -> Vec<u8> {
    let flags = frame::END_HEADERS | if is_complete { frame::END_STREAM } else { 0 };
    frame(frame::HEADERS, flags, stream, POST)
}

fn number(kind: u8, stream: u32, number: u32) -> Vec<u8> {
    frame(kind, 0, stream, &number.to_be_bytes())
}

fn setting(setting: u16, value: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    frame::push_setting(&mut payload, setting, value);
    frame(frame::SETTINGS, 0, 0, &payload)
}

/// A session whose greetings are exchanged.
fn greeted() -> Session {
    let mut session = Session::new(SETTINGS);
    let hello = [PREFACE, &frame(frame::SETTINGS, 0, 0, b"")].concat();
    assert_eq!(events(&mut session, &hello), Ok(vec![]));
    let greeting = written(&mut session);
    assert_eq!(greeting.len(), 3, "settings, a larger window, and the acknowledgement");
    session
}

fn events(session: &mut Session, input: &[u8]) -> Result<Vec<Event>, Violation> {
    let mut input = BytesMut::from(input);
    let mut events = Vec::new();
    while let Some(event) = session.receive(&mut input)? {
        events.push(event);
    }
    assert!(input.is_empty(), "whole frames are consumed");
    Ok(events)
}

/// What the session has to say, as kind, flags, stream and payload.
fn written(session: &mut Session) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let output = session.output(Vec::new());
    let (mut rest, mut frames) = (&output[..], Vec::new());
    while let Some(head) = frame::Head::parse(rest) {
        let end = frame::HEAD + head.len;
        frames.push((head.kind, head.flags, head.stream, rest[frame::HEAD..end].to_vec()));
        rest = &rest[end..];
    }
    assert!(rest.is_empty());
    frames
}

fn kinds(session: &mut Session) -> Vec<(u8, u32)> {
    written(session).into_iter().map(|(kind, _, stream, _)| (kind, stream)).collect()
}

fn resets(session: &mut Session) -> Vec<(u32, Vec<u8>)> {
    let resets = written(session).into_iter().filter(|it| it.0 == frame::RST_STREAM);
    resets.map(|(_, _, stream, reason)| (stream, reason)).collect()
}

fn waiting() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[test]
fn a_call_is_read_and_answered() {
    let mut session = greeted();
    let mut input = request(1, false);
    input.extend(frame(frame::DATA, frame::END_STREAM, 1, b"hello"));
    let head = Head { method: Method::Post, path: "/a".to_owned(), is_grpc: true };
    let opened = Event::Open { stream: 1, head, is_complete: false };
    let data = Event::Data { stream: 1, bytes: Bytes::from_static(b"hello"), is_complete: true };
    assert_eq!(events(&mut session, &input), Ok(vec![opened, data]));
    session.answer(1, Bytes::from_static(b"world"));
    let (headers, trailers) = (frame::END_HEADERS, frame::END_HEADERS | frame::END_STREAM);
    let frames = written(&mut session);
    let shape: Vec<_> = frames.iter().map(|it| (it.0, it.1, it.2)).collect();
    let expected =
        [(frame::HEADERS, headers, 1), (frame::DATA, 0, 1), (frame::HEADERS, trailers, 1)];
    assert_eq!(shape, expected);
    assert_eq!(frames[1].3, b"world");
    assert_eq!(session.n_streams(), 0);
    // Who is not there any more gets no answer.
    session.answer(1, Bytes::from_static(b"again"));
    assert_eq!(written(&mut session), []);
}

#[test]
fn frames_are_read_however_they_are_cut() {
    let mut session = Session::new(SETTINGS);
    let mut stream = [PREFACE, &frame(frame::SETTINGS, 0, 0, b"")].concat();
    stream.extend(frame(frame::HEADERS, 0, 1, &POST[..3]));
    stream.extend(frame(frame::CONTINUATION, 0, 1, &POST[3..7]));
    stream.extend(frame(frame::CONTINUATION, frame::END_HEADERS, 1, &POST[7..]));
    stream.extend(frame(frame::DATA, 0x8, 1, b"\x03datapad"));
    // Trailers of the client, with a priority.
    let flags = frame::END_HEADERS | frame::END_STREAM | 0x20;
    stream.extend(frame(frame::HEADERS, flags, 1, b"\0\0\0\0\x10\x00\x01a\x01b"));
    let (mut input, mut seen) = (BytesMut::new(), Vec::new());
    for byte in stream {
        input.extend_from_slice(&[byte]);
        while let Some(event) = session.receive(&mut input).unwrap() {
            seen.push(event);
        }
    }
    assert!(matches!(&seen[0], Event::Open { stream: 1, is_complete: false, .. }));
    let data = |bytes: &'static [u8], is_complete| Event::Data {
        stream: 1,
        bytes: Bytes::from_static(bytes),
        is_complete,
    };
    assert_eq!(seen[1..], [data(b"data", false), data(b"", true)]);
}

#[test]
fn answers_wait_for_the_peers_windows_and_take_turns() {
    let mut session = greeted();
    assert!(events(&mut session, &setting(frame::setting::INITIAL_WINDOW_SIZE, 10)).is_ok());
    for stream in [1, 3] {
        events(&mut session, &request(stream, true)).unwrap();
        session.answer(stream, Bytes::from(vec![b'x'; 25]));
    }
    written(&mut session).iter().for_each(|it| assert!(it.0 != frame::DATA || it.3.len() == 10));
    assert_eq!(session.poll_sent(1, &waiting()), Poll::Pending);
    assert_eq!(written(&mut session), []);
    // A smaller window for all streams takes back what they have not used.
    events(&mut session, &setting(frame::setting::INITIAL_WINDOW_SIZE, 0)).unwrap();
    events(&mut session, &number(frame::WINDOW_UPDATE, 1, 12)).unwrap();
    let sizes: Vec<_> =
        written(&mut session).into_iter().filter(|it| it.0 == frame::DATA).collect();
    assert_eq!(sizes, [(frame::DATA, 0, 1, vec![b'x'; 2])]);
    events(&mut session, &setting(frame::setting::INITIAL_WINDOW_SIZE, 100)).unwrap();
    let rest = kinds(&mut session);
    let of = |stream| rest.iter().filter(|it| it.1 == stream).map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(of(1), [frame::DATA, frame::HEADERS]);
    assert_eq!(of(3), [frame::DATA, frame::HEADERS]);
    assert_eq!(session.poll_sent(1, &waiting()), Poll::Ready(Err(Closed)));
}

#[test]
fn the_connections_window_bounds_all_streams_together() {
    let mut session = greeted();
    events(&mut session, &setting(frame::setting::INITIAL_WINDOW_SIZE, 1 << 20)).unwrap();
    for stream in [1, 3] {
        events(&mut session, &request(stream, true)).unwrap();
        session.answer(stream, Bytes::from(vec![b'x'; 50_000]));
    }
    let sent = |session: &mut Session| -> usize {
        let frames = written(session).into_iter();
        frames.filter(|it| it.0 == frame::DATA).map(|it| it.3.len()).sum()
    };
    assert_eq!(sent(&mut session), 65_535);
    assert_eq!(sent(&mut session), 0);
    events(&mut session, &number(frame::WINDOW_UPDATE, 0, 1 << 20)).unwrap();
    assert_eq!(sent(&mut session), 100_000 - 65_535);
    assert_eq!(session.n_streams(), 0);
}

#[test]
fn what_a_reader_takes_the_peer_may_send_again() {
    let mut session = greeted();
    events(&mut session, &request(1, false)).unwrap();
    for round in 0..20 {
        let sent = events(&mut session, &frame(frame::DATA, 0, 1, &[round; 400])).unwrap();
        let [Event::Data { bytes, .. }] = &sent[..] else { panic!("{sent:?}") };
        session.deliver(1, bytes.clone());
        assert_eq!(session.poll_read(1, &waiting()), Poll::Ready(Ok(Some(bytes.clone()))));
        assert_eq!(session.poll_read(1, &waiting()), Poll::Pending);
        let updates = kinds(&mut session);
        assert_eq!(updates, if round % 2 == 1 { vec![(frame::WINDOW_UPDATE, 1)] } else { vec![] });
    }
    // Nobody reads: the window ends, and whoever sends more is reset.
    for expected in [0, 0, 1] {
        events(&mut session, &frame(frame::DATA, 0, 1, &[0; 400])).unwrap();
        assert_eq!(resets(&mut session).len(), expected);
    }
}

#[test]
fn calls_beyond_the_limit_are_refused_and_may_come_again() {
    let mut session = greeted();
    for stream in [1, 3, 5, 7, 9] {
        events(&mut session, &request(stream, true)).unwrap();
    }
    assert_eq!(resets(&mut session), [(9, vec![0, 0, 0, Reason::RefusedStream as u8])]);
    let given_up = events(&mut session, &number(frame::RST_STREAM, 3, 8)).unwrap();
    assert_eq!(given_up, [Event::Reset { stream: 3 }]);
    assert_eq!(events(&mut session, &request(11, true)).unwrap().len(), 1);
    assert_eq!(resets(&mut session), []);
}

#[test]
fn a_refusal_says_why_and_stops_the_request() {
    let mut session = greeted();
    events(&mut session, &request(1, false)).unwrap();
    session.refuse(1, &Status::new(Code::NotFound, "50% là"));
    let frames = written(&mut session);
    assert_eq!(
        (frames[0].0, frames[0].1),
        (frame::HEADERS, frame::END_HEADERS | frame::END_STREAM)
    );
    let text = String::from_utf8_lossy(&frames[0].3).into_owned();
    assert!(text.contains("grpc-message") && text.contains("50%25 l%C3%A0"), "{text}");
    assert_eq!((frames[1].0, &frames[1].3[..]), (frame::RST_STREAM, &[0, 0, 0, 0][..]));
    // What was under way is taken, and the connection goes on.
    assert_eq!(events(&mut session, &frame(frame::DATA, 0, 1, b"late")), Ok(vec![]));
}

#[test]
fn whoever_breaks_the_rules_is_told_which() {
    let check = |input: &[u8], reason: Reason| {
        let mut session = greeted();
        events(&mut session, &request(1, true)).unwrap();
        assert_eq!(events(&mut session, input), Err(Violation(reason)), "{input:?}");
    };
    let long = frame(frame::HEADERS, 0, 3, &[0; 401]);
    check(&long, Reason::EnhanceYourCalm);
    check(&frame(frame::DATA, 0, 1, &[0; 16_385])[..9], Reason::FrameSize);
    check(&frame(frame::DATA, 0, 0, b""), Reason::Protocol);
    check(&frame(frame::DATA, 0, 5, b""), Reason::Protocol);
    check(&frame(frame::DATA, 0x8, 1, b"\x05abc"), Reason::Protocol);
    check(&frame(frame::HEADERS, 0x4, 2, POST), Reason::Protocol);
    check(&frame(frame::HEADERS, 0x5, 1, POST), Reason::StreamClosed);
    check(&frame(frame::HEADERS, 0x4, 3, b"\xff\xff\xff\xff\xff"), Reason::Compression);
    check(&[frame(frame::HEADERS, 0, 3, POST), request(5, true)].concat(), Reason::Protocol);
    check(&frame(frame::CONTINUATION, 0x4, 1, POST), Reason::Protocol);
    check(&frame(frame::RST_STREAM, 0, 1, b"abc"), Reason::FrameSize);
    check(&number(frame::RST_STREAM, 7, 8), Reason::Protocol);
    check(&frame(frame::SETTINGS, 0, 0, b"12345"), Reason::FrameSize);
    check(&frame(frame::SETTINGS, 0, 1, b""), Reason::Protocol);
    check(&setting(frame::setting::MAX_FRAME_SIZE, 5), Reason::Protocol);
    check(&setting(frame::setting::INITIAL_WINDOW_SIZE, u32::MAX), Reason::FlowControl);
    check(&frame(frame::PING, 0, 0, b"short"), Reason::FrameSize);
    check(&frame(frame::PUSH_PROMISE, 0, 1, b""), Reason::Protocol);
    check(&number(frame::WINDOW_UPDATE, 0, 0), Reason::Protocol);
    check(&number(frame::WINDOW_UPDATE, 0, 0x7fff_ffff), Reason::FlowControl);
    let mut session = Session::new(SETTINGS);
    let ping = [PREFACE, &frame(frame::PING, 0, 0, &[0; 8])].concat();
    assert_eq!(events(&mut session, &ping), Err(Violation(Reason::Protocol)));
    let mut session = Session::new(SETTINGS);
    assert_eq!(events(&mut session, b"GET / HTTP"), Err(Violation(Reason::Protocol)));
}

#[test]
fn requests_that_make_no_sense_are_reset_alone() {
    let check = |block: &[u8], reason: Reason| {
        let mut session = greeted();
        let sent = frame(frame::HEADERS, frame::END_HEADERS, 1, block);
        assert_eq!(events(&mut session, &sent), Ok(vec![]));
        assert_eq!(resets(&mut session), [(1, vec![0, 0, 0, reason as u8])]);
        assert_eq!(events(&mut session, &request(3, true)).unwrap().len(), 1);
    };
    check(b"\x86\x84", Reason::Protocol);
    check(b"\x83\x86", Reason::Protocol);
    check(b"\x83\x83\x84", Reason::Protocol);
    check(b"\x83\x84\x00\x01A\x01b", Reason::Protocol);
    let long = [b"\x83\x84\x00\x01a\x7f\xd1\x01".as_slice(), &[b'x'; 336]].concat();
    check(&long, Reason::EnhanceYourCalm);
}

#[test]
fn pings_are_answered_and_leaving_is_announced() {
    let mut session = greeted();
    events(&mut session, &frame(frame::PING, 0, 0, b"12345678")).unwrap();
    assert_eq!(written(&mut session), [(frame::PING, frame::ACK, 0, b"12345678".to_vec())]);
    events(&mut session, &request(1, true)).unwrap();
    session.leave(Reason::NoError);
    assert_eq!(written(&mut session), [(frame::GOAWAY, 0, 0, vec![0, 0, 0, 1, 0, 0, 0, 0])]);
    assert_eq!(events(&mut session, &request(3, true)), Ok(vec![]), "it was told");
    session.plain(1, 200, "{}");
    assert_eq!(kinds(&mut session), [(frame::HEADERS, 1), (frame::DATA, 1)]);
    assert_eq!(session.n_streams(), 0);
}

proptest! {
    /// Frames that are nearly right, in any order, with answers between them.
    #[test]
    fn no_peer_breaks_a_session(
        frames in prop::collection::vec(
            (0u8..11, any::<u8>(), 0u32..12, prop_oneof![
                Just(POST.to_vec()),
                prop::collection::vec(any::<u8>(), 0..20),
                (0u32..2000).prop_map(|it| it.to_be_bytes().to_vec()),
            ], 0u8..6),
            0..60,
        ),
    ) {
        let mut session = greeted();
        for (kind, flags, stream, payload, action) in frames {
            match events(&mut session, &frame(kind, flags, stream, &payload)) {
                Err(Violation(_)) => return Ok(()),
                Ok(seen) => for event in seen {
                    if let Event::Data { stream, bytes, .. } = event {
                        session.deliver(stream, bytes);
                    }
                },
            }
            match action {
                0 => session.answer(stream, Bytes::from(payload)),
                1 => session.refuse(stream, &Status::new(Code::Aborted, "no")),
                2 => drop(session.poll_read(stream, &waiting())),
                3 => session.abandon(stream),
                _ => {}
            }
            written(&mut session);
            prop_assert!(session.n_streams() <= 4);
        }
    }
}
