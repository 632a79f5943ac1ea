//! Memory: answers that nobody reads share what the server has anyway, and names of what there is
//! not leave nothing behind.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::control_plane::Cluster;
use crate::user::User;

const MAPS: &str = "/api/v1/namespaces/mine/configmaps";

struct Readers(Vec<Child>);

impl Drop for Readers {
    fn drop(&mut self) {
        for reader in &mut self.0 {
            let _ = reader.kill();
            let _ = reader.wait();
        }
    }
}

#[test]
fn a_hundred_unread_lists_cost_less_than_one_copy_each() {
    const N_READERS: usize = 100;
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let rule = r#"{apiGroups: [""], resources: [configmaps], verbs: [create, list]}"#;
    let user = User::new(&cluster, "mine", "mallory", &[rule]);
    for index in 0..10 {
        let object = json!({
            "metadata": {"name": format!("large-{index}")}, "data": {"k": "x".repeat(1_000_000)},
        });
        let body = format!("@{}", cluster.file("large", &object.to_string()));
        let json = ["-X", "POST", "-H", "Content-Type: application/json", "--data-binary", &body];
        assert_eq!(user.curl(MAPS, &json).code, 201);
    }
    let before = cluster.resident_bytes();
    let mut readers = Readers(Vec::new());
    let (token, server) = (user.token(), cluster.server());
    for _ in 0..N_READERS {
        // Reads the beginning, and then next to nothing.
        let reader = Command::new("curl")
            .args(["-sS", "--http1.1", "--limit-rate", "1", "-o", "/dev/null", "--cacert"])
            .arg(cluster.path("data/pki/ca.crt"))
            .args(["-H", &format!("Authorization: Bearer {token}"), &format!("{server}{MAPS}")])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        readers.0.push(reader.unwrap());
    }
    // Until the server has stopped growing.
    let (mut last, mut n_same) = (0, 0);
    for _ in 0..240 {
        std::thread::sleep(Duration::from_millis(250));
        let now = cluster.resident_bytes();
        n_same = if now.abs_diff(last) < 1_000_000 { n_same + 1 } else { 0 };
        last = now;
        if n_same == 12 {
            break;
        }
    }
    let mut is_reading = |it: &mut Child| matches!(it.try_wait(), Ok(None));
    assert!(readers.0.iter_mut().all(&mut is_reading));
    let grown = cluster.resident_bytes().saturating_sub(before);
    eprintln!("{N_READERS} unread lists of 10 MB: {} MB more", grown / 1_000_000);
    // A copy for each would be 1,000 MB; what is seen is 225, more when the machine is busy.
    assert!(grown < 500_000_000, "{grown}");
    drop(readers);
    // Absent groups, with names of 1 kB each.
    let before = cluster.resident_bytes();
    let name = "x".repeat(1_000);
    let codes = user.curl(&format!("/apis/{name}-[1-2000]"), &["-o", "/dev/null"]);
    assert_eq!(codes.code, 404);
    let grown = cluster.resident_bytes().saturating_sub(before);
    assert!(grown < 50_000_000, "{grown}");
}
