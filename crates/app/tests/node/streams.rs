//! Into running containers: logs, exec, attach, copy, port-forward.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::cluster::{Cluster, pod};

#[test]
fn logs_are_read_followed_and_cut() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("counter.yaml", &pod("counter", "[count, --interval, '0.05', --to, '40']", ""));
    cluster.wait_ready("app=counter", 1);
    let mut follow =
        cluster.command(&["logs", "-f", "counter"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines: Vec<String> =
        BufReader::new(follow.stdout.take().unwrap()).lines().map_while(Result::ok).collect();
    follow.wait().unwrap();
    let expected: Vec<String> = (0..40).map(|it| it.to_string()).collect();
    assert_eq!(lines, expected, "every line once, until the container ends");
    cluster.until(&["logs", "counter", "--previous", "--tail=2"], |it| it == "38\n39\n");
    let stamped = cluster.ok(&["logs", "counter", "--previous", "--timestamps", "--tail=1"]);
    assert!(stamped.contains('T') && stamped.trim_end().ends_with("Z 39"), "{stamped}");
    let limited = cluster.ok(&["logs", "counter", "--previous", "--limit-bytes=4"]);
    assert_eq!(limited, "0\n1\n");
    let missing = cluster.refused(&["logs", "counter", "-c", "nobody"]);
    assert!(missing.contains("container nobody is not valid for pod counter"), "{missing}");
}

#[test]
fn commands_run_inside_with_input_output_and_exit_code() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("box.yaml", &pod("box", "[sleep]", ""));
    cluster.wait_ready("app=box", 1);
    assert_eq!(cluster.exec("box", &["echo", "hello"]), "hello\n");
    let mut cat = cluster
        .command(&["exec", "-i", "box", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text: String = (0..20_000).map(|it| format!("line {it}\n")).collect();
    let mut stdin = cat.stdin.take().unwrap();
    let sent = text.clone();
    let writer = std::thread::spawn(move || stdin.write_all(sent.as_bytes()).unwrap());
    let output = cat.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
    let failed = cluster.run(&["exec", "box", "--", "false"]);
    assert!(
        !failed.is_ok && failed.stderr.contains("command terminated with exit code 1"),
        "{}",
        failed.stderr
    );
    let missing = cluster.refused(&["exec", "box", "--", "no-such-program"]);
    assert!(missing.contains("executable file not found"), "{missing}");
}

#[test]
fn a_terminal_is_a_terminal() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("box.yaml", &pod("box", "[sleep]", ""));
    cluster.wait_ready("app=box", 1);
    // `script` gives kubectl a terminal of its own.
    let words = ["exec", "-it", "box", "--", "cat", "/proc/self/stat"];
    let kubectl = cluster.command(&words);
    let line: Vec<String> = std::iter::once(kubectl.get_program())
        .chain(kubectl.get_args())
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    let output = std::process::Command::new("script")
        .args(["-qec", &line.join(" "), "/dev/null"])
        .env("KUBECONFIG", cluster.path("data/kubeconfig"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Field 7 is the controlling terminal; 0 is none.
    let terminal =
        text.rsplit(')').next().unwrap_or("").split_whitespace().nth(4).unwrap_or("0").to_owned();
    assert_ne!(terminal, "0", "{text}");
}

#[test]
fn files_are_copied_both_ways() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("box.yaml", &pod("box", "[sleep]", ""));
    cluster.wait_ready("app=box", 1);
    let content: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 251) as u8).collect();
    std::fs::write(cluster.path("there"), &content).unwrap();
    cluster.ok(&["cp", &cluster.path("there").display().to_string(), "box:/tmp/copy"]);
    cluster.ok(&["cp", "box:/tmp/copy", &cluster.path("back").display().to_string()]);
    assert!(std::fs::read(cluster.path("back")).unwrap() == content, "the copy differs");
}

#[test]
fn ports_are_forwarded() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("web.yaml", &pod("web", "[http]", ""));
    cluster.wait_ready("app=web", 1);
    let mut forward = cluster
        .command(&["port-forward", "pod/web", "18080:8080"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("Forwarding from 127.0.0.1:18080 -> 8080"), "{first}");
    for _ in 0..5 {
        assert_eq!(cluster.curl("http://127.0.0.1:18080/").trim(), "web");
    }
    forward.kill().unwrap();
    forward.wait().unwrap();
}

#[test]
fn attaching_shows_what_is_printed() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("counter.yaml", &pod("counter", "[count, --interval, '0.05']", ""));
    cluster.wait_ready("app=counter", 1);
    let mut attach =
        cluster.command(&["attach", "counter"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(attach.stdout.take().unwrap()).lines().map_while(Result::ok);
    let numbers: Vec<u64> = lines.filter_map(|it| it.parse().ok()).take(5).collect();
    attach.kill().unwrap();
    attach.wait().unwrap();
    assert!(numbers.windows(2).all(|it| it[1] == it[0] + 1), "{numbers:?}");
}
