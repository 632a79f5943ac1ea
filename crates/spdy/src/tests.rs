//! Frames and headers as other implementations write them, and whole sessions with a client by
//! hand.

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::frame::{self, Control, HEAD, Head};
use super::headers::{Decoder, Encoder, Headers};
use super::{Error, session};

fn headers(pairs: &[(&str, &str)]) -> Headers {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_dictionary_is_the_specifications() {
    let mut compress = flate2::Compress::new(flate2::Compression::default(), true);
    // Its Adler-32 is in the head of every SPDY/3 header stream.
    assert_eq!(compress.set_dictionary(super::dictionary::dictionary()).unwrap(), 0xe3c6_a7c2);
}

#[test]
fn frames_have_the_specified_bytes() {
    assert_eq!(&frame::ping(1)[..], [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1]);
    assert_eq!(&frame::go_away(5)[..], [0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0]);
    assert_eq!(&frame::reply(3, b"x")[..], [0x80, 3, 0, 2, 0, 0, 0, 5, 0, 0, 0, 3, b'x']);
    assert_eq!(frame::data(7, true, 0x01_0203), [0, 0, 0, 7, 1, 1, 2, 3]);
    let head = Head::parse([0, 0, 0, 7, 1, 0, 0, 2]).unwrap();
    assert_eq!(head, Head::Data { stream: 7, is_last: true, length: 2 });
}

#[test]
fn what_is_not_spdy_3_is_refused() {
    assert!(matches!(Head::parse([0x80, 2, 0, 1, 0, 0, 0, 0]), Err(Error::Version(2))));
    let long = Head::parse([0x80, 3, 0, 1, 0, 0xff, 0, 0]);
    assert!(matches!(long, Err(Error::Length { kind: 1, .. })));
    let short = Control::parse(1, false, &Bytes::from_static(&[0; 9]));
    assert!(matches!(short, Err(Error::Length { kind: 1, length: 9 })));
    assert!(matches!(Decoder::new().decode(b"no zlib"), Err(Error::Headers)));
}

#[test]
fn header_blocks_of_one_connection_share_their_compression() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let large = "v".repeat(20_000);
    for pairs in [
        headers(&[("streamtype", "error"), ("port", "80"), ("requestid", "0")]),
        headers(&[("streamtype", "data"), ("port", "80"), ("requestid", "0")]),
        headers(&[]),
        headers(&[("large", &large)]),
    ] {
        assert_eq!(decoder.decode(&encoder.encode(&pairs)).unwrap(), pairs);
    }
}

#[test]
fn headers_that_grow_too_large_are_refused() {
    let huge = headers(&[("a", &"x".repeat(200_000))]);
    let block = Encoder::new().encode(&huge);
    assert!(matches!(Decoder::new().decode(&block), Err(Error::HeadersTooLarge(_))));
}

#[tokio::test]
async fn streams_are_answered_fed_reset_and_closed() {
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let (session, mut streams, keep) = session(server);
    let mut encoder = Encoder::new();
    let app = async {
        let mut first = streams.recv().await.unwrap();
        assert_eq!(first.headers["streamtype"], "stdin");
        assert_eq!(first.input.recv().await.unwrap(), "hello");
        assert_eq!(first.input.recv().await, None);
        let second = streams.recv().await.unwrap();
        second.reset.cancelled().await;
        first.output.finish("bye".into()).await.unwrap();
        drop((first, second, keep));
    };
    let peer = async {
        let mut bytes =
            frame::open(1, false, &encoder.encode(&headers(&[("streamType", "stdin")])));
        client.write_all(&bytes).await.unwrap();
        client.write_all(&frame::data(1, true, 5)).await.unwrap();
        client.write_all(b"hello").await.unwrap();
        bytes = frame::open(3, false, &encoder.encode(&headers(&[])));
        client.write_all(&bytes).await.unwrap();
        client.write_all(&frame::ping(9)).await.unwrap();
        client.write_all(&frame::reset(3, 5)).await.unwrap();
        let mut seen = Vec::new();
        loop {
            let mut head = [0; HEAD];
            client.read_exact(&mut head).await.unwrap();
            let (text, length) = match Head::parse(head).unwrap() {
                Head::Data { stream, is_last, length } => {
                    (format!("data {stream} {is_last}"), length)
                }
                Head::Control { kind, length, .. } => (format!("control {kind}"), length),
            };
            let mut payload = vec![0; length];
            client.read_exact(&mut payload).await.unwrap();
            seen.push(text);
            if seen.last().is_some_and(|it| it == "control 7") {
                // Gone away: the client hangs up.
                drop(client);
                return seen;
            }
        }
    };
    let (ended, (), seen) = tokio::join!(session.run(), app, peer);
    ended.unwrap();
    assert_eq!(seen, ["control 2", "control 2", "control 6", "data 1 true", "control 7"]);
}

#[tokio::test]
async fn a_client_and_a_server_understand_each_other() {
    let (ours, theirs) = tokio::io::duplex(1024);
    let (session, mut streams, keep) = session(theirs);
    let (client, opener) = super::client(ours);
    let server = async {
        let mut stream = streams.recv().await.unwrap();
        assert_eq!(stream.headers, headers(&[("streamtype", "data")]));
        let mut got = Vec::new();
        while let Some(piece) = stream.input.recv().await {
            got.extend_from_slice(&piece);
        }
        stream.output.finish(Bytes::from(got.to_ascii_uppercase())).await.unwrap();
        drop((keep, stream));
    };
    let user = async {
        let mut stream = opener.open(headers(&[("streamtype", "data")])).await.unwrap();
        let text = "there and back ".repeat(5000);
        stream.output.send(Bytes::from(text.clone())).await.unwrap();
        stream.output.finish(Bytes::new()).await.unwrap();
        let mut got = Vec::new();
        while let Some(piece) = stream.input.recv().await {
            got.extend_from_slice(&piece);
        }
        assert_eq!(String::from_utf8(got).unwrap(), text.to_ascii_uppercase());
        drop((opener, stream));
    };
    let (served, called, (), ()) = tokio::join!(session.run(), client.run(), server, user);
    served.unwrap();
    called.unwrap();
}
