//! The Python client `kubernetes`.

use std::ffi::OsString;
use std::process::Command;

use crate::cluster::Cluster;

const SCRIPT: &str = r#"
import sys
from kubernetes import client, config, watch
config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()
container = client.V1Container(name="main", image="xebec.local/toolbox")
template = client.V1PodTemplateSpec(
    metadata=client.V1ObjectMeta(labels={"app": "py"}), spec=client.V1PodSpec(containers=[container]))
apps.create_namespaced_deployment("default", client.V1Deployment(
    metadata=client.V1ObjectMeta(name="py"),
    spec=client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels={"app": "py"}), template=template)))
for event in watch.Watch().stream(apps.list_namespaced_deployment, "default", timeout_seconds=60):
    if event["object"].status.ready_replicas == 2:
        break
patched = apps.patch_namespaced_deployment("py", "default", {"spec": {"replicas": 1}})
assert patched.spec.replicas == 1, patched
assert len(core.list_namespaced_pod("default", label_selector="app=py").items) >= 1
try:
    core.read_namespaced_pod("absent", "default")
    raise SystemExit("reading an absent pod must fail")
except client.ApiException as err:
    assert err.status == 404, err
apps.delete_namespaced_deployment("py", "default")
print("all good")
"#;

/// Python with this package; `None` where it is not, which it says.
pub(crate) fn with(package: &str) -> Option<OsString> {
    let python = std::env::var_os("XEBEC_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let found = Command::new(&python).args(["-c", &format!("import {package}")]).output();
    if found.is_ok_and(|it| it.status.success()) {
        return Some(python);
    }
    crate::skip(&format!("Python's `{package}` is not installed"));
    None
}

#[test]
fn create_watch_patch_delete() {
    let Some(python) = with("kubernetes") else { return };
    let Some(cluster) = Cluster::start(2) else { return };
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(cluster.path("data/kubeconfig"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all good"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
