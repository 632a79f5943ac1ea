//! Certificates that are made can be read, loaded, served and exchanged.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use jiff::Timestamp;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ServerConfig, ServerConnection};
use stdx::Random;

use super::{Authority, Rotating, client_config, rotating_server_config, server_config};

/// Both sides in memory, until they are done or one is not content.
pub(super) fn handshake(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
) -> Result<(ServerConnection, ClientConnection), rustls::Error> {
    let mut client = ClientConnection::new(client.clone(), "server".try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(server.clone()).unwrap();
    for _ in 0..10 {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets()?;
    }
    assert!(!server.is_handshaking());
    Ok((server, client))
}

#[test]
fn an_authority_outlives_its_process_and_its_leaves_a_year() {
    let now = Timestamp::from_second(1_767_225_600).unwrap();
    let random = Random::from_seed(1);
    let created = Authority::create("xebec", now, &random).unwrap();
    let stored = created.identity();
    let authority = Authority::load(&stored.certificate_pem, &stored.private_key_pem).unwrap();
    let days = |it: Timestamp| (it.as_second() - now.as_second()) / (24 * 3600);
    assert_eq!(days(authority.not_after().unwrap()), 3650);
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let server = authority
        .issue_server(
            "kube-apiserver",
            &["localhost", "kubernetes.default.svc"],
            &[address],
            now,
            &random,
        )
        .unwrap();
    assert_eq!(days(server.not_after().unwrap()), 365);
    let client = authority.issue_client("admin", &["system:masters"], now, &random).unwrap();
    let config = server_config(&server, authority.certificate_pem()).unwrap();
    assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert!(client_config(authority.certificate_pem(), Some(&client)).is_ok());
    assert!(client_config(authority.certificate_pem(), None).is_ok());
    assert!(authority.issue_client("x", &["a", "b"], now, &random).is_err());
}

#[test]
fn an_identity_is_exchanged_between_two_handshakes() {
    let (now, random) = (Timestamp::now(), Random::from_seed(1));
    let authority = Authority::create("xebec", now, &random).unwrap();
    let issue = || authority.issue_server("server", &["server"], &[], now, &random).unwrap();
    let identity = Rotating::new(&issue()).unwrap();
    let server = rotating_server_config(identity.clone(), authority.certificate_pem()).unwrap();
    let server = Arc::new(server);
    let shown = || {
        let client = Arc::new(client_config(authority.certificate_pem(), None).unwrap());
        let (_, client) = handshake(&server, &client).unwrap();
        client.peer_certificates().unwrap()[0].to_vec()
    };
    let first = shown();
    assert_eq!(shown(), first);
    identity.replace(&issue()).unwrap();
    assert_ne!(shown(), first);
    // What cannot be used leaves it as it is.
    let (second, mut mixed) = (shown(), issue());
    mixed.private_key_pem = issue().private_key_pem;
    assert!(identity.replace(&mixed).is_err());
    assert_eq!(shown(), second);
}

#[test]
fn a_client_that_comes_back_is_known_by_its_ticket() {
    let (now, random) = (Timestamp::now(), Random::from_seed(1));
    let authority = Authority::create("xebec", now, &random).unwrap();
    let server = authority.issue_server("server", &["server"], &[], now, &random).unwrap();
    let server = Arc::new(server_config(&server, authority.certificate_pem()).unwrap());
    let identity = authority.issue_client("jane", &[], now, &random).unwrap();
    let client = client_config(authority.certificate_pem(), Some(&identity)).unwrap();
    let client = Arc::new(client);
    let (first, _) = handshake(&server, &client).unwrap();
    let (second, _) = handshake(&server, &client).unwrap();
    assert_eq!(first.handshake_kind(), Some(HandshakeKind::Full));
    assert_eq!(second.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(first.peer_certificates().is_some());
    assert_eq!(second.peer_certificates(), first.peer_certificates());
    // Another server, another key: its tickets are worth nothing here.
    let other = authority.issue_server("server", &["server"], &[], now, &random).unwrap();
    let other = Arc::new(server_config(&other, authority.certificate_pem()).unwrap());
    let (elsewhere, _) = handshake(&other, &client).unwrap();
    assert_eq!(elsewhere.handshake_kind(), Some(HandshakeKind::Full));
}
