//! Log lines.

use serde_json::Value;

use super::cluster::Cluster;

#[test]
fn a_request_s_id_is_in_the_lines_that_it_causes() {
    let flags = ["-v", "4", "--logging-format", "json"];
    let Some(cluster) = Cluster::start_with(tempfile::tempdir().unwrap(), 0, &flags) else {
        return;
    };
    let id = "5b6a1f0e-0000-4000-8000-00000000cafe";
    let header = format!("Audit-ID: {id}");
    cluster.curl("/api/v1/namespaces/default?pretty=false", &["-H", &header]);
    let log = cluster.log();
    let lines: Vec<Value> = log.lines().map(|it| serde_json::from_str(it).expect(it)).collect();
    assert!(lines.iter().all(|it| it["ts"].is_f64() && it["msg"].is_string()), "{log}");
    let caused: Vec<&Value> = lines.iter().filter(|it| it["audit-ID"] == id).collect();
    let line = caused.iter().find(|it| it["msg"] == "HTTP").expect("its line");
    assert_eq!(line["verb"], "GET");
    assert_eq!(line["resp"], 200);
    assert_eq!(line["URI"], "/api/v1/namespaces/default?pretty=false");
    assert_eq!(line["v"], 3);
}

#[test]
fn nobody_is_told_of_requests_who_did_not_ask() {
    let flags = ["--log-format", "text"];
    let Some(cluster) = Cluster::start_with(tempfile::tempdir().unwrap(), 0, &flags) else {
        return;
    };
    cluster.ok(&["get", "namespaces"]);
    assert!(!cluster.log().contains("HTTP"), "{}", cluster.log());
}
