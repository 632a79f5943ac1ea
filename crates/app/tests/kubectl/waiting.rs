//! What is not done yet, and what it waits for, as `kubectl get` and `kubectl describe` show it.

use crate::cluster::Cluster;

const CLAIM: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: data }\n\
    spec: { accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }\n";
/// On its node from the first: nobody binds the claim, and the scheduler waits for that.
const USER: &str = "apiVersion: v1\nkind: Pod\nmetadata: { name: web }\nspec:\n\
    \x20 nodeName: sim-0\n\
    \x20 containers: [{ name: main, image: xebec.local/toolbox }]\n\
    \x20 volumes: [{ name: data, persistentVolumeClaim: { claimName: data } }]\n";

#[test]
fn a_claim_that_a_pod_uses_stays_until_the_pod_is_gone() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.until(&["get", "nodes", "-o", "name"], |it| it.contains("sim-0"));
    cluster.ok(&["create", "-f", &cluster.file("claim.yaml", CLAIM)]);
    let made = cluster.json(&["get", "pvc", "data"]);
    assert_eq!(made["metadata"]["finalizers"][0], "kubernetes.io/pvc-protection");
    let user = cluster.file("pod.yaml", USER);
    cluster.until(&["create", "-f", &user], |it| it.contains("created"));
    cluster.ok(&["wait", "--for=condition=Ready", "pod/web", "--timeout=30s"]);
    cluster.ok(&["delete", "pvc", "data", "--wait=false"]);
    let row = cluster.ok(&["get", "pvc", "data"]);
    assert!(row.contains("Terminating"), "{row}");
    let why = "it is deleted when nothing uses it any more; pods: web";
    let described = cluster.until(&["describe", "pvc", "data"], |it| it.contains(why));
    assert!(described.contains("Used By:       web"), "{described}");
    assert!(described.contains("Terminating (lasts"), "{described}");
    cluster.ok(&["delete", "pod", "web"]);
    cluster.ok(&["wait", "--for=delete", "pvc/data", "--timeout=30s"]);
}
