//! `kill -9` of xebec in the middle of everything.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use crate::cluster::{Cluster, pod};

/// Talks to an echo server line by line over one connection for as long as its standard input says
/// so.
const TALK: &str = "import socket,sys\n\
    s=socket.create_connection((sys.argv[1],80)); f=s.makefile('rw')\n\
    for line in sys.stdin:\n\
    \x20 f.write(line); f.flush(); sys.stdout.write(f.readline()); sys.stdout.flush()\n";

#[test]
fn containers_connections_and_logs_survive() {
    let Some(mut cluster) = Cluster::start() else { return };
    cluster.apply("echo.yaml", &pod("echo", "[echo, tcp, --port, '8080']", ""));
    cluster.apply("counter.yaml", &pod("counter", "[count, --interval, '0.01']", ""));
    cluster.wait_ready("app=echo", 1);
    cluster.wait_ready("app=counter", 1);
    cluster.ok(&["expose", "pod", "echo", "--port=80", "--target-port=8080"]);
    let address = cluster.field(&["service", "echo"], ".spec.clusterIP");
    cluster.until(&["get", "endpointslices", "-o", "yaml"], |it| it.contains("ready: true"));
    let ids = "jsonpath={.items[*].status.containerStatuses[*].containerID}";
    let before = cluster.ok(&["get", "pods", "-o", ids]);

    let mut talk = cluster
        .host
        .command("python3")
        .args(["-c", TALK, &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut words, mut answers) = (talk.stdin.take().unwrap(), talk.stdout.take().unwrap());
    let mut say = |line: &str| {
        writeln!(words, "{line}").unwrap();
        let mut answer = vec![0; line.len() + 1];
        answers.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer).trim_end(), line);
    };
    say("before");
    for round in 0..3 {
        cluster.kill();
        say(&format!("while it is dead, {round}"));
        cluster.up();
        say(&format!("after it came back, {round}"));
    }
    drop(words);
    talk.wait().unwrap();

    assert_eq!(cluster.ok(&["get", "pods", "-o", ids]), before);
    let restarts = cluster.ok(&[
        "get",
        "pods",
        "-o",
        "jsonpath={.items[*].status.containerStatuses[*].restartCount}",
    ]);
    assert_eq!(restarts, "0 0");
    cluster.wait_ready("app=echo", 1);
    let log = cluster.ok(&["logs", "counter"]);
    let numbers: Vec<u64> = log.lines().map(|it| it.parse().unwrap()).collect();
    assert!(numbers.len() > 100, "{}", numbers.len());
    assert!(numbers.windows(2).all(|it| it[1] == it[0] + 1), "a gap in {numbers:?}");
    assert_eq!(numbers[0], 0);
    // The proxy goes on where it was: the Service still answers new connections.
    cluster.exec("echo", &["true"]);
}

#[test]
fn what_happened_meanwhile_is_seen_afterwards() {
    let Some(mut cluster) = Cluster::start() else { return };
    cluster.apply("short.yaml", &pod("short", "[sleep, '86397']", ""));
    cluster.wait_ready("app=short", 1);
    cluster.kill();
    let pids = crate::cluster::processes(&["sleep", "86397"]);
    let pid = rustix::process::Pid::from_raw(pids[0] as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    cluster.up();
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].lastState.terminated.exitCode}";
    cluster.until(&["get", "pod", "short", "-o", restarts], |it| it == "1 137");
    cluster.wait_ready("app=short", 1);
}
