//! A cluster with two API servers, of which one dies.

use crate::host::NODE;
use crate::joined::{Machine, NAME};
use crate::second::{Etcd, SECOND, Second};

const LEASE: &[&str] =
    &["get", "lease", NAME, "-n", "kube-node-lease", "-o", "jsonpath={.spec.renewTime}"];
const READY: &[&str] = &[
    "get",
    "node",
    NAME,
    "-o",
    "jsonpath={range .status.conditions[?(@.type=='Ready')]}{.status} {.lastTransitionTime}{end}",
];

#[test]
fn a_node_goes_on_at_another_server_when_its_own_dies() {
    let Some(mut machine) = Machine::prepare() else { return };
    let Some(_etcd) = Etcd::start(&machine.cluster) else { return };
    let store = Etcd::url();
    machine.cluster.up_with(&["--bind-address", NODE, "--datastore-endpoint", &store]);
    let target = machine.target();
    machine.join(&[&target]);
    let second = Second::start(&machine.cluster);
    // It hears of the second one while it runs, and keeps what it heard.
    let file = machine.data().join("cluster.json");
    let is_known = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        std::fs::read_to_string(&file).unwrap().contains(&format!("{SECOND}:6443"))
    });
    assert!(is_known, "{}", machine.log());
    let ready = second.kubectl(&machine.cluster, READY).stdout;
    assert!(ready.starts_with("True "), "{ready}");

    machine.cluster.kill();
    // The second is asked from now on: for the Node's lease, longer than a silent node has ...
    for _ in 0..5 {
        let renewed = second.kubectl(&machine.cluster, LEASE).stdout;
        second.until(&machine.cluster, LEASE, |it| !it.is_empty() && it != renewed);
    }
    // ... and what it says of pods is heard.
    let pod = "---\n{apiVersion: v1, kind: Pod, metadata: {name: late}, spec: {nodeName: node-b, \
               containers: [{name: main, image: xebec.local/toolbox, args: [http]}]}}";
    let pod = machine.cluster.file("late.yaml", pod);
    second.until(&machine.cluster, &["apply", "-f", &pod], |it| it.contains("pod/late"));
    let phase = ["get", "pod", "late", "-o", "jsonpath={.status.phase}"];
    second.until(&machine.cluster, &phase, |it| it == "Running");
    assert_eq!(second.kubectl(&machine.cluster, READY).stdout, ready, "{}", machine.log());

    // A start finds the second one, too, though the one that it joined at is away.
    machine.stop();
    machine.join(&[]);
    let before = second.kubectl(&machine.cluster, LEASE).stdout;
    second.until(&machine.cluster, LEASE, |it| !it.is_empty() && it != before);
    machine.stop();
}
