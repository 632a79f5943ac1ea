//! What containers write, how they are reached, and who else may come and go meanwhile.

use std::time::Duration;

use node_api::containers::{ContainerState, ExecRequest, Streams, TerminalSize};
use node_api::sandboxes::SandboxState;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bed::{Bed, PATIENCE};

fn shell(script: &str) -> Vec<String> {
    vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()]
}

pub(crate) async fn output_is_logged_and_the_log_can_be_rotated() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("logs")).await.unwrap();
    assert_eq!(sandbox.addresses.len(), 1, "CNI gave it an address");
    let script = "echo before; until [ -e /tmp/go ]; do sleep 0.02; done; echo after";
    let config = bed.container("writer", script);
    let id = node.started(&sandbox.id, &config).await;
    let log = |path: &std::path::Path| std::fs::read_to_string(path).unwrap_or_default();
    let first = async {
        while !log(&config.log_path).contains("stdout F before") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, first).await.expect("the first line");
    let rotated = config.log_path.with_extension("rotated");
    std::fs::rename(&config.log_path, &rotated).unwrap();
    node.containers().reopen_log(&id).await.unwrap();
    let go = node.containers().exec_output(&id, shell("echo > /tmp/go"), PATIENCE, 100).await;
    // Killed, if the container has seen the file and ended before the shell has.
    let code = go.unwrap().code;
    assert!(matches!(code, 0 | 137), "{code}");
    assert_eq!(node.exit(&id).await.code, 0);
    assert!(log(&rotated).contains("stdout F before"));
    assert!(log(&config.log_path).contains("stdout F after"), "{}", log(&config.log_path));
    bed.leave(node).await;
}

pub(crate) async fn a_terminal_can_be_resized_and_a_port_reached() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("streams")).await.unwrap();
    let config = bed.container("server", "while :; do echo hello | nc -l -p 8080; done");
    let id = node.started(&sandbox.id, &config).await;
    let request = ExecRequest {
        command: shell("until [ \"$(stty size)\" = '33 99' ]; do sleep 0.02; done; echo sized"),
        tty: true,
        stdin: true,
        stdout: true,
        stderr: false,
    };
    let Streams { stdin: _stdin, stdout, resize, exit, .. } =
        node.containers().exec(&id, request).await.unwrap();
    resize.as_ref().unwrap().send_replace(Some(TerminalSize { width: 99, height: 33 }));
    let mut text = String::new();
    let read = tokio::time::timeout(PATIENCE, stdout.unwrap().read_to_string(&mut text)).await;
    read.expect("the output ends").unwrap();
    assert!(text.contains("sized"), "{text:?}");
    assert_eq!(exit.await.unwrap(), 0);
    let said = async {
        loop {
            let mut port = node.containers().connect(&sandbox.id, 8080).await.unwrap();
            let mut said = String::new();
            let _ = port.read_to_string(&mut said).await;
            if said == "hello\n" {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, said).await.expect("the port answers");
    bed.leave(node).await;
}

pub(crate) async fn the_next_one_finds_everything() {
    let bed = Bed::new();
    let first = bed.open().await;
    let mut wanted = bed.sandbox("adopted");
    wanted.annotations.insert("kept".to_owned(), "as it was".to_owned());
    let sandbox = first.sandboxes().create(wanted).await.unwrap();
    let mut config = bed.container("main", "read line; exit 7");
    config.stdin = true;
    let id = first.started(&sandbox.id, &config).await;
    first.tasks.shutdown(PATIENCE).await.unwrap();
    let next = bed.open().await;
    assert_eq!(next.sandboxes().list(), [sandbox]);
    let found = next.containers().get(&id).expect("it is found");
    assert_eq!(found.config, config);
    assert!(matches!(found.state, ContainerState::Running { .. }), "{found:?}");
    let request = ExecRequest { stdin: true, stdout: true, ..ExecRequest::default() };
    let attached = next.containers().attach(&id, request).await.unwrap();
    attached.stdin.unwrap().write_all(b"go\n").await.unwrap();
    assert_eq!(next.exit(&id).await.code, 7);
    bed.leave(next).await;
}

/// Nobody is taken for dead because of silence, and what happened meanwhile is noticed.
pub(crate) async fn a_restart_of_the_runtime_is_survived() {
    let mut bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("survivor")).await.unwrap();
    let stays = node.started(&sandbox.id, &bed.container("stays", "sleep 1000")).await;
    let script = "until [ -e /tmp/go ]; do sleep 0.02; done; sleep 1; exit 9";
    let ends = node.started(&sandbox.id, &bed.container("ends", script)).await;
    let go = node.containers().exec_output(&ends, shell("echo > /tmp/go"), PATIENCE, 100);
    go.await.unwrap();
    let mut status = node.sandboxes().status();
    bed.daemon.kill();
    let is_silent = status.wait_for(|it| it.fault.is_some());
    let fault = tokio::time::timeout(PATIENCE, is_silent).await.expect("it is noticed");
    assert!(fault.unwrap().fault.as_deref().unwrap().contains("does not answer"));
    let listed = node.sandboxes().list();
    assert_eq!(listed.iter().map(|it| it.state).collect::<Vec<_>>(), [SandboxState::Ready]);
    assert!(matches!(node.containers().get(&stays).unwrap().state, ContainerState::Running { .. }));
    bed.daemon.run();
    let answers = tokio::time::timeout(PATIENCE, status.wait_for(|it| it.fault.is_none())).await;
    assert!(answers.expect("it answers again").is_ok());
    assert_eq!(node.exit(&ends).await.code, 9);
    let output = node.containers().exec_output(&stays, shell("echo alive"), PATIENCE, 100).await;
    assert_eq!(&output.unwrap().stdout[..], b"alive\n");
    bed.leave(node).await;
}
