//! Debian's `etcdctl` as the client.

use std::path::PathBuf;
use std::process::Stdio;

use etcd::front::{Config, Snapshots};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::harness::{PATIENCE, Server, config, program};

fn etcdctl() -> Option<PathBuf> {
    program("XEBEC_TEST_ETCDCTL", "etcdctl")
}

fn command(etcdctl: &PathBuf, server: &Server, arguments: &str) -> Command {
    let mut command = Command::new(etcdctl);
    command.env("ETCDCTL_API", "3").arg("--endpoints").arg(server.url());
    command.args(arguments.split(' ')).kill_on_drop(true).stdin(Stdio::null());
    command
}

/// What it prints, all of it, or what it complains about.
async fn run(etcdctl: &PathBuf, server: &Server, arguments: &str) -> String {
    let output = command(etcdctl, server, arguments).output();
    let output = tokio::time::timeout(PATIENCE, output).await.expect("in time").unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    text.trim_end().to_owned()
}

#[tokio::test]
async fn keys() {
    let Some(etcdctl) = etcdctl() else { return };
    let server = Server::embedded().await;
    for (arguments, expected) in [
        ("put a 1", "OK"),
        ("put b 2", "OK"),
        ("put --prev-kv a 3", "OK\na\n1"),
        ("get a", "a\n3"),
        ("get a c --print-value-only", "3\n2"),
        ("get --order=DESCEND --sort-by=KEY a c --print-value-only", "2\n3"),
        ("get --rev=2 a", "a\n1"),
        ("get --prefix --keys-only a", "a"),
        ("put --ignore-value missing", "Error: etcdserver: key not found"),
        ("get --rev=99 a", "Error: etcdserver: mvcc: required revision is a future revision"),
        ("del --prev-kv b", "1\nb\n2"),
        ("del nothing", "0"),
        ("compact 3", "compacted revision 3"),
        ("compact 3", "Error: etcdserver: mvcc: required revision has been compacted"),
        ("get --rev=2 a", "Error: etcdserver: mvcc: required revision has been compacted"),
        ("defrag", "Finished defragmenting etcd member"),
        ("alarm list", ""),
    ] {
        let printed = run(&etcdctl, &server, arguments).await;
        let is_right = match expected {
            "" => printed.is_empty(),
            _ => printed.contains(expected),
        };
        assert!(is_right, "etcdctl {arguments} printed {printed:?}, not {expected:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn transactions() {
    let Some(etcdctl) = etcdctl() else { return };
    let server = Server::memory().await;
    server.put("a", "1").await;
    let mut child = command(&etcdctl, &server, "txn --interactive")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let script = "value(\"a\") = \"1\"\n\nput a 2\nget a\n\ndel a\n\n";
    child.stdin.take().unwrap().write_all(script.as_bytes()).await.unwrap();
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("SUCCESS\n\nOK\n\na\n2"), "{printed}");
    server.stop().await;
}

#[tokio::test]
async fn watches() {
    let Some(etcdctl) = etcdctl() else { return };
    let server = Server::embedded().await;
    server.put("a", "0").await;
    let mut child = command(&etcdctl, &server, "watch --prefix --prev-kv --rev=1 a")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut expect = async |expected: &[&str]| {
        for expected in expected {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
            assert_eq!(line.unwrap().unwrap().as_deref(), Some(*expected));
        }
    };
    expect(&["PUT", "a", "0"]).await;
    server.put("a", "1").await;
    expect(&["PUT", "a", "0", "a", "1"]).await;
    run(&etcdctl, &server, "del a").await;
    expect(&["DELETE", "a", "1", "a", ""]).await;
    child.kill().await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn leases() {
    let Some(etcdctl) = etcdctl() else { return };
    let server = Server::embedded().await;
    let granted = run(&etcdctl, &server, "lease grant 1000").await;
    let id = granted.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(granted, format!("lease {id} granted with TTL(1000s)"));
    run(&etcdctl, &server, &format!("put --lease={id} a 1")).await;
    assert!(run(&etcdctl, &server, "lease list").await.contains(&id));
    let left = run(&etcdctl, &server, &format!("lease timetolive --keys {id}")).await;
    assert!(left.contains("TTL(1000s)") && left.contains("attached keys([a])"), "{left}");
    let kept = run(&etcdctl, &server, &format!("lease keep-alive --once {id}")).await;
    assert_eq!(kept, format!("lease {id} keepalived with TTL(1000)"));
    run(&etcdctl, &server, &format!("lease revoke {id}")).await;
    assert_eq!(run(&etcdctl, &server, "get a").await, "");
    server.stop().await;
}

#[tokio::test]
async fn members_and_health() {
    let Some(etcdctl) = etcdctl() else { return };
    let server = Server::embedded().await;
    for (arguments, expected) in [
        ("endpoint health", "is healthy"),
        ("endpoint status --write-out=json", "\"version\":\"3.5."),
        ("endpoint hashkv", "http://127.0.0.1:"),
        ("member list", "started, default"),
        ("member add other --peer-urls=http://127.0.0.1:1", "has one member"),
        ("user list", "users and roles are not supported"),
        ("move-leader 1234", "Error:"),
    ] {
        let printed = run(&etcdctl, &server, arguments).await;
        assert!(printed.contains(expected), "etcdctl {arguments} printed {printed:?}");
    }
    server.stop().await;
}

struct Some1000;

impl Snapshots for Some1000 {
    fn snapshot(&self) -> BoxFuture<'_, std::io::Result<std::fs::File>> {
        Box::pin(async {
            let mut file = tempfile::tempfile()?;
            std::io::Write::write_all(&mut file, &[7; 1000])?;
            std::io::Seek::rewind(&mut file)?;
            Ok(file)
        })
    }
}

#[tokio::test]
async fn snapshots_are_saved() {
    let Some(etcdctl) = etcdctl() else { return };
    let config = Config { snapshots: Some(std::sync::Arc::new(Some1000)), ..config() };
    let server = Server::over(std::sync::Arc::new(kvstore::memory::Memory::new()), config).await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("snapshot");
    let arguments = format!("snapshot save {}", path.display());
    let printed = run(&etcdctl, &server, &arguments).await;
    assert!(printed.contains("Snapshot saved at"), "{printed}");
    assert_eq!(std::fs::read(path).unwrap()[..1000], [7; 1000]);
    server.stop().await;
}
