//! A name is all that it takes for a second cluster.

use crate::machine::{Machine, Ran};

const WORK: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: work\n  cluster: {server: 'https://work.example'}\n\
    contexts:\n- name: work\n  context: {cluster: work}\ncurrent-context: work\n";

fn ok(ran: Ran) -> String {
    assert!(ran.is_ok, "{}{}", ran.stdout, ran.stderr);
    ran.stdout
}

/// The lines of `xebec list` after the header, with single spaces and without pids.
fn listed(machine: &Machine) -> Vec<String> {
    let table = ok(machine.with_own_lib(&["list"]));
    let row = |line: &str| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.remove(2);
        words.join(" ")
    };
    table.lines().skip(1).map(row).collect()
}

#[test]
fn a_name_gives_a_directory_a_context_and_ports_that_stay() {
    let Some(machine) = Machine::new() else { return };
    std::fs::write(machine.path("kubeconfig"), WORK).unwrap();
    let xebec = |words: &[&str]| machine.with_own_lib(words);
    let up = ["up", "--node", "none", "--detach"];
    assert!(ok(xebec(&up)).contains("Context \"xebec\" is in"));
    let said = ok(xebec(&[&up[..], &["--name", "b"]].concat()));
    assert!(said.contains("Context \"xebec-b\" is in"), "{said}");
    assert!(said.contains("Stop it with: xebec down --name b"), "{said}");
    let both = [
        "b running 0 https://127.0.0.1:6444 /var/lib/xebec-b",
        "xebec running 0 https://127.0.0.1:6443 /var/lib/xebec",
    ];
    assert_eq!(listed(&machine), both);
    for context in ["xebec", "xebec-b"] {
        let made = machine.kubectl(context, &["create", "configmap", context]);
        assert!(made.is_ok, "{}", made.stderr);
    }
    let again = xebec(&[&up[..], &["--name", "b"]].concat());
    assert!(
        again.stderr.contains("a cluster already runs on /var/lib/xebec-b"),
        "{}",
        again.stderr
    );

    // A restart has the same, and the user's namespace.
    ok(xebec(&["down", "--name", "xebec"]));
    ok(xebec(&["down", "--name", "b"]));
    machine.kubectl("xebec-b", &["config", "set-context", "xebec-b", "--namespace=shop"]);
    ok(xebec(&[&up[..], &["--name", "b"]].concat()));
    let left = [
        "b running 0 https://127.0.0.1:6444 /var/lib/xebec-b",
        "xebec stopped 0 https://127.0.0.1:6443 /var/lib/xebec",
    ];
    assert_eq!(listed(&machine), left);
    let shown =
        machine.kubectl("xebec-b", &["config", "view", "--minify", "-o", "jsonpath={..namespace}"]);
    assert_eq!(shown.stdout, "shop");
    let found =
        machine.kubectl("xebec-b", &["get", "configmap", "xebec-b", "-n", "default", "-o", "name"]);
    assert_eq!(found.stdout.trim(), "configmap/xebec-b");

    // What was current before is again.
    let current = |machine: &Machine| {
        machine.kubectl("work", &["config", "current-context"]).stdout.trim().to_owned()
    };
    assert_eq!(current(&machine), "xebec-b");
    ok(xebec(&["down", "--purge", "--name", "b"]));
    assert_eq!(current(&machine), "xebec");
    ok(xebec(&["down", "--purge"]));
    assert_eq!(current(&machine), "work");
    assert_eq!(std::fs::read_dir(machine.path("lib")).unwrap().count(), 0);
    assert!(!machine.path("clusters").exists());
}

#[test]
fn a_second_directory_without_a_name_gets_a_number() {
    let Some(machine) = Machine::new() else { return };
    let up = ["up", "--node", "none", "--detach", "--data-dir"];
    machine.ok(&[&up[..], &["one"]].concat());
    let said = machine.ok(&[&up[..], &["two"]].concat());
    assert!(said.contains("Context \"xebec-2\" is in"), "{said}");
    let taken = machine.refused(&["up", "--node", "none", "--name", "2", "--data-dir", "three"]);
    assert!(
        taken.contains(&format!("the name 2 is that of the cluster 2 in {}", machine.text("two"))),
        "{taken}"
    );
}

#[test]
fn two_that_start_at_once_choose_differently() {
    let Some(machine) = Machine::new() else { return };
    let started: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| {
            let words = ["up", "--node", "none", "--detach", "--name", name, "--data-dir", name];
            let mut command = machine.command(&words);
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }
    let listed = machine.ok(&["list", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let of = |field: &str| {
        let values = listed.as_array().unwrap().iter().map(|it| it[field].to_string());
        values.collect::<std::collections::BTreeSet<_>>()
    };
    for field in ["name", "id", "pid", "server", "context", "dataDir"] {
        assert_eq!(of(field).len(), 3, "{field} in {listed}");
    }
    for context in ["xebec-a", "xebec-b", "xebec-c"] {
        assert!(machine.kubectl(context, &["get", "namespaces"]).is_ok, "{context}");
    }
}
