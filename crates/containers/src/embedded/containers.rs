//! Making, starting, stopping and removing containers.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use linux::process::Signal;
use node_api::containers::{ContainerConfig, ContainerState, Exit, Resources, Usage, wrong_target};
use node_api::sandboxes::{PidNamespace, Sandbox, SandboxState};
use node_api::{Cgroups as _, ContainerId, Error, SandboxId};

use super::book::Known;
use super::follow::told;
use super::link::{self, Link};
use super::recorded::Recorded;
use super::roots::Root;
use super::sandboxes::remove_directory;
use super::unreadable::{Kept, Unreadable};
use super::{Inner, pod_files, seccomp_profile};
use crate::files;
use crate::protocol::{Refusal, Reply, Request, VERSION_OF_HANDOVER, VERSION_OF_TARGETS};
use crate::records::{self, ContainerRecord};
use crate::setup::Task;
use crate::spec::{self, Spec};

/// How long SIGKILL may take: a process that waits for a dead disk does not die. As containerd has
/// it.
const TIMEOUT_KILL: Duration = Duration::from_secs(120);
/// As runc reports a program that could not be executed.
const CODE_COULD_NOT_START: i32 = 128;

/// Where a container is on the host.
struct Place<'a> {
    directory: &'a Path,
    cgroup: &'a str,
}

/// What was looked up for a container.
struct Found {
    devices: Vec<spec::Allowed>,
    image_mounts: Vec<Vec<PathBuf>>,
    seccomp_profile: Option<String>,
}

impl Inner {
    pub(super) async fn create_container(
        &self,
        sandbox_id: &SandboxId,
        config: ContainerConfig,
    ) -> Result<ContainerId, Error> {
        let Some((sandbox, _)) = self.book.sandbox(sandbox_id) else {
            return Err(Error::NoSandbox(sandbox_id.clone()));
        };
        if sandbox.state != SandboxState::Ready {
            return Err(Error::Refused(format!("sandbox {sandbox_id} is not ready")));
        }
        self.refuse_beside_unreadable(sandbox_id)?;
        let existing = self.book.containers(Some(sandbox_id));
        if let Some(it) = existing
            .into_iter()
            .find(|it| it.config.name == config.name && it.config.attempt == config.attempt)
        {
            // The same again is the same container; anything else is a mistake.
            let is_same = it.config == config && it.state == ContainerState::Created;
            return if is_same { Ok(it.id) } else { Err(made_before(&config)) };
        }
        if let Some(target) = &config.target {
            let version = self.link(sandbox_id)?.map_or(0, |it| it.version);
            self.validate_target(&sandbox, target, version)?;
        }
        let id = ContainerId::new(self.new_id());
        match self.make_container(&sandbox, &id, config).await {
            Ok(record) => {
                let state = ContainerState::Created;
                self.book.add_container(id.clone(), sandbox_id.clone(), record, state);
                Ok(id)
            }
            Err(err) => {
                self.unmake_container(sandbox_id, &id).await;
                Err(err)
            }
        }
    }

    /// It may be the same container that runs there: nobody can tell.
    fn refuse_beside_unreadable(&self, sandbox: &SandboxId) -> Result<(), Error> {
        let unreadable = self.book.unreadable();
        match unreadable.into_iter().find(|it| it.is_container_of(sandbox)) {
            None => Ok(()),
            Some(Kept { report: Unreadable { container, why, .. }, .. }) => {
                let container = container.map(|it| it.to_string()).unwrap_or_default();
                Err(Error::Refused(format!(
                    "container {container} of this pod runs and cannot be read: {why}"
                )))
            }
        }
    }

    /// Looked at again by the holder when the container starts.
    fn validate_target(
        &self,
        sandbox: &Sandbox,
        target: &ContainerId,
        holders_version: u32,
    ) -> Result<(), Error> {
        if sandbox.config.pid != PidNamespace::Container {
            let why = "the pod's containers have no PID namespaces of their own";
            return Err(Error::Refused(format!("invalid target container: {why}")));
        }
        let found = self.book.container(target);
        if let Some(why) = wrong_target(target, found.as_ref(), &sandbox.id) {
            return Err(Error::Refused(why));
        }
        if holders_version < VERSION_OF_TARGETS {
            let why = "the pod was started by an earlier version of xebec, which cannot do it; start the pod anew";
            return Err(Error::Refused(format!("invalid target container: {why}")));
        }
        Ok(())
    }

    async fn make_container(
        &self,
        sandbox: &Sandbox,
        id: &ContainerId,
        config: ContainerConfig,
    ) -> Result<Recorded, Error> {
        let root = self.roots.hold(&config.image, id).await?;
        let directory = self.container_directory(&sandbox.id, id);
        let cgroup = cgroup_name(sandbox, id);
        let profile = seccomp_profile::read(&config.security.seccomp).await?;
        let found = Found {
            devices: spec::find_devices(&config.devices)?,
            image_mounts: self.hold_mounted(&config, id).await?,
            seccomp_profile: profile,
        };
        let place = Place { directory: &directory, cgroup: &cgroup };
        let spec = self.render(sandbox, &config, &root, &place, &found)?;
        let record = Recorded {
            stop_signal: stop_signal(&config, &root)?,
            config,
            created: self.world.clock.now(),
            cgroup,
            layers: root.layers,
        };
        let (cgroups, written) = (self.cgroups.clone(), ContainerRecord::from(record.clone()));
        tokio::task::spawn_blocking(move || {
            write_container(&directory, &spec)
                .map_err(|err| Error::node(format!("making {}", directory.display()), err))?;
            cgroups.create_container(&spec)?;
            // The last step: from here on the container exists.
            records::write(&directory, &written)
                .map_err(|err| Error::node("recording a container", err))
        })
        .await
        .unwrap_or_else(|err| Err(Error::node("making a container", err)))?;
        Ok(record)
    }

    fn render(
        &self,
        sandbox: &Sandbox,
        config: &ContainerConfig,
        root: &Root,
        place: &Place<'_>,
        found: &Found,
    ) -> Result<Spec, Error> {
        spec::render(spec::Inputs {
            machine: &self.machine,
            container: config,
            image: &root.config,
            sandbox: &sandbox.config,
            root: &place.directory.join("root").to_string_lossy(),
            cgroup: &self.cgroups.path(place.cgroup),
            pod_mounts: &pod_files::mounts(&self.sandbox_directory(&sandbox.id), &sandbox.config),
            seccomp_profile: found.seccomp_profile.as_deref(),
            devices: &found.devices,
            image_mounts: &found.image_mounts,
        })
    }

    /// The layers of each image that is mounted, in the order of the mounts.
    async fn hold_mounted(
        &self,
        config: &ContainerConfig,
        id: &ContainerId,
    ) -> Result<Vec<Vec<PathBuf>>, Error> {
        let mut layers = Vec::new();
        for image in config.mounts.iter().filter_map(|it| it.image.as_ref()) {
            layers.push(self.roots.hold_too(&image.image, id).await?);
        }
        Ok(layers)
    }

    /// Also for what is half made or gone.
    pub(super) async fn unmake_container(&self, sandbox: &SandboxId, id: &ContainerId) {
        if let Some((known, _)) = self.book.sandbox(sandbox)
            && let Err(err) = self.cgroups.remove(&cgroup_name(&known, id)).await
        {
            tracing::warn!(container = %id, error = stdx::error_chain(&err), "undoing a container: removing its cgroup");
        }
        if let Err(err) = self.roots.release(id).await {
            tracing::warn!(container = %id, error = stdx::error_chain(&err), "undoing a container: releasing its image");
        }
        if let Err(err) = remove_directory(&self.container_directory(sandbox, id)) {
            tracing::warn!(container = %id, error = stdx::error_chain(&err), "undoing a container: removing its files");
        }
    }

    pub(super) async fn start_container(&self, id: &ContainerId) -> Result<(), Error> {
        let known = self.known(id)?;
        if *known.state.borrow() != ContainerState::Created {
            return Err(Error::Refused(format!("container {id} was started before")));
        }
        let link = self.link(&known.sandbox)?.ok_or_else(|| sandbox_gone(&known))?;
        let task = || {
            let directory = self.container_directory(&known.sandbox, id);
            Task::Container {
                spec: directory.join("config.json"),
                layers: known.record.layers.clone(),
                upper: directory.join("upper"),
                work: directory.join("work"),
            }
        };
        let instructions = instructions(&link, task)?;
        let request =
            Request::Start { container: id.to_string(), handover: instructions.is_some() };
        let descriptors = self.handed_over(instructions.as_ref());
        let call = link.call_with(&request, &descriptors);
        match self.patiently(&known.sandbox, &link, call).await {
            Ok(Reply::Started { .. }) => Ok(()),
            Ok(other) => Err(unexpected(&other)),
            Err(link::Error::Refused(Refusal::CouldNotStart(why))) => {
                self.could_not_start(id, &known, why.clone());
                Err(Error::Refused(why))
            }
            Err(err) => Err(told(&known.sandbox, format!("starting container {id}"), err)),
        }
    }

    /// What goes with a request that starts something: our own program, and what it is to do.
    pub(super) fn handed_over<'a>(
        &'a self,
        instructions: Option<&'a OwnedFd>,
    ) -> Vec<BorrowedFd<'a>> {
        let both = instructions.map(|it| [self.program.file(), it.as_fd()]);
        both.into_iter().flatten().collect()
    }

    /// The holder knows of those that got as far as a process; it cannot of the others.
    fn could_not_start(&self, id: &ContainerId, known: &Known, why: String) {
        let exit = Exit {
            code: CODE_COULD_NOT_START,
            signal: None,
            oom_killed: false,
            started: None,
            finished: self.world.clock.now(),
            message: Some(why),
        };
        let directory = self.container_directory(&known.sandbox, id);
        let record = records::Exit::from(exit.clone());
        if !directory.join(<records::Exit as records::Record>::FILE).exists()
            && let Err(err) = records::write(&directory, &record)
        {
            tracing::warn!(container = %id, error = stdx::error_chain(&err), "recording why a container did not start");
        }
        self.book.set_container_state(id, ContainerState::Exited(exit));
    }

    pub(super) async fn stop_container(
        &self,
        id: &ContainerId,
        grace: Duration,
    ) -> Result<(), Error> {
        let Some(known) = self.book.known(id) else { return Ok(()) };
        if !matches!(*known.state.borrow(), ContainerState::Running { .. }) {
            return Ok(());
        }
        if !grace.is_zero() {
            let signal = known.record.stop_signal;
            let request = Request::Signal { container: id.to_string(), signal };
            self.tell_holder(&known, &request).await?;
            if tokio::time::timeout(grace, exited(&known)).await.is_ok() {
                return Ok(());
            }
        }
        self.tell_holder(&known, &Request::KillAll { container: id.to_string() }).await?;
        match tokio::time::timeout(TIMEOUT_KILL, exited(&known)).await {
            Ok(()) => Ok(()),
            // Perhaps nobody could tell us.
            Err(_) => self.link(&known.sandbox).and(Err(Error::TimedOut(TIMEOUT_KILL))),
        }
    }

    /// A container that has ended in the meantime, or a holder that has gone, is as good as told. A
    /// connection that breaks meanwhile is no holder that has gone.
    async fn tell_holder(&self, known: &Known, request: &Request) -> Result<(), Error> {
        const TRIES: u32 = 3;
        let sandbox = &known.sandbox;
        for _ in 0..TRIES {
            let Some(link) = self.link(sandbox)? else { return Ok(()) };
            match self.ask(sandbox, &link, request).await {
                Ok(_) | Err(link::Error::Refused(Refusal::NotRunning | Refusal::NoContainer)) => {
                    return Ok(());
                }
                Err(link::Error::Ended | link::Error::Socket(_)) => {
                    // Until the book says what came of it.
                    let settled =
                        tokio::time::timeout(self.config.timeouts.answer, link.ended.wait());
                    settled.await.map_err(|_| Error::NotResponding(sandbox.clone()))?;
                }
                Err(err) => return Err(told(sandbox, "asking the holder", err)),
            }
        }
        Err(Error::NotResponding(sandbox.clone()))
    }

    pub(super) async fn remove_container(self: &Arc<Self>, id: &ContainerId) -> Result<(), Error> {
        let Some(known) = self.book.known(id) else { return Ok(()) };
        self.stop_container(id, Duration::ZERO).await?;
        self.tell_holder(&known, &Request::Forget { container: id.to_string() }).await?;
        self.cgroups.remove(&known.record.cgroup).await?;
        let directory = self.container_directory(&known.sandbox, id);
        let doing = format!("removing {}", directory.display());
        tokio::task::spawn_blocking(move || remove_directory(&directory))
            .await
            .unwrap_or_else(|err| Err(err.into()))
            .map_err(|err| Error::node(doing, err))?;
        self.roots.release(id).await?;
        self.book.forget_container(id);
        Ok(())
    }

    pub(super) async fn update_resources(
        &self,
        id: &ContainerId,
        resources: Resources,
    ) -> Result<(), Error> {
        let known = self.known(id)?;
        let mut record = known.record;
        record.config.resources = resources;
        let directory = self.container_directory(&known.sandbox, id);
        let (cgroups, changed) = (self.cgroups.clone(), record.clone());
        tokio::task::spawn_blocking(move || {
            cgroups.update(&changed.cgroup, &changed.config.resources)?;
            records::write(&directory, &ContainerRecord::from(changed))
                .map_err(|err| Error::node("recording a container", err))
        })
        .await
        .unwrap_or_else(|err| Err(Error::node("changing a container's limits", err)))?;
        self.book.update_record(id, record);
        Ok(())
    }

    pub(super) async fn resources(&self, id: &ContainerId) -> Result<Resources, Error> {
        let record = self.known(id)?.record;
        self.cgroups.limits(&record.cgroup, record.config.resources).await
    }

    pub(super) async fn usage(&self, id: &ContainerId) -> Result<Usage, Error> {
        self.cgroups.usage(&self.known(id)?.record.cgroup).await
    }

    pub(super) fn known(&self, id: &ContainerId) -> Result<Known, Error> {
        self.book.known(id).ok_or_else(|| Error::NoContainer(id.clone()))
    }
}

/// `None` for holders that set up by themselves: they were started before others could.
pub(super) fn instructions(
    link: &Link,
    task: impl FnOnce() -> Task,
) -> Result<Option<OwnedFd>, Error> {
    if link.version < VERSION_OF_HANDOVER {
        return Ok(None);
    }
    let written = task().write();
    written.map(Some).map_err(|err| Error::node("writing what is to be set up", err))
}

/// Returns when the container has exited, or was forgotten.
async fn exited(known: &Known) {
    let mut state = known.state.clone();
    let _ = state.wait_for(|it| matches!(it, ContainerState::Exited(_))).await;
}

pub(super) fn cgroup_name(sandbox: &Sandbox, id: &ContainerId) -> String {
    format!("{}/{id}", sandbox.config.cgroup)
}

fn stop_signal(config: &ContainerConfig, root: &Root) -> Result<i32, Error> {
    let Some(text) = config.stop_signal.as_ref().or(root.config.stop_signal.as_ref()) else {
        return Ok(Signal::TERM.number());
    };
    Signal::parse(text)
        .map(Signal::number)
        .ok_or_else(|| Error::Refused(format!("{text:?} is no signal to stop a container with")))
}

fn write_container(directory: &Path, spec: &Spec) -> io::Result<()> {
    fs::create_dir(directory)?;
    for name in ["root", "upper", "work"] {
        fs::create_dir(directory.join(name))?;
    }
    files::write_json(&directory.join("config.json"), spec)
}

fn made_before(config: &ContainerConfig) -> Error {
    let (name, attempt) = (&config.name, config.attempt);
    Error::Refused(format!("container {name:?} was made for attempt {attempt} already"))
}

fn sandbox_gone(known: &Known) -> Error {
    Error::Refused(format!("sandbox {} is not ready", known.sandbox))
}

fn unexpected(reply: &Reply) -> Error {
    Error::node("asking the holder", link::Error::Unexpected(format!("{reply:?}")))
}
