//! Certificates that are made can be read, loaded and served.

use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use stdx::Random;

use super::{Authority, client_config, server_config};

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
