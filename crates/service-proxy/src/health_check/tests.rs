//! Who listens where, and what is answered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::core::service::Service;
use api::discovery::EndpointSlice;
use apimachinery::ObjectKey;
use lifecycle::Tasks;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::HealthChecks;

fn service(port: u16, policy: &str) -> Service {
    let json = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"externalTrafficPolicy": policy, "healthCheckNodePort": port},
    });
    Service::decode(json.to_string().as_bytes()).unwrap()
}

/// Endpoints on these nodes.
fn slices(nodes: &[&str]) -> Vec<Arc<EndpointSlice>> {
    let endpoints = nodes.iter().enumerate();
    let endpoints: Vec<_> = endpoints
        .map(|(index, it)| json!({"addresses": [format!("10.0.0.{index}")], "nodeName": it}))
        .collect();
    let json = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"namespace": "default", "name": "web-1"}, "endpoints": endpoints,
    });
    vec![Arc::new(EndpointSlice::decode(json.to_string().as_bytes()).unwrap())]
}

async fn ask(port: u16) -> Option<String> {
    ask_at(Ipv4Addr::LOCALHOST.into(), port).await
}

async fn ask_at(address: IpAddr, port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((address, port)).await.ok()?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: node\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    Some(answer)
}

#[tokio::test]
async fn a_balancer_hears_how_many_endpoints_the_node_has() {
    let (tasks, key, port) =
        (Tasks::new(), ObjectKey::new("default", "web"), test_ports::reserve());
    let mut checks = HealthChecks::new(&tasks);
    checks.set(&key, Some(&service(port, "Cluster")), &slices(&["here"]), "here").await;
    assert_eq!(ask(port).await, None);
    let local = service(port, "Local");
    checks.set(&key, Some(&local), &slices(&["here", "there", "here"]), "here").await;
    let answer = ask(port).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("x-load-balancing-endpoint-weight: 2\r\n"), "{answer}");
    assert_eq!(ask_at(Ipv6Addr::LOCALHOST.into(), port).await, Some(answer.clone()));
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let expected = json!({
        "service": {"namespace": "default", "name": "web"},
        "localEndpoints": 2, "serviceProxyHealthy": true,
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap(), expected);
    checks.set(&key, Some(&local), &slices(&["there"]), "here").await;
    let answer = ask(port).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    checks.set(&key, None, &[], "here").await;
    tasks.shutdown(Duration::from_secs(10)).await.unwrap();
    assert_eq!(ask(port).await, None);
}
