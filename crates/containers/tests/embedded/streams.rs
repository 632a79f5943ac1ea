//! Commands, attached clients, ports.

use std::time::Duration;

use node_api::containers::{ContainerState, ExecRequest, Streams, TerminalSize};
use node_api::{ContainerId, Error};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bed::{Bed, Opened, PATIENCE, eventually};

fn shell(script: &str) -> Vec<String> {
    vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()]
}

async fn idle(bed: &Bed, node: &Opened) -> ContainerId {
    let sandbox = node.sandboxes().create(bed.sandbox("idle")).await.unwrap().id;
    node.started(&sandbox, &bed.container("main", "sleep 1000")).await
}

async fn read_until(stream: &mut (impl tokio::io::AsyncRead + Unpin), end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let mut buffer = [0; 1024];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await;
        let length = read.unwrap_or_else(|_| panic!("no {end:?} in {text:?}")).unwrap();
        assert!(length > 0, "ended before {end:?}: {text:?}");
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    text
}

pub(crate) async fn a_command_has_streams_and_an_exit_code() {
    let bed = Bed::new();
    let node = bed.open().await;
    let id = idle(&bed, &node).await;
    let request = ExecRequest {
        command: shell("cat; echo done >&2; exit 5"),
        stdin: true,
        stdout: true,
        stderr: true,
        tty: false,
    };
    let Streams { stdin, stdout, stderr, resize, exit } =
        node.containers().exec(&id, request).await.unwrap();
    assert!(resize.is_none());
    let mut stdin = stdin.unwrap();
    let sent = vec![b'x'; 300_000];
    let copy = sent.clone();
    let writing = async move {
        stdin.write_all(&copy).await.unwrap();
        stdin.shutdown().await.unwrap();
    };
    let (mut out, mut err) = (Vec::new(), String::new());
    let (mut stdout, mut stderr) = (stdout.unwrap(), stderr.unwrap());
    let ((), read, _) =
        tokio::join!(writing, stdout.read_to_end(&mut out), stderr.read_to_string(&mut err));
    read.unwrap();
    assert!(out == sent);
    assert_eq!(err, "done\n");
    assert_eq!(exit.await.unwrap(), 5);

    let request = ExecRequest { command: vec!["/no/such".to_owned()], ..ExecRequest::default() };
    let Err(Error::Refused(why)) = node.containers().exec(&id, request).await else {
        panic!("executed")
    };
    assert!(why.contains("/no/such"), "{why}");
    node.purge().await;
}

pub(crate) async fn a_command_with_a_terminal_can_be_resized() {
    let bed = Bed::new();
    let node = bed.open().await;
    let id = idle(&bed, &node).await;
    let request = ExecRequest {
        command: vec!["/bin/sh".to_owned()],
        tty: true,
        stdin: true,
        stdout: true,
        stderr: false,
    };
    let streams = node.containers().exec(&id, request).await.unwrap();
    let (mut stdin, mut stdout) = (streams.stdin.unwrap(), streams.stdout.unwrap());
    let resize = streams.resize.unwrap();
    for (width, height) in [(101, 33), (77, 11)] {
        resize.send(Some(TerminalSize { width, height })).unwrap();
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            stdin.write_all(b"stty size; echo e'n'd\n").await.unwrap();
            let text = read_until(&mut stdout, "end\r\n").await;
            if text.contains(&format!("{height} {width}")) {
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "{text}");
        }
    }
    stdin.write_all(b"test -t 0 && test -t 1 && test -t 2 && exit 4\n").await.unwrap();
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).await.unwrap();
    assert_eq!(streams.exit.await.unwrap(), 4);
    node.purge().await;
}

pub(crate) async fn a_command_ends_with_its_client() {
    let bed = Bed::new();
    let node = bed.open().await;
    let id = idle(&bed, &node).await;
    let request = ExecRequest {
        command: shell("echo up; sleep 777"),
        stdout: true,
        ..ExecRequest::default()
    };
    let mut streams = node.containers().exec(&id, request).await.unwrap();
    read_until(streams.stdout.as_mut().unwrap(), "up").await;
    assert!(node.output(&id, "ps").await.contains("sleep 777"));
    let Streams { stdout, exit, .. } = streams;
    drop(exit);
    // One end is left: it goes on.
    assert!(node.output(&id, "ps").await.contains("sleep 777"));
    drop(stdout);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while node.output(&id, "ps").await.contains("echo up") {
        assert!(tokio::time::Instant::now() < deadline, "the command goes on");
    }
    node.purge().await;
}

pub(crate) async fn output_of_a_command_is_cut_and_its_time_limited() {
    let bed = Bed::new();
    let node = bed.open().await;
    let id = idle(&bed, &node).await;
    let run =
        |script, timeout, limit| node.containers().exec_output(&id, shell(script), timeout, limit);
    let output = run("seq 1 100000; echo oops >&2; exit 2", PATIENCE, 4).await.unwrap();
    assert_eq!(output.code, 2);
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"1\n2\n"[..], &b"oops"[..]));
    // What it leaves behind holds its streams open.
    let output = run("sleep 1000 & echo started", PATIENCE, 100).await.unwrap();
    assert_eq!(&output.stdout[..], b"started\n");
    let short = Duration::from_millis(100);
    let err = run("sleep 555", short, 100).await.unwrap_err();
    assert!(matches!(err, Error::TimedOut(it) if it == short), "{err:?}");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while node.output(&id, "ps").await.contains("sleep 555") {
        assert!(tokio::time::Instant::now() < deadline, "the command goes on");
    }
    node.purge().await;
}

pub(crate) async fn attached_clients_see_output_and_write_input() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("chat")).await.unwrap().id;
    let both = ExecRequest { stdin: true, stdout: true, ..ExecRequest::default() };

    let mut config = bed.container("main", "while read x; do echo got $x; done; echo end; exit 6");
    (config.stdin, config.stdin_once) = (true, true);
    let id = node.started(&sandbox, &config).await;
    let streams = node.containers().attach(&id, both.clone()).await.unwrap();
    let (mut stdin, mut stdout) = (streams.stdin.unwrap(), streams.stdout.unwrap());
    stdin.write_all(b"one\n").await.unwrap();
    assert_eq!(read_until(&mut stdout, "\n").await, "got one\n");
    drop((stdin, stdout));
    assert!(matches!(node.containers().get(&id).unwrap().state, ContainerState::Running { .. }));
    // The session ends with the last of its streams, and with it the container's input.
    drop(streams.exit);
    assert_eq!(node.exit(&id).await.code, 6);
    assert_eq!(bed.log(&config), "got one\nend\n");

    let script = "stty -echo; echo ready; while read x; do stty size; done; exit 8";
    let mut config = bed.container("tty", script);
    (config.stdin, config.tty) = (true, true);
    let id = node.started(&sandbox, &config).await;
    eventually("the terminal", || bed.log(&config).contains("ready")).await;
    let streams = node.containers().attach(&id, both).await.unwrap();
    let (mut stdin, mut stdout) = (streams.stdin.unwrap(), streams.stdout.unwrap());
    let resize = streams.resize.unwrap();
    resize.send(Some(TerminalSize { width: 90, height: 20 })).unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        stdin.write_all(b"go\n").await.unwrap();
        if read_until(&mut stdout, "\n").await.contains("20 90\r\n") {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "the size does not change");
    }
    // The end of the input, as it is typed.
    stdin.write_all(b"\x04").await.unwrap();
    assert_eq!(streams.exit.await.unwrap(), 8);
    node.purge().await;
}

pub(crate) async fn a_client_that_does_not_read_stops_nobody() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("flood")).await.unwrap().id;
    let mut config = bed.container("main", "read x; seq 1 500000; echo last");
    config.stdin = true;
    let id = node.started(&sandbox, &config).await;
    let request = ExecRequest { stdin: true, stdout: true, ..ExecRequest::default() };
    let mut streams = node.containers().attach(&id, request).await.unwrap();
    streams.stdin.as_mut().unwrap().write_all(b"go\n").await.unwrap();
    assert_eq!(node.exit(&id).await.code, 0);
    assert!(bed.log(&config).ends_with("500000\nlast\n"));
    drop(streams);
    node.purge().await;
}

pub(crate) async fn ports_of_the_pod_can_be_reached() {
    let bed = Bed::new();
    let node = bed.open().await;
    let sandbox = node.sandboxes().create(bed.sandbox("server")).await.unwrap().id;
    let config = bed.container("main", "nc -l -p 8080 -e cat");
    let id = node.started(&sandbox, &config).await;
    let listening = "cat /proc/net/tcp /proc/net/tcp6";
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !node.output(&id, listening).await.contains(":1F90") {
        assert!(tokio::time::Instant::now() < deadline, "nobody listens");
    }
    let Err(err) = node.containers().connect(&sandbox, 8081).await else { panic!("connected") };
    assert!(stdx::error_chain(&err).contains("refused"), "{}", stdx::error_chain(&err));
    let mut stream = node.containers().connect(&sandbox, 8080).await.unwrap();
    stream.write_all(b"there and back").await.unwrap();
    assert_eq!(read_until(&mut stream, "back").await, "there and back");
    node.purge().await;
}
