//! Calls to the containers and images of the node, counted by the names of CRI's calls, whatever is
//! behind them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use node_api::containers::{
    Connection, Container, ContainerConfig, ContainerStats, ExecRequest, FilesystemUsage, Output,
    Resources, Streams, Usage,
};
use node_api::images::{self, Credentials, Image};
use node_api::network::Status;
use node_api::sandboxes::{self, Events, Sandbox, SandboxConfig, SandboxStats, Version};
use node_api::{ContainerId, Containers, Future, Images, SandboxId, Sandboxes};
use telemetry::{Buckets, Counter, Family, Histogram, Registry, exponential};
use tokio::sync::watch;
use tokio::time::Instant;

use super::describe;

const TOTAL: telemetry::Description<1> = describe(
    "kubelet_runtime_operations_total",
    "Cumulative number of runtime operations by operation type.",
    ["operation_type"],
);
const ERRORS: telemetry::Description<1> = describe(
    "kubelet_runtime_operations_errors_total",
    "Cumulative number of runtime operation errors by operation type.",
    ["operation_type"],
);
const DURATION: telemetry::Description<1> = describe(
    "kubelet_runtime_operations_duration_seconds",
    "Duration in seconds of runtime operations. Broken down by operation type.",
    ["operation_type"],
);
const BOUNDS: [f64; 14] = exponential(0.005, 2.5);

/// Something of the node, with its calls counted. Reads from memory are not.
pub(crate) struct Measured<T: ?Sized> {
    inner: Arc<T>,
    operations: Operations,
}

#[derive(Clone)]
struct Operations {
    total: Family<Counter, 1>,
    errors: Family<Counter, 1>,
    duration: Family<Histogram, 1>,
}

impl<T: ?Sized> Measured<T> {
    pub(crate) fn new(inner: Arc<T>, registry: &Registry) -> Self {
        let operations = Operations {
            total: registry.counters(&TOTAL),
            errors: registry.counters(&ERRORS),
            duration: registry.histograms(&DURATION, Buckets::seconds(&BOUNDS)),
        };
        Self { inner, operations }
    }

    fn call<'a, V: 'a>(&self, operation: &'static str, call: Future<'a, V>) -> Future<'a, V> {
        let operations = self.operations.clone();
        Box::pin(async move {
            let start = Instant::now();
            operations.total.with([operation]).increment();
            let answer = call.await;
            operations.duration.with([operation]).observe(start.elapsed());
            if answer.is_err() {
                operations.errors.with([operation]).increment();
            }
            answer
        })
    }
}

impl Sandboxes for Measured<dyn Sandboxes> {
    fn version(&self) -> Version {
        self.inner.version()
    }

    fn status(&self) -> watch::Receiver<sandboxes::Status> {
        self.inner.status()
    }

    fn stats(&self, id: &SandboxId) -> Future<'_, SandboxStats> {
        self.call("podsandbox_stats", self.inner.stats(id))
    }

    fn network(&self) -> watch::Receiver<Status> {
        self.inner.network()
    }

    fn create(&self, config: SandboxConfig) -> Future<'_, Sandbox> {
        self.call("run_podsandbox", self.inner.create(config))
    }

    fn stop(&self, id: &SandboxId) -> Future<'_, ()> {
        self.call("stop_podsandbox", self.inner.stop(id))
    }

    fn remove(&self, id: &SandboxId) -> Future<'_, ()> {
        self.call("remove_podsandbox", self.inner.remove(id))
    }

    fn list(&self) -> Vec<Sandbox> {
        self.inner.list()
    }

    fn events(&self) -> Events {
        self.inner.events()
    }
}

impl Containers for Measured<dyn Containers> {
    fn create(&self, sandbox: &SandboxId, config: ContainerConfig) -> Future<'_, ContainerId> {
        self.call("create_container", self.inner.create(sandbox, config))
    }

    fn start(&self, id: &ContainerId) -> Future<'_, ()> {
        self.call("start_container", self.inner.start(id))
    }

    fn stop(&self, id: &ContainerId, grace: Duration) -> Future<'_, ()> {
        self.call("stop_container", self.inner.stop(id, grace))
    }

    fn remove(&self, id: &ContainerId) -> Future<'_, ()> {
        self.call("remove_container", self.inner.remove(id))
    }

    fn list(&self, sandbox: Option<&SandboxId>) -> Vec<Container> {
        self.inner.list(sandbox)
    }

    fn get(&self, id: &ContainerId) -> Option<Container> {
        self.inner.get(id)
    }

    fn update_resources(&self, id: &ContainerId, resources: Resources) -> Future<'_, ()> {
        self.call("update_container", self.inner.update_resources(id, resources))
    }

    fn resources(&self, id: &ContainerId) -> Future<'_, Resources> {
        self.call("container_status", self.inner.resources(id))
    }

    fn exec(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        self.call("exec", self.inner.exec(id, request))
    }

    fn exec_output(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
        limit: usize,
    ) -> Future<'_, Output> {
        self.call("exec_sync", self.inner.exec_output(id, command, timeout, limit))
    }

    fn attach(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        self.call("attach", self.inner.attach(id, request))
    }

    fn connect(&self, sandbox: &SandboxId, port: u16) -> Future<'_, Box<dyn Connection>> {
        self.call("port_forward", self.inner.connect(sandbox, port))
    }

    fn usage(&self, id: &ContainerId) -> Future<'_, Usage> {
        self.call("container_stats", self.inner.usage(id))
    }

    fn stats(&self, id: &ContainerId) -> Future<'_, ContainerStats> {
        self.call("container_stats", self.inner.stats(id))
    }

    fn reopen_log(&self, id: &ContainerId) -> Future<'_, ()> {
        self.call("reopen_container_log", self.inner.reopen_log(id))
    }

    fn checkpoint(&self, id: &ContainerId, location: &Path) -> Future<'_, ()> {
        self.call("checkpoint_container", self.inner.checkpoint(id, location))
    }
}

impl Images for Measured<dyn Images> {
    fn find(&self, reference: &str) -> Result<Option<Image>, images::Error> {
        self.inner.find(reference)
    }

    fn pull(&self, reference: &str, credentials: Vec<Credentials>) -> Future<'_, Image> {
        self.call("pull_image", self.inner.pull(reference, credentials))
    }

    fn list(&self) -> Vec<Image> {
        self.inner.list()
    }

    fn remove(&self, reference: &str) -> Future<'_, ()> {
        self.call("remove_image", self.inner.remove(reference))
    }

    fn filesystem(&self) -> Future<'_, FilesystemUsage> {
        self.call("image_fs_info", self.inner.filesystem())
    }
}
