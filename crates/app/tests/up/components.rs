//! Components that run alone, with the flags of their upstream counterparts, over HTTPS.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Ends when the test does.
struct Process(Child);

impl Process {
    /// As systemd would, until it has ended.
    fn stop(&mut self) {
        let pid = Pid::from_child(&self.0);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(home: &Path, name: &str, arguments: &[&str]) -> Process {
    let log = File::create(home.join(format!("{name}.log"))).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_xebec"))
        .arg(name)
        .args(arguments)
        .env("HOME", home)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    Process(child)
}

#[test]
#[expect(clippy::too_many_lines, reason = "one cluster's story, from its start to its end")]
fn apiserver_controller_manager_and_scheduler_run_apart() {
    let kubectl = std::env::var_os("XEBEC_TEST_KUBECTL").unwrap_or_else(|| "kubectl".into());
    if Command::new(&kubectl).args(["version", "--client"]).output().is_err() {
        eprintln!("SKIPPED: no kubectl on this machine");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let port = test_ports::reserve().to_string();
    let data = home.path().join("data");
    let text = |name: &str| data.join(name).display().to_string();
    let run = |arguments: &[&str]| {
        let output = Command::new(&kubectl)
            .args(arguments)
            .env("KUBECONFIG", data.join("kubeconfig"))
            .env("HOME", home.path())
            .output();
        let output = output.unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    };
    let until = |arguments: &[&str], wanted: &str| {
        for _ in 0..300 {
            if run(arguments).contains(wanted) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let logs: Vec<String> = ["apiserver", "controller-manager", "scheduler"]
            .iter()
            .map(|it| {
                std::fs::read_to_string(home.path().join(format!("{it}.log"))).unwrap_or_default()
            })
            .collect();
        panic!("{arguments:?} never said {wanted:?}: {}\n{logs:#?}", run(arguments));
    };
    let _server = spawn(
        home.path(),
        "apiserver",
        &[
            "--data-dir",
            &data.display().to_string(),
            "--secure-port",
            &port,
            "--bind-address",
            "127.0.0.1",
        ],
    );
    until(&["get", "--raw", "/readyz"], "ok");
    let controllers_config = text("controller-manager.kubeconfig");
    let root_ca = text("pki/ca.crt");
    let mut controllers = spawn(
        home.path(),
        "controller-manager",
        &["--kubeconfig", &controllers_config, "--root-ca-file", &root_ca, "--secure-port", "0"],
    );
    let mut scheduler = spawn(
        home.path(),
        "scheduler",
        &["--kubeconfig", &text("scheduler.kubeconfig"), "--secure-port", "0"],
    );
    until(&["get", "serviceaccounts"], "default");
    run(&["create", "-f", &node(home.path())]);
    run(&["taint", "node", "lonely", "node.kubernetes.io/not-ready-"]);
    run(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=2"]);
    until(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"], "lonely lonely");
    until(&["get", "leases", "-n", "kube-system"], "kube-scheduler");
    let components =
        [("kube-controller-manager", &mut controllers), ("kube-scheduler", &mut scheduler)];
    for (lease, component) in components {
        let holder = ["-o", "jsonpath=<{.spec.holderIdentity}>"];
        let asked = [&["get", "lease", lease, "-n", "kube-system"][..], &holder].concat();
        assert_ne!(run(&asked), "<>", "{lease}: it leads");
        component.stop();
        assert_eq!(run(&asked), "<>", "{lease}: the next one need not wait");
    }
}

/// A manifest of a node that nobody runs.
fn node(home: &Path) -> String {
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"lonely"},"status":{"allocatable":{"cpu":"4","memory":"4Gi","pods":"10"},
        "conditions":[{"type":"Ready","status":"True"}]}}"#;
    let file = home.join("node.json");
    std::fs::write(&file, node).unwrap();
    file.display().to_string()
}
