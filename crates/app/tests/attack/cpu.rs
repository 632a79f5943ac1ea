//! Processor time: whatever one client sends, the server answers the others meanwhile.

use std::process::Command;

use serde_json::json;

use crate::control_plane::Cluster;
use crate::user::User;

const MAPS: &str = "/api/v1/namespaces/mine/configmaps";

/// One after the other on one connection; how long each took, in seconds.
fn livez(cluster: &Cluster, n_times: usize) -> Vec<f64> {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "600", "-o", "/dev/null", "-w", "%{http_code} %{time_total}\n"])
        .arg("--cacert")
        .arg(cluster.path("data/pki/ca.crt"))
        .arg(format!("{}/livez?[1-{n_times}]", cluster.server()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let time = |line: &str| line.strip_prefix("200 ").and_then(|it| it.parse().ok());
    text.lines().map(|it| time(it).unwrap_or_else(|| panic!("{text}"))).collect()
}

#[test]
fn the_server_answers_while_one_client_sends_the_worst_it_can() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let rule =
        r#"{apiGroups: [""], resources: [configmaps], verbs: [create, get, list, patch, update]}"#;
    let user = User::new(&cluster, "mine", "mallory", &[rule]);
    let names = |from: usize| (from..from + 40_000).map(|it| format!("example.com/f-{it}"));
    let live: Vec<String> = names(0).collect();
    let made = json!({"metadata": {"name": "a", "finalizers": live}});
    let send = |method: &str, path: &str, kind: &str, file: &str| {
        let (kind, body) = (format!("Content-Type: {kind}"), format!("@{file}"));
        user.curl(path, &["-X", method, "-H", &kind, "--data-binary", &body])
    };
    let made = cluster.file("made", &made.to_string());
    let created = send("POST", MAPS, "application/json", &made);
    assert_eq!(created.code, 201, "{}", created.body);
    let set: Vec<String> = names(20_000).collect();
    let set = cluster.file("set", &json!({"metadata": {"finalizers": set}}).to_string());
    let moves =
        vec![json!({"op": "add", "path": "/metadata/finalizers/0", "value": "a/b"}); 10_000];
    let moves = cluster.file("moves", &json!(moves).to_string());
    let numbers = cluster.file("numbers", &format!("a: [{}]", "1,".repeat(1_400_000)));
    assert_eq!(user.post(MAPS, r#"{"metadata": {"name": "small"}}"#).code, 201);
    let idle = livez(&cluster, 100);
    let one = format!("{MAPS}/a");
    let busy: Vec<f64> = std::thread::scope(|scope| {
        let attack = |method: &'static str, path: String, kind: &'static str, file: String| {
            let (send, user) = (&send, &user);
            scope.spawn(move || {
                for _ in 0..2 {
                    let answer = send(method, &path, kind, &file);
                    assert!(answer.code < 500, "{}", answer.body);
                    let table = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io";
                    assert_eq!(user.curl(MAPS, &["-H", table]).code, 200);
                }
            })
        };
        let attacks = [
            attack("PATCH", one.clone(), "application/strategic-merge-patch+json", set),
            attack("PATCH", one.clone(), "application/json-patch+json", moves),
            attack("POST", MAPS.to_owned(), "application/yaml", numbers),
            attack("POST", MAPS.to_owned(), "application/json", made),
            // Many small ones at once.
            scope.spawn(|| {
                let body = json!({"data": {"k": "x".repeat(12_000)}}).to_string();
                let kind = "Content-Type: application/merge-patch+json";
                let flood = format!("{MAPS}/small?[1-400]");
                let at_once = ["-Z", "--parallel-max", "100", "-o", "/dev/null"];
                user.curl(
                    &flood,
                    &[&at_once[..], &["-X", "PATCH", "-H", kind, "-d", &body]].concat(),
                );
            }),
        ];
        let mut times = Vec::new();
        while !attacks.iter().all(|it| it.is_finished()) {
            times.extend(livez(&cluster, 50));
        }
        times
    });
    // Measured, not judged: how long it takes depends on the machine.
    let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max) * 1_000.0;
    eprintln!(
        "/livez: at most {:.1} ms idle, {:.1} ms attacked ({} times)",
        longest(&idle),
        longest(&busy),
        busy.len()
    );
    assert_eq!(user.curl(&one, &[]).code, 200);
}
