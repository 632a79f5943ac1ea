//! A cluster whose machine is three nodes.

use std::time::Duration;

use serde_json::Value;

use crate::cluster::Cluster;

pub(crate) const NAMES: [&str; 3] = ["node-a", "node-a-2", "node-a-3"];
pub(crate) const FLAGS: [&str; 2] = ["--nodes", "3"];

/// All are Ready.
pub(crate) fn start(flags: &[&str]) -> Option<Cluster> {
    let mut cluster = Cluster::prepare()?;
    cluster.up_with(&[&FLAGS, flags].concat());
    Some(cluster)
}

/// Failed checks say what the agents said.
impl Drop for Logs<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for name in &NAMES[1..] {
            let log = self.0.data().join("nodes").join(name).join("data/xebec.log");
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().rev().take(60).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            eprintln!("agent of {name}:\n{}", lines.join("\n"));
        }
    }
}

pub(crate) struct Logs<'a>(pub(crate) &'a Cluster);

impl Cluster {
    /// `xebec node`.
    pub(crate) fn node(&self, words: &[&str]) -> String {
        self.xebec_ok(&[&["node"], words].concat())
    }

    /// As `xebec node list` says.
    pub(crate) fn listed(&self, name: &str) -> Value {
        let listed: Value = serde_json::from_str(&self.node(&["list", "-o", "json"])).unwrap();
        let found = listed.as_array().unwrap().iter().find(|it| it["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is not in {listed}")).clone()
    }

    pub(crate) fn listed_state(&self, name: &str) -> String {
        self.listed(name)["state"].as_str().unwrap().to_owned()
    }

    pub(crate) fn until_node_is(&self, name: &str, is_ready: bool) {
        let template = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        self.until(&["get", "node", name, "-o", template], |it| (it == "True") == is_ready);
    }

    /// A pod that serves its name, on each node: `on-` and the node's name.
    pub(crate) fn run_on_each(&self) {
        for name in NAMES {
            self.run_on(name);
        }
        self.wait_ready("app=each", NAMES.len());
    }

    pub(crate) fn run_on(&self, node: &str) {
        let manifest = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: on-{node}, labels: {{app: each}}}}, \
             spec: {{nodeName: {node}, terminationGracePeriodSeconds: 0, containers: [\
             {{name: main, image: xebec.local/toolbox, args: [http]}}]}}}}"
        );
        self.apply(&format!("{node}.yaml"), &manifest);
    }

    pub(crate) fn pod_ip(&self, node: &str) -> String {
        self.field(&["pod", &format!("on-{node}")], ".status.podIP")
    }

    pub(crate) fn container_id(&self, node: &str) -> String {
        self.field(&["pod", &format!("on-{node}")], ".status.containerStatuses[0].containerID")
    }

    /// Whether the pod on one node gets an answer.
    pub(crate) fn asks(&self, from: &str, url: &str) -> bool {
        let pod = format!("on-{from}");
        self.run(&["exec", &pod, "--", "get", "--timeout", "1", url]).is_ok
    }

    pub(crate) fn until_asks(&self, from: &str, url: &str) {
        let is_reached = (0..100).any(|_| {
            let is_reached = self.asks(from, url);
            if !is_reached {
                std::thread::sleep(Duration::from_millis(100));
            }
            is_reached
        });
        assert!(is_reached, "{from} does not reach {url}: {}", self.state());
    }

    pub(crate) fn until_pods_meet(&self) {
        for from in NAMES {
            for to in NAMES {
                self.until_asks(from, &format!("http://{}:8080/", self.pod_ip(to)));
            }
        }
    }
}

pub(crate) fn until_all_ready(cluster: &Cluster) {
    NAMES.iter().for_each(|it| cluster.until_node_is(it, true));
}
