//! Commands find the cluster that there is, and say what a newcomer needs to know.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::machine::{Machine, run};

/// An archive as `docker save` writes it, of an image with one file.
fn archive(machine: &Machine) -> Vec<u8> {
    let layout = machine.path("layout");
    std::fs::create_dir(&layout).unwrap();
    let tar = |words: &[&str]| {
        let packed = Command::new("tar").current_dir(&layout).args(words).output().unwrap();
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        packed.stdout
    };
    std::fs::write(layout.join("hello"), "hello").unwrap();
    tar(&["-cf", "layer.tar", "hello"]);
    let sum = Command::new("sha256sum").arg(layout.join("layer.tar")).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let sum = format!("sha256:{}", sum.split_whitespace().next().unwrap());
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [sum]},
    });
    std::fs::write(layout.join("config.json"), config.to_string()).unwrap();
    let manifest =
        json!([{"Config": "config.json", "RepoTags": ["hello:1"], "Layers": ["layer.tar"]}]);
    std::fs::write(layout.join("manifest.json"), manifest.to_string()).unwrap();
    tar(&["-c", "manifest.json", "config.json", "layer.tar"])
}

fn load_from_stdin(machine: &Machine, bytes: &[u8], flags: &[&str]) -> (bool, String) {
    let words = [&["image", "load", "-"], flags].concat();
    let mut command = machine.command(&words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may have refused before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn an_image_is_loaded_into_the_cluster_that_runs() {
    let Some(machine) = Machine::new() else { return };
    let bytes = archive(&machine);
    machine.ok(&["up", "--node", "none", "--detach", "--data-dir", "a"]);
    let (is_ok, said) = load_from_stdin(&machine, &bytes, &[]);
    assert!(is_ok && said.contains("loaded docker.io/library/hello:1"), "{said}");
    let listed = machine.ok(&["image", "list", "--data-dir", "a"]);
    assert!(listed.contains("docker.io/library/hello"), "{listed}");
    assert_eq!(machine.ok(&["image", "list"]), listed);
    machine.ok(&["image", "remove", "hello:1"]);

    let mut gzip = Command::new("gzip");
    gzip.arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut gzip = gzip.spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(&bytes).unwrap();
    let packed = gzip.wait_with_output().unwrap().stdout;
    let (is_ok, said) = load_from_stdin(&machine, &packed, &["--name", "xebec", "--as", "other"]);
    assert!(is_ok && said.contains("loaded docker.io/library/other:latest"), "{said}");
    let (is_ok, said) = load_from_stdin(&machine, b"no archive", &[]);
    assert!(!is_ok && said.contains("standard input"), "{said}");

    machine.ok(&["up", "--node", "none", "--detach", "--name", "b", "--data-dir", "b"]);
    let (is_ok, said) = load_from_stdin(&machine, &bytes, &[]);
    assert!(
        !is_ok && said.contains("which cluster?") && said.contains(&machine.text("b")),
        "{said}"
    );
}

#[test]
fn status_version_and_kubeconfig_say_what_there_is() {
    let Some(machine) = Machine::new() else { return };
    machine.ok(&["up", "--node", "none", "--simulate", "2", "--detach", "--data-dir", "a"]);
    let made =
        machine.kubectl("xebec", &["create", "deployment", "web", "--image=x", "--replicas=3"]);
    assert!(made.is_ok, "{}", made.stderr);
    machine.until("xebec", &["get", "pods"], |it| it.matches("Running").count() == 3);
    let status = machine.ok(&["status"]);
    let line = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in\n{status}")).trim().to_owned()
    };
    assert_eq!(line("name"), "xebec");
    assert_eq!(line("data directory"), machine.text("a"));
    assert!(line("state").starts_with("running (process "));
    assert_eq!(line("API server"), "https://127.0.0.1:6443 (ready)");
    assert!(line("version").starts_with("v1.36."));
    assert_eq!(line("nodes"), "2 of 2 ready");
    assert_eq!(line("pods"), "3 (3 Running)");
    assert!(line("store").contains("writable"));

    let printed = machine.ok(&["kubeconfig"]);
    std::fs::write(machine.path("printed"), &printed).unwrap();
    let path = machine.text("printed");
    assert!(machine.kubectl("xebec", &["--kubeconfig", &path, "get", "nodes"]).is_ok);

    machine.ok(&["down"]);
    let stopped = machine.xebec(&["status"]);
    assert!(!stopped.is_ok && stopped.stdout.contains("stopped"), "{}", stopped.stdout);
    assert!(stopped.stderr.contains("`xebec up --data-dir"), "{}", stopped.stderr);

    assert!(machine.ok(&["version"]).starts_with("xebec "));
    let version: serde_json::Value =
        serde_json::from_str(&machine.ok(&["version", "-o", "json"])).unwrap();
    assert!(version["kubernetesVersion"].as_str().unwrap().starts_with("v1.36."), "{version}");
}

#[test]
fn whoever_has_no_kubectl_is_told_how_to_get_one() {
    let home = tempfile::tempdir().unwrap();
    let xebec = |words: &[&str], path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xebec"));
        command
            .args(words)
            .arg("--data-dir")
            .arg(home.path().join("data"))
            .env("PATH", path)
            .env("HOME", home.path())
            .env("KUBECONFIG", home.path().join("kubeconfig"))
            .env("XEBEC_REGISTRY", home.path().join("clusters"));
        run(command)
    };
    let up = ["up", "--node", "none", "--https-port", "0", "--detach"];
    let without = xebec(&up, "/nowhere");
    xebec(&["down"], "/nowhere");
    std::fs::write(home.path().join("kubectl"), "").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path().join("kubectl"), executable).unwrap();
    let with = xebec(&up, home.path().to_str().unwrap());
    xebec(&["down", "--purge"], "/nowhere");
    assert!(without.stdout.contains("There is no kubectl on your PATH"), "{}", without.stdout);
    assert!(with.is_ok && !with.stdout.contains("There is no kubectl"), "{}", with.stdout);
}

#[test]
fn who_stops_a_cluster_is_told_that_containers_go_on() {
    let Some(machine) = Machine::new() else { return };
    let mut command = machine.command(&["up", "--name", "a", "--data-dir", "a"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|it| it == "Stop it with Ctrl-C."));
    let addresses = machine.run_web("xebec-a");
    // As a terminal does it; `nsenter` has become xebec.
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    let said: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success());
    let expected = "2 containers go on running. `xebec up --name a` takes over, `xebec down --purge --name a` ends everything of this cluster.";
    assert!(said.iter().any(|it| it == expected), "{said:?}");
    machine.ok(&["up", "--detach", "--name", "a"]);
    machine.check_web("xebec-a", &addresses);
    let stopped = machine.ok(&["down"]);
    assert!(stopped.contains("2 containers go on running"), "{stopped}");
    machine.ok(&["down", "--purge"]);
}
