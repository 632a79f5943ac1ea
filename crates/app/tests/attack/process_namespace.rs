//! A container that may trace every process it sees: what it sees of ours has nothing of the
//! host's.

use serde_json::json;

use crate::shell::{self, pod};

/// Looks at every process, again and again, for one that has a file of the host's, or a capability
/// that the container has not; says so in /tmp/found.
const SPY: &str = r#"
own=$(grep CapBnd: /proc/self/status); own=$((0x${own##*	}))
: > /tmp/found; echo looking > /tmp/looking
while :; do
  for p in /proc/[0-9]*; do
    [ -e $p/root/MARK ] && echo "$p has the host's root" >> /tmp/found
    [ -e $p/cwd/MARK ] && echo "$p has the host's directory" >> /tmp/found
    while read key value; do
      case $key in Name:) name=$value;; CapPrm:) [ $((0x$value & ~own)) -eq 0 ] || echo "$p ($name) may $value" >> /tmp/found;; esac
    done < $p/status 2>/dev/null
  done
done"#;

#[test]
fn who_traces_the_pods_processes_finds_nothing_of_the_host() {
    let Some(cluster) = shell::cluster() else { return };
    // A file that is on the host alone, by its path from the root.
    let mark = cluster.file("mark", "of the host");
    let script = SPY.replace("MARK", mark.trim_start_matches('/'));
    let traces = json!({ "capabilities": { "add": ["SYS_PTRACE"] } });
    let spec = json!({ "shareProcessNamespace": true, "containers": [
        { "name": "spy", "image": shell::IMAGE, "command": ["sh", "-c", script], "securityContext": traces },
        { "name": "other", "image": shell::IMAGE, "command": ["sh", "-c", "sleep 3"] },
    ]});
    cluster.apply_json(&pod("spy", &spec, &json!({})));
    cluster.until(&["exec", "spy", "-c", "spy", "--", "cat", "/tmp/looking"], |it| {
        it.contains("looking")
    });
    // The other container exits and is started again meanwhile, and commands come and go.
    for round in 0..15 {
        assert_eq!(cluster.ok(&["exec", "spy", "-c", "spy", "--", "echo", "x"]), "x\n", "{round}");
    }
    cluster.until(
        &["get", "pod", "spy", "-o", "jsonpath={.status.containerStatuses[*].restartCount}"],
        |it| it.split(' ').any(|it| it != "0"),
    );
    let sh = |script: &str| cluster.ok(&["exec", "spy", "-c", "spy", "--", "sh", "-c", script]);
    assert_eq!(sh("cat /tmp/found"), "");

    assert_eq!(sh("tr '\\0' ' ' < /proc/1/cmdline"), "/pause ");
    assert_eq!(sh("ls -a /proc/1/root/"), ".\n..\n");
    assert_eq!(sh("ls -a /proc/1/cwd/"), ".\n..\n");
    assert_eq!(sh("ls /proc/1/fd"), "");
    assert_eq!(sh("cat /proc/1/environ"), "");
    let status = sh("cat /proc/1/status");
    let value = |key: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(key)).unwrap_or("");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(value("Uid:"), "65534 65534 65534 65534");
    assert_eq!(value("Gid:"), "65534 65534 65534 65534");
    assert_eq!(value("Groups:"), "");
    for key in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(value(key), "0000000000000000", "{key}");
    }
    assert_eq!(value("NoNewPrivs:"), "1");
    // No file of the host's is mapped; what is left is the program itself, which is gone, and the
    // kernel's own.
    let maps = sh("cat /proc/1/maps");
    let files = maps.lines().filter_map(|it| it.split_whitespace().nth(5));
    let is_own = |it: &str| it.starts_with('[') || it == "/pause";
    assert!(files.clone().all(is_own), "{maps}");
    let denied = sh("touch /proc/1/root/x 2>&1; cat /proc/1/exe 2>&1 | wc -c; true");
    assert!(denied.contains("Read-only file system"), "{denied}");
    assert_eq!(value("Seccomp:"), "2");
    // What it is made to do counts as the pod's, and it may open no device.
    assert!(!sh("cat /proc/1/cgroup").contains("holders"));
    let uid = cluster.field(&["pod", "spy"], ".metadata.uid");
    let class = "kubepods/besteffort";
    let devices = format!("/sys/fs/cgroup/devices/{}/{class}/pod{uid}/init", cluster.host.cgroup);
    if std::path::Path::new("/sys/fs/cgroup/devices").is_dir() {
        let allowed = std::fs::read_to_string(format!("{devices}/devices.list")).unwrap();
        assert_eq!(allowed, "", "{devices}");
    }
}

#[test]
fn who_cannot_trace_sees_even_less() {
    let Some(cluster) = shell::cluster() else { return };
    cluster.apply_json(&pod("plain", &json!({ "shareProcessNamespace": true }), &json!({})));
    cluster.wait_ready("app=plain", 1);
    let refused = |what: &str| cluster.sh("plain", &format!("{what} 2>&1 || echo refused"));
    for what in ["ls /proc/1/root/", "cat /proc/1/environ", "cat /proc/1/maps"] {
        assert!(refused(what).contains("refused"), "{what}: {}", refused(what));
    }
    // It cannot be ended from inside, and the pod's processes go on.
    cluster.sh("plain", "kill -9 1; kill 1; true");
    assert_eq!(cluster.sh("plain", "cat /proc/1/comm"), "pause\n");
}
