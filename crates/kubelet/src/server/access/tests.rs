//! What is asked of the API server, and for how long its answer is kept.

use std::time::Duration;

use http::Method;

use super::attributes::{Verb, subresources};
use super::recent::Recent;

#[test]
fn requests_are_named_as_upstream_names_them() {
    for (method, path, expected) in [
        (Method::GET, "/pods", "get [\"pods\", \"proxy\"]"),
        (Method::GET, "/healthz/ping", "get [\"healthz\", \"proxy\"]"),
        (Method::GET, "/metrics/cadvisor", "get [\"metrics\"]"),
        (Method::GET, "/containerLogs/a/b/c", "get [\"proxy\"]"),
        (Method::POST, "/exec/a/b/c", "create [\"proxy\"]"),
        (Method::GET, "/exec/a/b/c", "create [\"proxy\"]"),
        (Method::GET, "//portForward/a/b", "create [\"proxy\"]"),
    ] {
        let verb = Verb::of(&method, path).name();
        assert_eq!(format!("{verb} {:?}", subresources(path)), expected, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_kept_for_their_time_and_not_without_end() {
    let recent = Recent::new();
    recent.put(0, "short", Duration::from_secs(30));
    for key in 1..=2_000 {
        recent.put(key, "long", Duration::from_secs(300));
    }
    assert_eq!(recent.get(&0), None, "what ends first makes room");
    assert_eq!(recent.get(&2_000), Some("long"));
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(recent.get(&2_000), None);
}
