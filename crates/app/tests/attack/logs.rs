//! Logs: whoever can write to the folder of logs does not read the host's files by `kubectl logs`.

use serde_json::json;

use crate::shell::{self, pod};

#[test]
fn a_link_in_the_place_of_a_log_is_not_followed() {
    let Some(cluster) = shell::cluster() else { return };
    let secret = cluster.file("secret", "2026-01-01T00:00:00Z stdout F the host's secret\n");
    let logs = cluster.data().join("log/pods");
    let spec = json!({ "volumes": [
        { "name": "logs", "hostPath": { "path": logs.display().to_string() } }] });
    let container = json!({
        "command": ["sh", "-c", "echo my own words; sleep 100000"],
        "volumeMounts": [{ "name": "logs", "mountPath": "/logs" }],
    });
    cluster.apply_json(&pod("linker", &spec, &container));
    cluster.wait_ready("app=linker", 1);
    cluster.until(&["logs", "linker"], |it| it == "my own words\n");
    let folder = cluster.sh("linker", "echo /logs/default_linker_*/main").trim().to_owned();

    let link = format!("mv {folder}/0.log {folder}/kept; ln -s {secret} {folder}/0.log");
    cluster.sh("linker", &link);
    assert!(!said(&cluster).contains("secret"), "{}", said(&cluster));
    // A rotated one, and the folder itself.
    cluster.sh("linker", &format!("ln -s {secret} {folder}/0.log.20260101-000000"));
    assert!(!said(&cluster).contains("secret"), "{}", said(&cluster));
    let parent = std::path::Path::new(&secret).parent().unwrap().display().to_string();
    std::fs::copy(&secret, cluster.path("0.log")).unwrap();
    cluster.sh(
        "linker",
        &format!("rm {folder}/0.log*; mv {folder} {folder}-kept; ln -s {parent} {folder}"),
    );
    assert!(!said(&cluster).contains("secret"), "{}", said(&cluster));
}

fn said(cluster: &crate::cluster::Cluster) -> String {
    let ran = cluster.run(&["logs", "linker"]);
    ran.stdout + &ran.stderr
}
