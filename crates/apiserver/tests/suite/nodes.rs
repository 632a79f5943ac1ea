//! Nodes that are deleted, and what their certificates open then.

use std::sync::Arc;

use api::certificates::pem;
use authn::pki::{Identity, Subject, Terms, Wanted};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use jiff::SignedDuration;
use kvstore::{KeyRange, RangeRequest};
use serde_json::{Value, json};

use crate::harness::wire::{ADMIN, Site, Who};

const NODES: &str = "/api/v1/nodes";
const NODE_B: Who<'static> = Some(("system:node:b", &["system:nodes"]));
const PROXY_B: Who<'static> = Some(("system:kube-proxy", &["xebec:node:b"]));
const NODE_C: Who<'static> = Some(("system:node:c", &["system:nodes"]));

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

/// As the signer makes them: since which revision it is the node's is in it.
fn signed(site: &Site, since: u64) -> Identity {
    let subject = Subject {
        common_name: "system:node:b".to_owned(),
        organization: "system:nodes".to_owned(),
        ..Subject::default()
    };
    let wanted = Wanted::create(&subject).expect("a request");
    let request = &pem::blocks(&wanted.request_pem)[0].bytes;
    let (now, random) = (site.harness.world.clock.now(), &site.harness.world.random);
    let terms = Terms {
        usages: vec!["client auth".to_owned()],
        not_before: now - SignedDuration::from_mins(5),
        not_after: now + SignedDuration::from_hours(1),
        since: Some(since),
    };
    let certificate_pem = site.authority.sign_request(request, &terms, random);
    let certificate_pem = certificate_pem.expect("a certificate");
    Identity { certificate_pem, private_key_pem: wanted.private_key_pem }
}

#[tokio::test]
async fn a_deleted_node_is_locked_out_at_once_and_after_a_restart() {
    let store = Arc::new(kvstore::memory::Memory::new());
    let site = Site::start_over(store.clone()).await;
    let mut admin = site.connect(ADMIN).await;
    for name in ["b", "c"] {
        assert_eq!(admin.call("POST", NODES, &node(name)).await.0, 201);
    }
    let own = format!("{NODES}/b");
    let (mut b, mut proxy) = (site.connect(NODE_B).await, site.connect_http2(PROXY_B).await);
    assert_eq!(b.get(&own, "").await.0, 200);
    let watch = "/api/v1/services?watch=true";
    let (head, watched) = proxy.open("GET", watch, &[], Bytes::new()).await;
    assert_eq!(head.status, 200);

    let deleted = admin.call("DELETE", &own, &Value::Null).await;
    assert_eq!(deleted.0, 200, "{deleted:?}");
    assert!(watched.collect().await.is_err(), "the watch goes on");
    for who in [NODE_B, PROXY_B] {
        let mut again = site.connect(who).await;
        assert_eq!(again.get("/api/v1/services", "").await.0, 401, "{who:?}");
    }
    let mut again = site.connect(NODE_B).await;
    assert_eq!(again.call("POST", NODES, &node("b")).await.0, 401);
    let mut other = site.connect(NODE_C).await;
    assert_eq!(other.get(&format!("{NODES}/c"), "").await.0, 200);

    // One of its name that was let in later is somebody else.
    let (_, list) = admin.get(NODES, "").await;
    let revision: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let mut new = site.connect_as(signed(&site, revision)).await;
    assert_eq!(new.call("POST", NODES, &node("b")).await.0, 201);
    let mut older = site.connect_as(signed(&site, 1)).await;
    assert_eq!(older.get(&own, "").await.0, 401);

    let all = KeyRange::prefix(b"/registry/deletednodes/");
    let kept = kvstore::Store::range(&*store, RangeRequest::latest(all)).await.unwrap().entries;
    let names: Vec<_> = kept.iter().map(|it| String::from_utf8_lossy(&it.key)).collect();
    assert_eq!(names, ["/registry/deletednodes/b"]);
    let site = Site::start_over(store).await;
    let mut older = site.connect_as(signed(&site, 1)).await;
    assert_eq!(older.get(&own, "").await.0, 401);
    let mut new = site.connect_as(signed(&site, revision)).await;
    assert_eq!(new.get(&own, "").await.0, 200);
}
