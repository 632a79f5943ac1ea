//! Nodes whose packets a process carries, between them and to Services.

use std::path::Path;
use std::process::Command;

use crate::joined::Machine;

const FLAGS: [&str; 4] = ["--network", "udp", "--proxy-mode", "userspace"];

/// Kills the worker of the joined node, as whoever runs out of memory might.
fn kill_worker(machine: &Machine) {
    let record = std::fs::read(machine.data().join("worker/worker.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let pid = record["pid"].as_u64().unwrap();
    let status = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn traffic_goes_on_without_xebec_and_a_worker_that_was_killed_is_replaced() {
    if !Path::new("/dev/net/tun").exists() {
        eprintln!("SKIPPED: there is no /dev/net/tun");
        return;
    }
    let Some(mut machine) = Machine::beside(&FLAGS) else { return };
    let target = machine.target();
    machine.join(&[&[target.as_str()][..], &FLAGS].concat());
    machine.run_pod("there");
    machine.run_pod_on("node-a", "here");
    let service = "{apiVersion: v1, kind: Service, metadata: {name: there}, \
                   spec: {selector: {app: there}, ports: [{port: 80, targetPort: 8080}]}}";
    machine.cluster.apply("service.yaml", service);
    machine.cluster.wait_served("there", 1);
    let pod = machine.cluster.field(&["pod", "there"], ".status.podIP");
    let service = machine.cluster.field(&["service", "there"], ".spec.clusterIP");
    let urls = [format!("http://{pod}:8080/"), format!("http://{service}/")];
    let asked = |machine: &Machine, url: &str| {
        machine.cluster.run(&["exec", "here", "--", "get", "--timeout", "1", url]).is_ok
    };
    let until = |machine: &Machine| {
        for url in &urls {
            let is_reached = (0..100).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(100));
                asked(machine, url)
            });
            assert!(is_reached, "{url}: {}", machine.cluster.state());
        }
    };
    until(&machine);
    machine.kill();
    for _ in 0..5 {
        for url in &urls {
            assert!(asked(&machine, url), "{url}, while nothing but the worker runs there");
        }
    }
    machine.join(&FLAGS);
    machine.wait_ready();
    until(&machine);
    kill_worker(&machine);
    until(&machine);
}
