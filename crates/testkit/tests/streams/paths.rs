//! Spellings of the kubelet's paths, by somebody who may only read its metrics: what is permitted
//! is what is answered.

use std::sync::Arc;

use authn::pki::client_config;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::site::Site;

/// The status of what is sent as it is, past all that clients put right.
async fn status(site: &Site, user: &str, method: &str, path: &str) -> u16 {
    let identity = site.identity(user, &[]);
    let mut tls = client_config(site.authority.certificate_pem(), Some(&identity)).unwrap();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(site.kubelet_address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.unwrap();
    std::str::from_utf8(&line[9..]).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_path_is_permitted_as_another() {
    let site = Site::start().await;
    let rule = |subresource: &str, verbs: &[&str]| json!([{"apiGroups": [""], "resources": [format!("nodes/{subresource}")], "verbs": verbs}]);
    site.grant("meter", &rule("metrics", &["get"])).await;
    site.grant("proxy-reader", &rule("proxy", &["get"])).await;
    site.grant("proxy-writer", &rule("proxy", &["create"])).await;
    let exec = "default/web/main?command=true&stdout=true";
    let check = async |user: &str, method: &str, path: String, expected: u16| {
        let actual = status(&site, user, method, &path).await;
        assert_eq!(actual, expected, "{user}: {method} {path}");
    };
    check("meter", "GET", "/metrics".to_owned(), 200).await;
    check("meter", "GET", "/%6detrics".to_owned(), 200).await;
    check("meter", "POST", "/metrics".to_owned(), 403).await;
    check("proxy-writer", "POST", format!("/%65xec/{exec}"), 101).await;
    check("proxy-reader", "GET", "/nothing".to_owned(), 404).await;
    check("meter", "GET", "/nothing".to_owned(), 403).await;
    for word in ["exec", "%65xec", "%65%78%65%63", "attach", "%61ttach"] {
        for user in ["meter", "proxy-reader"] {
            for method in ["GET", "POST"] {
                check(user, method, format!("/{word}/{exec}"), 403).await;
            }
        }
    }
    let ambiguous = [
        format!("//exec/{exec}"),
        format!("/metrics/../exec/{exec}"),
        format!("/metrics/..%2fexec/{exec}"),
        format!("/metrics%2f%2e%2e%2fexec/{exec}"),
        format!("/./exec/{exec}"),
    ];
    for path in ambiguous {
        for user in ["meter", "proxy-writer"] {
            check(user, "POST", path.clone(), 400).await;
        }
    }
}
