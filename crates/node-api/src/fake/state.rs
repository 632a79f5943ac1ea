//! Everything the node knows, and how containers come to their ends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stdx::Cidr;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::calls::Calls;
use super::images::Registry;
use super::programs::{End, Exec, Program, SIGKILL};
use super::volumes::Remembered;
use crate::containers::{Container, ContainerState, Exit, Resources, Usage};
use crate::network::HostPort;
use crate::sandboxes::{Sandbox, SandboxState};
use crate::volumes::Needs;
use crate::{ContainerId, Event, PodRef, PodUid, SandboxId};

pub(super) type Respond = Arc<dyn Fn(&[String]) -> Exec + Send + Sync>;

#[derive(Default)]
pub(super) struct State {
    pub(super) calls: Calls,
    pub(super) programs: BTreeMap<String, Vec<Program>>,
    pub(super) execs: BTreeMap<String, Respond>,
    pub(super) listeners: BTreeMap<u16, mpsc::Sender<DuplexStream>>,
    /// In the order of their creation, as are the containers.
    pub(super) sandboxes: Vec<Sandbox>,
    pub(super) containers: Vec<Entry>,
    pub(super) usages: BTreeMap<ContainerId, Usage>,
    pub(super) registry: Registry,
    pub(super) volumes: BTreeMap<PodUid, BTreeMap<String, Remembered>>,
    /// In volumes, by their paths.
    pub(super) files: BTreeMap<std::path::PathBuf, bytes::Bytes>,
    pub(super) volume_needs: Needs,
    pub(super) cgroups: BTreeMap<String, Resources>,
    pub(super) attachments: BTreeMap<SandboxId, Attached>,
    pub(super) pod_cidrs: Vec<Cidr>,
    /// Not told yet.
    pub(super) events: Vec<Event>,
    /// How often containers of this name were started, in any pod.
    pub(super) starts: BTreeMap<String, usize>,
}

pub(super) struct Entry {
    pub(super) container: Container,
    pub(super) program: Program,
    /// Set while it runs and its end is known.
    pub(super) end: Option<(Instant, End)>,
}

pub(super) struct Attached {
    pub(super) pod: PodRef,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) host_ports: Vec<HostPort>,
}

impl State {
    pub(super) fn sandbox(&self, id: &SandboxId) -> Option<&Sandbox> {
        self.sandboxes.iter().find(|it| it.id == *id)
    }

    pub(super) fn entry(&self, id: &ContainerId) -> Option<&Entry> {
        self.containers.iter().find(|it| it.container.id == *id)
    }

    pub(super) fn entry_mut(&mut self, id: &ContainerId) -> Option<&mut Entry> {
        self.containers.iter_mut().find(|it| it.container.id == *id)
    }

    /// `default/web app`, for the record of calls.
    pub(super) fn label(&self, id: &ContainerId) -> String {
        let Some(entry) = self.entry(id) else { return "?".to_owned() };
        format!("{} {}", self.sandbox_label(&entry.container.sandbox), entry.container.config.name)
    }

    pub(super) fn sandbox_label(&self, id: &SandboxId) -> String {
        self.sandbox(id).map_or_else(|| "?".to_owned(), |it| it.config.pod.to_string())
    }

    pub(super) fn is_running(&self, id: &ContainerId) -> bool {
        self.entry(id).is_some_and(Entry::is_running)
    }

    /// What the next start of a container with this name does.
    pub(super) fn next_program(&mut self, name: &str) -> Program {
        let n_starts = self.starts.entry(name.to_owned()).or_default();
        let run = *n_starts;
        *n_starts += 1;
        let script = self.programs.get(name).map_or(&[][..], Vec::as_slice);
        script.get(run).or_else(|| script.last()).cloned().unwrap_or_else(Program::forever)
    }

    /// When the next container ends, as far as is known.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.containers.iter().filter_map(|it| Some(it.end?.0)).min()
    }

    /// Ends what should have ended by now, each at its own time.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let instant = Instant::now();
        while let Some((at, end, id)) = self.earliest_end().filter(|(at, ..)| *at <= instant) {
            let late = SignedDuration::try_from(instant - at).unwrap_or_default();
            self.finish(&id, end, now.checked_sub(late).unwrap_or(now));
        }
    }

    fn earliest_end(&self) -> Option<(Instant, End, ContainerId)> {
        let ends = self.containers.iter().filter_map(|it| {
            let (at, end) = it.end?;
            Some((at, end, it.container.id.clone()))
        });
        ends.min_by_key(|(at, ..)| *at)
    }

    pub(super) fn end(&mut self, id: &ContainerId, code: i32, signal: Option<i32>, now: Timestamp) {
        self.finish(id, End { code, signal, oom_killed: false }, now);
    }

    pub(super) fn kill(&mut self, id: &ContainerId, now: Timestamp) {
        self.finish(id, End::signal(SIGKILL), now);
    }

    fn finish(&mut self, id: &ContainerId, end: End, finished: Timestamp) {
        let Some(entry) = self.entry_mut(id) else { return };
        entry.end = None;
        let ContainerState::Running { started } = entry.container.state else { return };
        entry.container.state = ContainerState::Exited(Exit {
            code: end.code,
            signal: end.signal,
            oom_killed: end.oom_killed,
            started: Some(started),
            finished,
            message: None,
        });
        self.tell(id);
        // The first process of a PID namespace takes the others with it.
        let is_inside = |it: &&Entry| it.container.config.target.as_ref() == Some(id);
        let inside = self.containers.iter().filter(is_inside);
        for other in inside.map(|it| it.container.id.clone()).collect::<Vec<_>>() {
            self.kill(&other, finished);
        }
    }

    /// Queues the event that a container changed.
    pub(super) fn tell(&mut self, id: &ContainerId) {
        let Some(entry) = self.entry(id) else { return };
        let sandbox = entry.container.sandbox.clone();
        let Some(pod) = self.sandbox(&sandbox).map(|it| it.config.pod.clone()) else { return };
        self.events.push(Event::Container { pod, sandbox, container: id.clone() });
    }

    pub(super) fn containers_of(&self, sandbox: &SandboxId) -> Vec<ContainerId> {
        let of_sandbox = self.containers.iter().filter(|it| it.container.sandbox == *sandbox);
        of_sandbox.map(|it| it.container.id.clone()).collect()
    }

    /// Kills everything in it; it is not ready any more.
    pub(super) fn end_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        for container in self.containers_of(id) {
            self.kill(&container, now);
        }
        self.attachments.remove(id);
        let Some(sandbox) = self.sandboxes.iter_mut().find(|it| it.id == *id) else { return };
        if sandbox.state == SandboxState::Ready {
            sandbox.state = SandboxState::NotReady;
            let pod = sandbox.config.pod.clone();
            self.events.push(Event::Sandbox { pod, sandbox: id.clone() });
        }
    }

    pub(super) fn images_in_use(&self) -> BTreeSet<crate::ImageId> {
        self.containers.iter().flat_map(|it| it.container.config.images()).cloned().collect()
    }
}

impl Entry {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.container.state, ContainerState::Running { .. })
    }
}
