//! What a test stands on: a directory, a cgroup, an image of busybox and a network that only
//! counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use containers::{Config, Embedded, Root, Roots};
use futures_util::StreamExt as _;
use lifecycle::Tasks;
use node_api::containers::{ContainerConfig, ContainerState, Containers, Exit};
use node_api::images::ImageConfig;
use node_api::network::{Attachment, Namespace, Status};
use node_api::sandboxes::{SandboxConfig, Sandboxes};
use node_api::{ContainerId, Error, Future, ImageId, PodNetwork, PodRef, PodUid, SandboxId};
use stdx::World;
use tokio::sync::watch;

const BUSYBOX: &str = "/bin/busybox";
const TOOLS: &[&str] = &[
    "sh", "cat", "echo", "sleep", "true", "false", "ps", "stty", "kill", "nc", "seq", "hostname",
    "ls", "dd", "yes", "readlink", "id", "wc", "test", "mount", "ipcs", "printf", "head",
];
/// Only so that a test that waits for nothing ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("containers need root".to_owned());
    }
    if !Path::new(BUSYBOX).exists() {
        return Some(format!("{BUSYBOX} (Debian's busybox-static) is not there"));
    }
    None
}

static COUNT: AtomicU32 = AtomicU32::new(0);

pub(crate) fn unique() -> String {
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) struct Bed {
    pub(crate) directory: PathBuf,
    pub(crate) cgroup_root: String,
    pub(crate) network: Arc<Network>,
    _temporary: Option<tempfile::TempDir>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let cgroup_root = format!("xebec-test-{}", unique());
        let bed = Self::at(temporary.path().to_owned(), cgroup_root);
        make_image(&bed.image());
        Self { _temporary: Some(temporary), ..bed }
    }

    /// One that another process has made.
    pub(crate) fn at(directory: PathBuf, cgroup_root: String) -> Self {
        Self { directory, cgroup_root, network: Arc::default(), _temporary: None }
    }

    fn image(&self) -> PathBuf {
        self.directory.join("image")
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            cluster: "00c0ffee".parse().unwrap(),
            directory: self.directory.join("containers"),
            cgroup_root: self.cgroup_root.clone(),
            program: std::env::current_exe().unwrap(),
            log_size_max: 10 << 20,
            log_files_max: 5,
            timeouts: containers::Timeouts::default(),
        }
    }

    pub(crate) async fn open(&self) -> Opened {
        self.open_with(self.config()).await
    }

    pub(crate) async fn open_with(&self, config: Config) -> Opened {
        let tasks = Tasks::new();
        let images = Layer(self.image());
        let network = self.network.clone();
        let node = Embedded::open(config, images, network, World::system(), &tasks).await.unwrap();
        Opened { node, tasks }
    }

    pub(crate) fn sandbox(&self, name: &str) -> SandboxConfig {
        let uid = format!("{name}-{}", unique());
        SandboxConfig {
            cgroup: format!("kubepods/pod{uid}"),
            ..node_api::fake::plain_sandbox(PodRef {
                namespace: "test".to_owned(),
                name: name.to_owned(),
                uid: PodUid::new(uid.clone()),
            })
        }
    }

    /// A container that runs a shell script.
    pub(crate) fn container(&self, name: &str, script: &str) -> ContainerConfig {
        ContainerConfig {
            command: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
            log_path: self.directory.join("logs").join(unique()).join("0.log"),
            ..node_api::fake::plain_container(name, ImageId::new("sha256:busybox"))
        }
    }

    /// The text of a log, as `kubectl logs` shows it.
    pub(crate) fn log(&self, config: &ContainerConfig) -> String {
        shown(&fs::read_to_string(&config.log_path).unwrap_or_default())
    }
}

pub(crate) fn shown(log: &str) -> String {
    let mut text = String::new();
    for entry in log.lines() {
        let mut fields = entry.splitn(4, ' ').skip(2);
        let tag = fields.next().unwrap();
        text.push_str(fields.next().unwrap());
        if tag == "F" {
            text.push('\n');
        }
    }
    text
}

fn make_image(directory: &Path) {
    for name in ["bin", "etc", "tmp", "dev", "proc", "sys"] {
        fs::create_dir_all(directory.join(name)).unwrap();
    }
    fs::copy(BUSYBOX, directory.join("bin/busybox")).unwrap();
    for tool in TOOLS {
        symlink("busybox", directory.join("bin").join(tool)).unwrap();
    }
    fs::write(directory.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n").unwrap();
}

pub(crate) struct Opened {
    pub(crate) node: Embedded,
    pub(crate) tasks: Tasks,
}

impl Opened {
    pub(crate) fn sandboxes(&self) -> &dyn Sandboxes {
        &self.node
    }

    pub(crate) fn containers(&self) -> &dyn Containers {
        &self.node
    }

    pub(crate) async fn started(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
    ) -> ContainerId {
        let id = self.containers().create(sandbox, config.clone()).await.unwrap();
        self.containers().start(&id).await.unwrap();
        id
    }

    /// Waits until it has exited.
    pub(crate) async fn exit(&self, id: &ContainerId) -> Exit {
        let mut events = self.sandboxes().events();
        loop {
            let container = self.containers().get(id).expect("the container is known");
            if let ContainerState::Exited(exit) = container.state {
                return exit;
            }
            let next = tokio::time::timeout(PATIENCE, events.next()).await;
            next.expect("an event").expect("events go on");
        }
    }

    /// Runs a script to its end and returns what it wrote.
    pub(crate) async fn output(&self, id: &ContainerId, script: &str) -> String {
        let command = vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let output = self.containers().exec_output(id, command, PATIENCE, 1 << 20).await.unwrap();
        String::from_utf8(output.stdout.to_vec()).unwrap()
    }

    /// As if the process had ended without a word.
    pub(crate) async fn forget(self) {
        self.tasks.shutdown(PATIENCE).await.unwrap();
    }

    /// Removes everything, and sees that it is gone.
    pub(crate) async fn purge(self) {
        let errors = self.node.purge().await;
        assert!(errors.is_empty(), "{errors:?}");
        self.forget().await;
    }
}

/// Waits for what no event tells. Looks again after a moment, which is all that can be done.
pub(crate) async fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !look() {
        assert!(tokio::time::Instant::now() < deadline, "does not come: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

struct Layer(PathBuf);

impl Roots for Layer {
    fn hold(&self, _image: &ImageId, _owner: &ContainerId) -> Future<'_, Root> {
        let root = Root {
            config: ImageConfig { env: vec!["PATH=/bin".to_owned()], ..ImageConfig::default() },
            layers: vec![self.0.clone()],
        };
        Box::pin(std::future::ready(Ok(root)))
    }

    fn hold_too(&self, _image: &ImageId, _owner: &ContainerId) -> Future<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(Ok(vec![self.0.clone()])))
    }

    fn release(&self, _owner: &ContainerId) -> Future<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn retain(&self, _owners: BTreeSet<ContainerId>) -> Future<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Gives numbers for addresses and remembers who has one.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) attached: Mutex<BTreeMap<SandboxId, IpAddr>>,
    pub(crate) refuses: Mutex<bool>,
    pub(crate) namespaces: Mutex<BTreeMap<SandboxId, Arc<dyn Namespace>>>,
    status: watch::Sender<Status>,
}

impl PodNetwork for Network {
    fn attach(&self, attachment: Attachment) -> Future<'_, Vec<IpAddr>> {
        assert!(attachment.namespace.open().unwrap().is_some(), "{:?}", attachment.namespace);
        let namespace = attachment.namespace;
        self.namespaces.lock().unwrap().insert(attachment.sandbox.clone(), namespace);
        let outcome = if *self.refuses.lock().unwrap() {
            Err(Error::AddressesExhausted { range: "none".to_owned() })
        } else {
            let mut attached = self.attached.lock().unwrap();
            let n = u16::try_from(attached.len() + 1).unwrap();
            let address = IpAddr::V4(Ipv4Addr::from((10 << 24) + u32::from(n)));
            Ok(vec![*attached.entry(attachment.sandbox).or_insert(address)])
        };
        Box::pin(std::future::ready(outcome))
    }

    fn detach(&self, sandbox: &SandboxId) -> Future<'_, ()> {
        self.attached.lock().unwrap().remove(sandbox);
        Box::pin(std::future::ready(Ok(())))
    }

    fn keep_only(&self, sandboxes: BTreeMap<SandboxId, Arc<dyn Namespace>>) -> Future<'_, ()> {
        self.attached.lock().unwrap().retain(|it, _| sandboxes.contains_key(it));
        *self.namespaces.lock().unwrap() = sandboxes;
        Box::pin(std::future::ready(Ok(())))
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }
}
