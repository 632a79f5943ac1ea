//! Seccomp profiles of the node: a pod names one below the folder of profiles, or none at all; and
//! never runs less confined than it asked for.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::shell::{self, pod};

fn confined(name: &str, profile: &Value) -> Value {
    pod(name, &json!({}), &json!({ "securityContext": { "seccompProfile": profile } }))
}

fn localhost(name: &str) -> Value {
    json!({ "type": "Localhost", "localhostProfile": name })
}

#[test]
fn a_profile_is_a_file_of_its_folder() {
    let Some(cluster) = shell::cluster() else { return };
    let folder = cluster.data().join("seccomp");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    let profile = r#"{"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}"#;
    std::fs::write(folder.join("sub/a.json"), profile).unwrap();
    let secret = cluster.file("secret", profile);
    symlink(secret, folder.join("link.json")).unwrap();
    symlink("/dev/zero", folder.join("zero")).unwrap();

    cluster.apply_json(&confined("good", &localhost("sub/a.json")));
    cluster.wait_ready("app=good", 1);
    let said = cluster.sh("good", "mkdir /tmp/x 2>&1; grep Seccomp: /proc/self/status");
    assert_eq!(
        said,
        "mkdir: can't create directory '/tmp/x': Operation not permitted\nSeccomp:\t2\n"
    );

    for (name, expected) in [
        ("../../dev/zero", "must not contain '..'"),
        ("/dev/zero", "must be a relative path"),
        ("sub/../../secret", "must not contain '..'"),
    ] {
        let refused = cluster.refused_json(&confined("bad", &localhost(name)));
        assert!(refused.contains(expected), "{refused}");
    }
    let refused = cluster.refused_json(&confined("bad", &json!({ "type": "Localhost" })));
    assert!(refused.contains("must be set when seccomp type is Localhost"), "{refused}");
    // What only the node can find out.
    for (pod, profile, reason) in [
        (
            "empty",
            localhost(""),
            "localhostProfile must be set if seccompProfile type is Localhost",
        ),
        ("link", localhost("link.json"), "reading seccomp profile"),
        ("zero", localhost("zero"), "reading seccomp profile"),
        ("folder", localhost("sub"), "not a regular file"),
        ("missing", localhost("none.json"), "reading seccomp profile"),
    ] {
        cluster.apply_json(&confined(pod, &profile));
        let path = "jsonpath={.status.containerStatuses[0].state.waiting.message}";
        cluster.until(&["get", "pod", pod, "-o", path], |it| it.contains(reason));
    }
    // Nobody waits for a device that never ends.
    assert_eq!(cluster.sh("good", "echo here"), "here\n");
}
