//! Holders that live and do not answer: stopped as a debugger or an administrator stops them.
//! Silence is not death.

use std::fs;
use std::time::Duration;

use containers::{Config, Timeouts};
use futures_util::StreamExt as _;
use node_api::containers::{ContainerState, ExecRequest, Mount};
use node_api::sandboxes::SandboxState;
use node_api::{Error, Event, Events, SandboxId};
use rustix::process::{Pid, Signal};

use crate::bed::{Bed, Opened, PATIENCE, eventually, unique};
use crate::leftovers;

/// So that silence is noticed at once.
fn impatient(bed: &Bed) -> Config {
    let moment = Duration::from_millis(50);
    // A holder that goes on has to answer within it, also on a busy machine.
    let answer = Duration::from_secs(1);
    Config { timeouts: Timeouts { adopt: moment, answer, end: moment }, ..bed.config() }
}

/// Stops the holder; goes on when dropped, so that a test that fails leaves nothing behind.
struct Stopped(Pid);

impl Stopped {
    fn holder(bed: &Bed, sandbox: &SandboxId) -> Self {
        let pid = Pid::from_raw(leftovers::holder(bed, sandbox)).unwrap();
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, Signal::CONT);
    }
}

async fn wait_for(events: &mut Events, is_it: impl Fn(&Event) -> bool) {
    loop {
        let next = tokio::time::timeout(PATIENCE, events.next()).await;
        if is_it(&next.expect("an event").expect("events go on")) {
            return;
        }
    }
}

fn is_silent(event: &Event, sandbox: &SandboxId) -> bool {
    matches!(event, Event::Silent { sandbox: it, .. } if it == sandbox)
}

fn state(node: &Opened, id: &node_api::ContainerId) -> ContainerState {
    node.containers().get(id).expect("it is known").state
}

pub(crate) async fn a_stopped_holder_is_no_dead_holder() {
    let bed = Bed::new();
    let first = bed.open().await;
    let config = bed.sandbox("stopped");
    let sandbox = first.sandboxes().create(config.clone()).await.unwrap().id;
    let running = first.started(&sandbox, &bed.container("running", "sleep 1000")).await;
    let signal = bed.directory.join("signal");
    fs::create_dir(&signal).unwrap();
    let place = format!("/signal-{}", unique());
    let waits = format!("while test ! -e {place}/x; do sleep 0.01; done; exit 4");
    let mut config_of_ends = bed.container("ends", &waits);
    config_of_ends.mounts.push(Mount {
        host_path: signal.clone(),
        container_path: place.clone(),
        read_only: true,
        ..Mount::default()
    });
    let ends = first.started(&sandbox, &config_of_ends).await;
    let exited = first.started(&sandbox, &bed.container("exited", "exit 3")).await;
    first.exit(&exited).await;
    let created =
        first.containers().create(&sandbox, bed.container("created", "true")).await.unwrap();
    let before = first.containers().list(None);
    first.forget().await;

    let stopped = Stopped::holder(&bed, &sandbox);
    let second = bed.open_with(impatient(&bed)).await;
    let mut events = second.sandboxes().events();
    wait_for(&mut events, |it| is_silent(it, &sandbox)).await;
    assert_eq!(second.sandboxes().list()[0].state, SandboxState::Ready);
    assert_eq!(second.containers().list(None), before, "as they were last known");
    assert!(bed.network.attached.lock().unwrap().contains_key(&sandbox));
    check_calls_are_refused(&second, &sandbox, &running).await;
    let refused = second.containers().start(&created).await.unwrap_err();
    assert!(matches!(refused, Error::NotResponding(_)), "{refused:?}");
    // Nor is it removed by the back door.
    let refused = node_api::Cgroups::remove(&second.node.cgroups(), &config.cgroup).await;
    assert!(refused.unwrap_err().to_string().contains("left alone"));

    fs::write(signal.join("x"), "").unwrap();
    eventually("the container's end", || leftovers::processes(&place).is_empty()).await;
    assert!(matches!(state(&second, &ends), ContainerState::Running { .. }), "nobody knows yet");
    drop(stopped);
    assert_eq!(second.exit(&ends).await.code, 4);
    assert_eq!(state(&second, &running), before.iter().find(|it| it.id == running).unwrap().state);
    assert_eq!(second.output(&running, "echo still here").await, "still here\n");
    second.containers().start(&created).await.unwrap();
    assert_eq!(second.exit(&created).await.code, 0);
    second.purge().await;
}

async fn check_calls_are_refused(
    node: &Opened,
    sandbox: &SandboxId,
    running: &node_api::ContainerId,
) {
    let command = vec!["/bin/true".to_owned()];
    let containers = node.containers();
    let request = ExecRequest { command: command.clone(), stdout: true, ..ExecRequest::default() };
    let refused = [
        containers.exec_output(running, command, PATIENCE, 10).await.map(drop),
        containers.exec(running, request).await.map(drop),
        containers.attach(running, ExecRequest::default()).await.map(drop),
        containers.connect(sandbox, 80).await.map(drop),
        containers.stop(running, Duration::ZERO).await,
        containers.remove(running).await,
        node.sandboxes().stop(sandbox).await,
        node.sandboxes().remove(sandbox).await,
    ];
    for (n, refused) in refused.into_iter().enumerate() {
        assert!(
            matches!(&refused, Err(Error::NotResponding(it)) if it == sandbox),
            "{n}: {refused:?}"
        );
    }
}

pub(crate) async fn a_holder_that_stops_while_we_run_is_named_and_waited_for() {
    let bed = Bed::new();
    let node = bed.open_with(impatient(&bed)).await;
    let mut events = node.sandboxes().events();
    let sandbox = node.sandboxes().create(bed.sandbox("stopped")).await.unwrap().id;
    let id = node.started(&sandbox, &bed.container("main", "sleep 1000")).await;
    let stopped = Stopped::holder(&bed, &sandbox);
    let refused = node.containers().stop(&id, Duration::ZERO).await.unwrap_err();
    assert!(matches!(refused, Error::NotResponding(_)), "{refused:?}");
    wait_for(&mut events, |it| is_silent(it, &sandbox)).await;
    check_calls_are_refused(&node, &sandbox, &id).await;
    assert!(matches!(state(&node, &id), ContainerState::Running { .. }));
    assert_eq!(node.sandboxes().list()[0].state, SandboxState::Ready);
    drop(stopped);
    // It was asked to kill the container, and does so now.
    assert_eq!(node.exit(&id).await.code, 137);
    node.sandboxes().remove(&sandbox).await.unwrap();
    node.purge().await;
}

/// What is to go goes, whether it answers or not.
pub(crate) async fn a_stopped_holder_is_purged() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("stopped")).await.unwrap().id;
    first.started(&sandbox, &bed.container("main", "sleep 1000")).await;
    first.forget().await;
    let _stopped = Stopped::holder(&bed, &sandbox);
    let second = bed.open_with(impatient(&bed)).await;
    second.purge().await;
    assert_eq!(leftovers::processes(sandbox.as_str()), [0; 0]);
    assert_eq!(leftovers::cgroups(&bed.cgroup_root), [""; 0]);
}

/// It has no record of its process, as those of the first format have none.
pub(crate) async fn a_holder_without_a_record_is_found_by_its_arguments() {
    let bed = Bed::new();
    let first = bed.open().await;
    let sandbox = first.sandboxes().create(bed.sandbox("old")).await.unwrap().id;
    let id = first.started(&sandbox, &bed.container("main", "sleep 1000")).await;
    first.forget().await;
    let directory = bed.directory.join("containers/sandboxes").join(sandbox.as_str());
    let record = directory.join("holder.json");
    fs::remove_file(&record).unwrap();
    fs::remove_file(directory.join("containers").join(id.as_str()).join("started.json")).unwrap();

    let stopped = Stopped::holder(&bed, &sandbox);
    let second = bed.open_with(impatient(&bed)).await;
    assert_eq!(second.sandboxes().list()[0].state, SandboxState::Ready);
    assert!(matches!(state(&second, &id), ContainerState::Running { .. }), "by its cgroup");
    drop(stopped);
    eventually("the holder's answer", || record.exists()).await;
    second.forget().await;

    fs::remove_file(&record).unwrap();
    leftovers::kill_holder(&bed, &sandbox);
    eventually("the holder's end", || leftovers::processes(sandbox.as_str()).is_empty()).await;
    let third = bed.open().await;
    assert_eq!(third.sandboxes().list()[0].state, SandboxState::NotReady);
    assert_eq!(third.exit(&id).await.code, 255);
    third.purge().await;
}
