//! Views of pods for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use node_api::containers::{Container as Run, ContainerConfig, ContainerState, Exit};
use node_api::sandboxes::{Sandbox, SandboxConfig, SandboxState};
use node_api::{ContainerId, ImageId, PodRef, PodUid, SandboxId};

use super::memory::Memory;
use super::view::{ANNOTATION_IMAGE, View};
use crate::allocation::Allocation;
use crate::probes::Health;

/// Nothing is on the node yet.
pub(crate) fn empty(pod: Arc<Pod>) -> View {
    let allocation = Arc::new(Allocation::of(&pod));
    View {
        generation: pod.metadata.generation,
        pod,
        granted: allocation.clone(),
        allocation,
        pending: None,
        now: Timestamp::UNIX_EPOCH,
        stop: None,
        host_ips: vec!["192.0.2.1".parse().unwrap()],
        sandboxes: Vec::new(),
        runs: Vec::new(),
        health: BTreeMap::new(),
        images: BTreeMap::new(),
        messages: BTreeMap::new(),
        memory: Memory::default(),
        is_static: false,
        runtime: "xebec".to_owned(),
        can_recursive_read_only: true,
    }
}

/// In a sandbox, without containers.
pub(crate) fn view(pod: Arc<Pod>) -> View {
    let mut view = empty(pod);
    view.sandboxes.push(sandbox("s", 0));
    view
}

pub(crate) fn sandbox(id: &str, attempt: u32) -> Sandbox {
    let pod = PodRef { namespace: "default".into(), name: "web".into(), uid: PodUid::new("u") };
    let config =
        SandboxConfig { attempt, hostname: String::new(), ..node_api::fake::plain_sandbox(pod) };
    Sandbox {
        id: SandboxId::new(id),
        config,
        created: Timestamp::UNIX_EPOCH,
        state: SandboxState::Ready,
        addresses: vec!["10.0.0.2".parse().unwrap()],
    }
}

pub(crate) fn run(id: &str, sandbox: &SandboxId, name: &str, attempt: u32, now: Timestamp) -> Run {
    let config = ContainerConfig {
        attempt,
        log_path: "/log".into(),
        annotations: [(ANNOTATION_IMAGE.to_owned(), "i".to_owned())].into(),
        ..node_api::fake::plain_container(name, ImageId::new("sha256:1"))
    };
    Run {
        id: ContainerId::new(id),
        sandbox: sandbox.clone(),
        config,
        created: now,
        state: ContainerState::Running { started: now },
    }
}

pub(crate) fn exited(code: i32, now: Timestamp) -> ContainerState {
    let (signal, message, started) = (None, None, Some(now));
    ContainerState::Exited(Exit {
        code,
        signal,
        oom_killed: false,
        started,
        finished: now,
        message,
    })
}

/// `a running`, `a unready`, `a unstarted`, `a created` or `a exit 1`.
pub(crate) fn add_run(view: &mut View, text: &str) {
    let mut words = text.split(' ');
    let (name, state) = (words.next().unwrap(), words.next().unwrap());
    let id = format!("{name}-{}", view.runs.len());
    let sandbox = view.sandboxes.last().unwrap().id.clone();
    let mut run = run(&id, &sandbox, name, 0, view.now);
    let health = |is_started, is_ready| Health { is_started, is_ready, failed: None };
    match state {
        "running" => drop(view.health.insert(run.id.clone(), health(true, true))),
        "unready" => drop(view.health.insert(run.id.clone(), health(true, false))),
        "unstarted" => drop(view.health.insert(run.id.clone(), health(false, false))),
        "created" => run.state = ContainerState::Created,
        "exit" => run.state = exited(words.next().unwrap().parse().unwrap(), view.now),
        other => panic!("{other}"),
    }
    view.runs.push(run);
}
