//! Messages survive the way there and back; nonsense is refused.

use super::{
    Event, MESSAGE_MAX, Message, Refusal, Reply, Request, Streams, decode_message, decode_request,
    encode_message, encode_request,
};

fn check_request(request: &Request, text: &str) {
    let packet = encode_request(7, request).unwrap();
    assert_eq!(String::from_utf8(packet.clone()).unwrap(), text);
    assert_eq!(decode_request(&packet).unwrap(), (7, Ok(request.clone())));
}

/// The texts are fixed: holders of today meet a `xebec` of tomorrow.
#[test]
fn requests_come_back_as_they_were_and_keep_their_form() {
    check_request(&Request::Hello { version: 1 }, r#"{"id":7,"request":{"Hello":{"version":1}}}"#);
    check_request(&Request::State, r#"{"id":7,"request":"State"}"#);
    check_request(
        &Request::Start { container: "c".into(), handover: false },
        r#"{"id":7,"request":{"Start":{"container":"c"}}}"#,
    );
    check_request(
        &Request::Start { container: "c".into(), handover: true },
        r#"{"id":7,"request":{"Start":{"container":"c","handover":true}}}"#,
    );
    check_request(
        &Request::Exec {
            container: "c".into(),
            command: vec!["ls".into()],
            streams: Streams { stdout: true, ..Streams::default() },
            handover: false,
        },
        r#"{"id":7,"request":{"Exec":{"container":"c","command":["ls"],"streams":{"tty":false,"stdin":false,"stdout":true,"stderr":false}}}}"#,
    );
    check_request(&Request::Shutdown, r#"{"id":7,"request":"Shutdown"}"#);
}

#[test]
fn messages_come_back_as_they_were() {
    for message in [
        Message::Reply { id: 1, reply: Reply::Welcome { version: 1, pid: 4711 } },
        Message::Reply { id: 2, reply: Reply::Refused(Refusal::TooMany(64)) },
        Message::Event(Event::CommandExited { code: 130 }),
    ] {
        let packet = encode_message(&message).unwrap();
        assert_eq!(decode_message(&packet).unwrap(), message);
    }
}

#[test]
fn an_unknown_request_is_refused_by_name_and_number() {
    let (id, request) = decode_request(br#"{"id":9,"request":{"Freeze":{"hard":true}}}"#).unwrap();
    assert_eq!(id, 9);
    let Err(Refusal::UnknownRequest(text)) = request else { panic!("{request:?}") };
    assert!(text.contains("`Freeze`"), "{text}");
}

#[test]
fn fields_that_are_not_known_are_skipped() {
    let (_, request) =
        decode_request(br#"{"id":9,"urgent":1,"request":{"Connect":{"port":80,"fast":true}}}"#)
            .unwrap();
    assert_eq!(request, Ok(Request::Connect { port: 80 }));
}

#[test]
fn garbage_is_an_error_and_not_a_panic() {
    for packet in [&b""[..], b"{", b"[]", b"{\"id\":-1}", b"\xff\xfe", b"null"] {
        assert!(decode_request(packet).is_err());
        assert!(decode_message(packet).is_err());
    }
}

#[test]
fn a_command_that_does_not_fit_is_refused_before_it_is_sent() {
    let request = Request::Exec {
        container: "c".into(),
        command: vec!["x".repeat(MESSAGE_MAX)],
        streams: Streams::default(),
        handover: false,
    };
    let err = encode_request(1, &request).unwrap_err();
    assert!(err.to_string().contains("is longer than 131072"), "{err}");
}
