//! What a step looks at: read from memory, but for a few kilobytes of a container's last words.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use node_api::ContainerId;
use node_api::containers::{Container as Run, ContainerState};
use node_api::sandboxes::SandboxState;

use super::Task;
use crate::pod_worker::messages;
use crate::pod_worker::view::{ImageName, Role, Stop, View, exit, is_running, wanted};
use crate::probes::{Health, Target};

impl Task {
    pub(super) fn observe(&mut self) -> View {
        let containers = self.context.parts.containers.clone();
        let runs: Vec<Run> =
            self.sandboxes.iter().flat_map(|it| containers.list(Some(&it.id))).collect();
        self.probe(&runs);
        self.read_messages(&runs);
        let desired = self.desired.borrow().clone();
        View {
            allocation: self.allocation.clone(),
            granted: desired.allocation,
            pending: desired.pending,
            generation: desired.pod.metadata.generation,
            now: self.now(),
            stop: self.stop(),
            host_ips: self.context.host_ips(),
            sandboxes: self.sandboxes.clone(),
            images: self.images(&runs),
            health: self.health.iter().map(|(id, it)| (id.clone(), it.0)).collect(),
            messages: self.messages.clone(),
            memory: std::mem::take(&mut self.memory),
            is_static: desired.is_static,
            runtime: self.context.parts.sandboxes.version().name,
            can_recursive_read_only: self.can_recursive_read_only(),
            pod: self.pod.clone(),
            runs,
        }
    }

    /// By the handler of the sandbox, or of the class where there is no sandbox yet.
    fn can_recursive_read_only(&self) -> bool {
        let made = self.sandboxes.last().filter(|it| it.state == SandboxState::Ready);
        let handler = match made {
            Some(sandbox) => Ok(sandbox.config.runtime_handler.clone()),
            None => self.context.runtime_classes.known_handler(&self.pod),
        };
        handler.is_ok_and(|it| self.context.handler(&it).recursive_read_only_mounts)
    }

    fn stop(&self) -> Option<Stop> {
        let is_removed = self.desired.borrow().is_removed;
        let meta = &self.pod.metadata;
        if !is_removed && meta.deletion_timestamp.is_none() {
            return None;
        }
        let of_spec = self.pod.spec.as_ref().and_then(|it| it.termination_grace_period_seconds);
        let seconds = meta.deletion_grace_period_seconds.or(of_spec).unwrap_or(30);
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).max(1));
        Some(Stop { grace, is_removed })
    }

    /// Probes begin with a run and end with it.
    fn probe(&mut self, runs: &[Run]) {
        let running: BTreeSet<&ContainerId> =
            runs.iter().filter(|it| is_running(it)).map(|it| &it.id).collect();
        self.health.retain(|id, (_, abort)| {
            let is_kept = running.contains(id);
            if !is_kept {
                abort.abort();
            }
            is_kept
        });
        let spec = self.pod.spec.clone().unwrap_or_default();
        let wanted = wanted(&spec);
        for run in runs.iter().filter(|it| is_running(it)) {
            if self.health.contains_key(&run.id) || self.memory.is_starting_run(run) {
                continue;
            }
            let Some(wanted) = wanted.iter().find(|it| it.name() == run.config.name) else {
                continue;
            };
            if matches!(wanted.role, Role::Init | Role::Ephemeral) {
                continue;
            }
            let ContainerState::Running { started } = run.state else { continue };
            let sandbox = self.sandboxes.iter().find(|it| it.id == run.sandbox);
            let is_host = spec.host_network == Some(true);
            let address = match sandbox.and_then(|it| it.addresses.first()) {
                _ if is_host => self.context.config.node_addresses.first().copied(),
                address => address.copied(),
            };
            let health = self.context.probes.add(Target {
                pod: self.pod.clone(),
                container: wanted.container.clone(),
                id: run.id.clone(),
                address,
                started,
                was: self.was(&run.id),
            });
            self.follow_probes(run.id.clone(), health);
        }
    }

    /// What the API last showed of this very run: so it was before this kubelet started.
    fn was(&self, id: &ContainerId) -> Option<Health> {
        let id = format!("{}://{id}", self.context.parts.sandboxes.version().name);
        let status = self.pod.status.as_ref()?;
        let lists = [&status.init_container_statuses, &status.container_statuses];
        let mut statuses = lists.into_iter().flatten().flatten();
        let found = statuses.find(|it| it.container_id.as_ref() == Some(&id))?;
        let is_started = found.started == Some(true);
        Some(Health { is_started, is_ready: found.ready, failed: None })
    }

    fn read_messages(&mut self, runs: &[Run]) {
        let directory = self.context.pod_directory(&self.uid);
        let wanted = self.pod.spec.as_ref().map(wanted).unwrap_or_default();
        for run in runs {
            let Some(exit) = exit(run).filter(|_| !self.messages.contains_key(&run.id)) else {
                continue;
            };
            let name = &run.config.name;
            let found = wanted.iter().find(|it| it.name() == name.as_str());
            let Some(wanted) = found else { continue };
            let file = messages::path(&directory, name, run.config.attempt);
            let text = messages::read(&wanted.container, exit, &file, &run.config.log_path);
            self.messages.insert(run.id.clone(), text);
        }
        self.messages.retain(|id, _| runs.iter().any(|it| it.id == *id));
    }

    fn images(&self, runs: &[Run]) -> BTreeMap<node_api::ImageId, ImageName> {
        let mut images = BTreeMap::new();
        for run in runs {
            let id = &run.config.image;
            if images.contains_key(id) {
                continue;
            }
            if let Ok(Some(image)) = self.context.parts.images.find(id.as_str()) {
                let shown = image.digests.first().cloned().unwrap_or_else(|| id.to_string());
                images.insert(id.clone(), ImageName { tags: image.tags, id: shown });
            }
        }
        images
    }
}
