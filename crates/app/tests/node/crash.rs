//! `kill -9` of xebec in the middle of everything.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use rustix::process::{Pid, Signal};

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
    cluster.wait_served("echo", 1);
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
    let pid = Pid::from_raw(pids[0] as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    cluster.up();
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].lastState.terminated.exitCode}";
    cluster.until(&["get", "pod", "short", "-o", restarts], |it| it == "1 137");
    cluster.wait_ready("app=short", 1);
}

const CHATTY: usize = 5;
const KILLS: usize = 6;
/// What ends a container while nobody looks, and the code that must be told of it afterwards.
const ENDS: &[(Signal, &str)] = &[(Signal::KILL, "137"), (Signal::TERM, "0")];

/// A command line that no other test has.
fn mortal(n: usize) -> String {
    format!("{}.{n}", 900_000 + std::process::id())
}

fn send(words: &[&str], signal: Signal) {
    let pids = crate::cluster::processes(words);
    let [pid] = pids.as_slice() else { panic!("{words:?} runs as {pids:?}") };
    let pid = Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn no_line_and_no_exit_code_is_lost_however_often_it_is_killed() {
    let Some(mut cluster) = Cluster::start() else { return };
    let chatty: Vec<String> = (0..CHATTY).map(|n| format!("chatty-{n}")).collect();
    for name in &chatty {
        let manifest = pod(name, "[count, --interval, '0.005']", "");
        cluster.apply(&format!("{name}.yaml"), &manifest);
    }
    for n in 0..ENDS.len() {
        let manifest = pod(&format!("mortal-{n}"), &format!("[sleep, '{}']", mortal(n)), "");
        let manifest = manifest.replace("restartPolicy: Always", "restartPolicy: Never");
        cluster.apply(&format!("mortal-{n}.yaml"), &manifest);
    }
    for name in &chatty {
        cluster.wait_ready(&format!("app={name}"), 1);
    }
    (0..ENDS.len()).for_each(|n| cluster.wait_ready(&format!("app=mortal-{n}"), 1));
    let ids = "jsonpath={.items[*].status.containerStatuses[*].containerID}";
    let before = cluster.ok(&["get", "pods", "-o", ids]);
    for round in 0..KILLS {
        cluster.kill();
        if let Some((signal, _)) = ENDS.get(round) {
            send(&["sleep", &mortal(round)], *signal);
        }
        cluster.up();
    }
    let code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    for (n, (_, expected)) in ENDS.iter().enumerate() {
        let name = format!("mortal-{n}");
        cluster.until(&["get", "pod", &name, "-o", code], |it| it == *expected);
    }
    assert_eq!(cluster.ok(&["get", "pods", "-o", ids]), before, "no container was started again");
    for name in &chatty {
        let log = cluster.ok(&["logs", name]);
        let numbers: Vec<u64> = log.lines().map(|it| it.parse().unwrap()).collect();
        let expected = 0..numbers.len() as u64;
        assert!(numbers.iter().copied().eq(expected), "a gap in {name}: {numbers:?}");
    }
}

#[test]
fn a_stopped_holder_is_named_and_its_pod_goes_on() {
    let Some(mut cluster) = Cluster::start() else { return };
    cluster.apply("frozen.yaml", &pod("frozen", "[count, --interval, '0.01']", ""));
    cluster.wait_ready("app=frozen", 1);
    let id = ["get", "pod", "frozen", "-o", "jsonpath={.status.containerStatuses[0].containerID}"];
    let before = cluster.ok(&id);
    cluster.kill();
    let data = cluster.data().join("containers/sandboxes");
    let sandbox = std::fs::read_dir(&data).unwrap().next().unwrap().unwrap().path();
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(sandbox.join("holder.json")).unwrap()).unwrap();
    let pid = i32::try_from(record["pid"].as_i64().unwrap()).unwrap();
    let holder = Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(holder, Signal::STOP).unwrap();
    cluster.up();
    cluster.until(&["get", "events"], |it| it.contains("HolderNotResponding"));
    let phase = "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}";
    assert_eq!(cluster.ok(&["get", "pod", "frozen", "-o", phase]), "Running 0");
    let refused = cluster.refused(&["exec", "frozen", "--", "true"]);
    assert!(refused.contains("lives but does not answer"), "{refused}");
    rustix::process::kill_process(holder, Signal::CONT).unwrap();
    cluster.until(&["exec", "frozen", "--", "echo", "thawed"], |it| it.contains("thawed"));
    assert_eq!(cluster.ok(&id), before);
    assert_eq!(cluster.ok(&["get", "pod", "frozen", "-o", phase]), "Running 0");
    let log = cluster.ok(&["logs", "frozen"]);
    let numbers: Vec<u64> = log.lines().map(|it| it.parse().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "a gap in {numbers:?}");
}
