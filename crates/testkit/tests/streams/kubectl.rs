//! What a user of kubectl sees. Each test runs with every kubectl that is found: those before 1.31
//! speak SPDY.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};

use crate::site::Site;

/// The one that the environment names or that is found; several if they are installed side by side.
fn kubectls() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os("XEBEC_TEST_KUBECTL") {
        return vec![path.into()];
    }
    let beside = Path::new("/usr/lib/google-cloud-sdk/bin");
    let mut found: Vec<PathBuf> =
        ["1.30", "1.33"].iter().map(|it| beside.join(format!("kubectl.{it}"))).collect();
    found.retain(|it| it.exists());
    if found.is_empty() {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        found = std::env::split_paths(&paths).map(|it| it.join("kubectl")).collect();
        found.retain(|it| it.exists());
        found.truncate(1);
    }
    if found.is_empty() {
        eprintln!("SKIPPED: no kubectl on this machine");
    }
    found
}

struct Kubectl<'a> {
    site: &'a Site,
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl<'a> Kubectl<'a> {
    fn new(site: &'a Site, program: &Path) -> Self {
        let kubeconfig = site.kubeconfig("admin", &["system:masters"]);
        Self { site, program: program.to_owned(), kubeconfig }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.site.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{:?} {arguments:?}: {stderr}", self.program);
        String::from_utf8(output.stdout).unwrap()
    }

    async fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(!output.status.success(), "{arguments:?} should have failed");
        String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
    }

    /// With these bytes on stdin.
    async fn feed(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let (_, output) = tokio::join!(
            async move {
                stdin.write_all(&input).await.unwrap();
                drop(stdin);
            },
            child.wait_with_output()
        );
        output.unwrap()
    }
}

fn entry(second: u32, stream: &str, tag: &str, message: &str) -> String {
    format!("2026-11-16T00:00:{second:02}.000000001Z {stream} {tag} {message}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_with_their_streams_and_exit_codes() {
    for program in kubectls() {
        let site = Site::start().await;
        let kubectl = Kubectl::new(&site, &program);
        let ran = kubectl.run(&["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
        let ran = ran.await;
        assert_eq!(ran.status.code(), Some(3));
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "out\n");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(stderr, "err\ncommand terminated with exit code 3\n", "{program:?}");
        // More than any buffer on the way, in both directions, byte by byte the same.
        let bytes: Vec<u8> = (0..3_000_000u32).map(|it| (it % 251) as u8).collect();
        let ran = kubectl.feed(&["exec", "-i", "web", "--", "cat"], &bytes).await;
        assert!(ran.status.success(), "{program:?} {}", String::from_utf8_lossy(&ran.stderr));
        assert!(ran.stdout == bytes, "{program:?}: {} bytes came back", ran.stdout.len());
        let missing = kubectl.refused(&["exec", "web", "--", "/no/such/program"]).await;
        assert!(missing.contains("No such file or directory"), "{program:?} {missing}");
        let output = kubectl.ok(&["exec", "web", "--", "sh", "-c", "sleep 600 & echo done"]).await;
        assert_eq!(output, "done\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_copied_in_both_directions() {
    for program in kubectls() {
        let site = Site::start().await;
        let kubectl = Kubectl::new(&site, &program);
        let (here, there) =
            (site.directory.path().join("here"), site.directory.path().join("there"));
        let content: Vec<u8> = (0..400_000u32).map(|it| (it % 253) as u8).collect();
        std::fs::write(&here, &content).unwrap();
        let remote = format!("web:{}", there.display());
        kubectl.ok(&["cp", &here.display().to_string(), &remote]).await;
        assert!(std::fs::read(&there).unwrap() == content);
        let back = site.directory.path().join("back");
        kubectl.ok(&["cp", &remote, &back.display().to_string()]).await;
        assert!(std::fs::read(&back).unwrap() == content);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_read_from_any_point() {
    let site = Site::start().await;
    site.log(&entry(1, "stdout", "F", "one"));
    site.log(&(entry(2, "stdout", "P", "tw") + &entry(3, "stdout", "F", "o")));
    site.log(&entry(4, "stderr", "F", "three"));
    for program in kubectls() {
        let kubectl = Kubectl::new(&site, &program);
        assert_eq!(kubectl.ok(&["logs", "web"]).await, "one\ntwo\nthree\n");
        assert_eq!(kubectl.ok(&["logs", "web", "--tail=2"]).await, "two\nthree\n");
        assert_eq!(kubectl.ok(&["logs", "web", "--limit-bytes=5"]).await, "one\nt");
        let since = "--since-time=2026-11-16T00:00:04Z";
        assert_eq!(kubectl.ok(&["logs", "web", since]).await, "three\n");
        assert_eq!(
            kubectl.ok(&["logs", "web", "--timestamps", "--tail=1"]).await,
            "2026-11-16T00:00:04.000000001Z three\n"
        );
        for (arguments, expected) in [
            (
                ["logs", "web", "--previous"].as_slice(),
                "Error from server (BadRequest): previous terminated container \"main\" in pod \"web\" not found",
            ),
            (&["logs", "web", "-c", "x"], "container x is not valid for pod web"),
            (
                &["logs", "lost"],
                "Error from server (BadRequest): container \"main\" in pod \"lost\" is waiting to start: ContainerCreating",
            ),
            (&["logs", "none"], "rror from server (NotFound): pods \"none\" not found"),
            (&["exec", "pending", "--", "date"], "pod pending does not have a host assigned"),
            (&["exec", "lost", "--", "date"], "container not found (\"main\")"),
        ] {
            let refused = kubectl.refused(arguments).await;
            assert!(refused.contains(expected), "{program:?} {arguments:?}: {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn following_ends_with_the_container_and_misses_no_line() {
    for program in kubectls() {
        let site = Site::start().await;
        let kubectl = Kubectl::new(&site, &program);
        site.log(&entry(1, "stdout", "F", "line 0"));
        let mut child = kubectl.command(&["logs", "-f", "web"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut expected = 0;
        for number in 1..=300 {
            site.log(&entry(1, "stdout", "F", &format!("line {number}")));
            if number % 100 == 0 {
                let rotated = format!("0.log.20261116-00000{}", number / 100);
                std::fs::rename(site.log_path(), site.directory.path().join(rotated)).unwrap();
            }
        }
        site.log(&entry(1, "stdout", "F", "line 301"));
        while expected <= 301 {
            let line = lines.next_line().await.unwrap().unwrap();
            assert_eq!(line, format!("line {expected}"), "{program:?}");
            expected += 1;
        }
        site.log(&entry(1, "stdout", "F", "last"));
        site.node.exit(&site.container, 0);
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("last"));
        assert_eq!(lines.next_line().await.unwrap(), None);
        assert!(child.wait().await.unwrap().success());
    }
}

/// A server that answers each line with itself, and closes when its client does.
async fn echo(site: &Site) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    site.tasks.spawn("echo", |_| async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut reader, mut writer) = stream.split();
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        }
    });
    port
}

/// With its output, which kubectl goes on writing to.
async fn forwarding(
    kubectl: &Kubectl<'_>,
    port: u16,
) -> (Child, u16, Lines<BufReader<ChildStdout>>) {
    let arguments = ["port-forward", "--address=127.0.0.1", "pod/web", &format!(":{port}")];
    let mut child = kubectl.command(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Forwarding from 127.0.0.1:40001 -> 80
    let line = lines.next_line().await.unwrap().unwrap_or_default();
    let local = line.split_whitespace().nth(2).and_then(|it| it.rsplit(':').next());
    let local = local.unwrap_or_default().parse().unwrap();
    (child, local, lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_forwarded() {
    for program in kubectls() {
        let site = Site::start().await;
        let kubectl = Kubectl::new(&site, &program);
        let port = echo(&site).await;
        let (mut child, local, _output) = forwarding(&kubectl, port).await;
        for round in 0..3u32 {
            let bytes: Vec<u8> = (0..500_000u32).map(|it| (it * (round + 1) % 241) as u8).collect();
            let mut stream = TcpStream::connect(("127.0.0.1", local)).await.unwrap();
            let (mut reader, mut writer) = stream.split();
            let send = async {
                writer.write_all(&bytes).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let mut back = Vec::new();
            let (_, read) = tokio::join!(send, reader.read_to_end(&mut back));
            read.unwrap();
            assert!(back == bytes, "{program:?}: {} bytes came back", back.len());
        }
        child.kill().await.unwrap();
        // A port that nobody listens on: the connection is closed, and kubectl says why.
        let free = test_ports::reserve();
        let (mut child, local, _output) = forwarding(&kubectl, free).await;
        let mut stream = TcpStream::connect(("127.0.0.1", local)).await.unwrap();
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back).await;
        assert_eq!(back, b"");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("error forwarding port") {
            said = lines.next_line().await.unwrap().expect("kubectl says why");
        }
        let expected = format!("error forwarding port {free} to pod default/web, uid 1: ");
        assert!(said.contains(&expected), "{program:?} {said}");
        child.kill().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attaching_shows_output_and_permission_is_asked_for() {
    for program in kubectls() {
        let site = Site::start().await;
        let kubectl = Kubectl::new(&site, &program);
        let mut child = kubectl.command(&["attach", "web"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("hello from main"));
        site.node.exit(&site.container, 5);
        assert!(child.wait().await.unwrap().success());
        let stranger = Kubectl {
            kubeconfig: site.kubeconfig("stranger", &[]),
            ..Kubectl::new(&site, &program)
        };
        for arguments in [["logs", "web"].as_slice(), &["exec", "web", "--", "date"]] {
            let refused = stranger.refused(arguments).await;
            assert!(refused.contains("forbidden"), "{program:?} {refused}");
        }
    }
}
