//! The JavaScript client `@kubernetes/client-node`.

use std::path::PathBuf;
use std::process::Command;

use crate::cluster::Cluster;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/config_maps.mjs");
const INDEX: &str = "node_modules/@kubernetes/client-node/dist/index.js";

#[test]
fn list_watch_inform_patch_and_be_refused_a_command() {
    let installed = std::env::var_os("XEBEC_TEST_NODE").map(|it| PathBuf::from(it).join(INDEX));
    let Some(index) = installed.filter(|it| it.exists()) else {
        crate::skip("there is no `@kubernetes/client-node`");
        return;
    };
    let Some(cluster) = Cluster::start(0) else { return };
    let output = Command::new("node")
        .arg(SCRIPT)
        .arg(index)
        .arg(cluster.path("data/kubeconfig"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all good"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
