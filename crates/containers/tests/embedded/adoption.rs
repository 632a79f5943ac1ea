//! One `xebec` goes, in good order or by `kill -9`; the next finds everything.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use node_api::containers::{ContainerState, ExecRequest};
use node_api::sandboxes::SandboxState;
use node_api::{ContainerId, SandboxId};
use tokio::io::AsyncReadExt as _;

use crate::bed::{Bed, PATIENCE, eventually};
use crate::leftovers;

/// The first argument that makes this program one that starts containers and waits to be killed.
pub(crate) const CHILD: &str = "start-containers-and-wait";

const COUNTER: &str = "i=0; while :; do i=$((i+1)); echo $i; done";

pub(crate) async fn the_next_one_finds_everything() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("kept")).await.unwrap();
    let running = first.started(&sandbox.id, &bed.container("running", "sleep 1000")).await;
    let exited = first.started(&sandbox.id, &bed.container("exited", "exit 3")).await;
    let exit = first.exit(&exited).await;
    let ends = first
        .started(
            &sandbox.id,
            &bed.container("ends", "while test ! -e /tmp/x; do sleep 0.01; done; exit 4"),
        )
        .await;
    let created =
        first.containers().create(&sandbox.id, bed.container("created", "true")).await.unwrap();
    let before = first.containers().list(None);
    first.output(&ends, "echo > /tmp/x").await;
    first.forget().await;

    let second = bed.open().await;
    assert_eq!(second.sandboxes().list(), std::slice::from_ref(&sandbox));
    let after = second.containers().list(None);
    let ids = |it: &[node_api::containers::Container]| -> Vec<ContainerId> {
        it.iter().map(|it| it.id.clone()).collect()
    };
    assert_eq!(ids(&after), ids(&before));
    assert_eq!(
        second.containers().get(&running),
        before.iter().find(|it| it.id == running).cloned()
    );
    assert_eq!(second.containers().get(&exited).unwrap().state, ContainerState::Exited(exit));
    assert_eq!(second.exit(&ends).await.code, 4);
    assert_eq!(second.containers().get(&created).unwrap().state, ContainerState::Created);
    second.containers().start(&created).await.unwrap();
    assert_eq!(second.exit(&created).await.code, 0);
    assert_eq!(second.output(&running, "echo still here").await, "still here\n");
    second.containers().stop(&running, std::time::Duration::ZERO).await.unwrap();
    second.purge().await;
}

/// In the process that is killed.
pub(crate) fn child(arguments: &[OsString]) -> ExitCode {
    let [directory, cgroup_root] = arguments else { return ExitCode::FAILURE };
    let cgroup_root = cgroup_root.to_str().expect("made by us").to_owned();
    let bed = Bed::at(PathBuf::from(directory), cgroup_root);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let node = bed.open().await;
        let sandbox = node.sandboxes().create(bed.sandbox("survivor")).await.expect("create").id;
        let mut config = bed.container("main", COUNTER);
        config.log_path = bed.directory.join("main.log");
        let id = node.started(&sandbox, &config).await;
        // A command of this process: it must end with it.
        let command = ["/bin/sh", "-c", "echo up; sleep 999"].map(str::to_owned).to_vec();
        let request = ExecRequest { command, stdout: true, ..ExecRequest::default() };
        let mut streams = node.containers().exec(&id, request).await.expect("exec");
        let mut line = [0; 3];
        streams.stdout.as_mut().expect("stdout").read_exact(&mut line).await.expect("a line");
        fs::write(bed.directory.join("ready"), format!("{sandbox} {id}")).expect("write");
        std::future::pending::<()>().await;
    });
    ExitCode::SUCCESS
}

pub(crate) async fn a_killed_process_loses_nothing() {
    let bed = Bed::new();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .arg(CHILD)
        .arg(&bed.directory)
        .arg(&bed.cgroup_root)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let ready = bed.directory.join("ready");
    let is_ready = || fs::read_to_string(&ready).is_ok_and(|it| it.len() > 128);
    eventually("containers", is_ready).await;
    let text = fs::read_to_string(&ready).unwrap();
    let (sandbox, id) = text.split_once(' ').unwrap();
    let (sandbox, id) = (SandboxId::new(sandbox), ContainerId::new(id));
    let holder = leftovers::holder(&bed, &sandbox);
    process.kill().unwrap();
    process.wait().unwrap();

    let log = bed.directory.join("main.log");
    let length = |path: &PathBuf| fs::metadata(path).unwrap().len();
    let at_death = length(&log);
    eventually("output without xebec", || length(&log) > at_death).await;
    let node = bed.open().await;
    assert_eq!(leftovers::holder(&bed, &sandbox), holder);
    assert_eq!(node.sandboxes().list()[0].state, SandboxState::Ready);
    let container = node.containers().get(&id).unwrap();
    assert!(matches!(container.state, ContainerState::Running { .. }), "{container:?}");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while node.output(&id, "ps").await.contains("echo up") {
        assert!(tokio::time::Instant::now() < deadline, "a command of the dead goes on");
    }
    node.containers().stop(&id, std::time::Duration::ZERO).await.unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(&bed.directory)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.file_name().unwrap().to_str().unwrap().starts_with("main.log"))
        .collect();
    files.sort();
    files.rotate_left(1);
    let text: String =
        files.iter().map(|it| crate::bed::shown(&fs::read_to_string(it).unwrap())).collect();
    let mut numbers: Vec<u64> = text.lines().map(|it| it.parse().unwrap()).collect();
    // The last line may be cut: the container was killed while it wrote.
    numbers.pop();
    assert!(numbers.windows(2).all(|it| it[0] + 1 == it[1]), "a gap in the log");
    node.purge().await;
}

pub(crate) async fn half_made_things_are_removed() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("kept")).await.unwrap().id;
    let half = first.sandboxes().create(bed.sandbox("half")).await.unwrap().id;
    let config = bed.container("main", "sleep 1000");
    let container = first.containers().create(&sandbox, config).await.unwrap();
    first.forget().await;

    let sandboxes = bed.directory.join("containers/sandboxes");
    let path = sandboxes.join(half.as_str()).join("sandbox.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["addresses"] = serde_json::Value::Null;
    fs::write(&path, record.to_string()).unwrap();
    let directory = sandboxes.join(sandbox.as_str()).join("containers").join(container.as_str());
    fs::remove_file(directory.join("container.json")).unwrap();
    fs::create_dir(sandboxes.join("f".repeat(64))).unwrap();

    let second = bed.open().await;
    let listed: Vec<_> = second.sandboxes().list().into_iter().map(|it| it.id).collect();
    assert_eq!(listed, [sandbox]);
    assert_eq!(second.containers().list(None), []);
    assert!(!directory.exists());
    assert_eq!(fs::read_dir(&sandboxes).unwrap().count(), 1);
    assert_eq!(leftovers::processes(half.as_str()), [0; 0]);
    assert_eq!(bed.network.attached.lock().unwrap().len(), 1);
    second.purge().await;
}

pub(crate) async fn a_dead_holder_is_noticed_at_start() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("doomed")).await.unwrap().id;
    let running = first.started(&sandbox, &bed.container("running", "sleep 1000")).await;
    let exited = first.started(&sandbox, &bed.container("exited", "exit 3")).await;
    let exit = first.exit(&exited).await;
    first.forget().await;
    leftovers::kill_holder(&bed, &sandbox);
    eventually("the holder's end", || leftovers::processes(sandbox.as_str()).is_empty()).await;

    let second = bed.open().await;
    assert_eq!(second.sandboxes().list()[0].state, SandboxState::NotReady);
    assert!(bed.network.attached.lock().unwrap().is_empty());
    assert_eq!(second.containers().get(&exited).unwrap().state, ContainerState::Exited(exit));
    assert_eq!(second.exit(&running).await.code, 255);
    second.containers().stop(&running, PATIENCE).await.unwrap();
    second.purge().await;
}
