//! Finding again what an earlier `xebec` has made. One sandbox that is damaged or silent is no
//! reason not to start, nor to touch it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::StreamExt as _;
use node_api::containers::{ContainerState, Exit};
use node_api::network::Namespace;
use node_api::sandboxes::{NetworkNamespace, Sandbox, SandboxState};
use node_api::{ContainerId, Error, PodRef, SandboxId};

use super::Inner;
use super::book::Holder;
use super::follow::{Contact, Contacted};
use super::found::{self, Found, FoundContainer};
use super::process::{Machine, Process};
use super::recorded::Recorded;
use super::unreadable::{Kept, Unreadable};
use crate::protocol::{ContainerStatus, Life, Request};
use crate::records::{self, SandboxRecord};

/// Sandboxes that are looked at at a time. Most of the time is spent in holders that wake up.
const AT_ONCE: usize = 64;
/// As containerd reports a container whose end nobody has seen.
const CODE_UNKNOWN: i32 = 255;
const MESSAGE_HOLDER_DIED: &str = "the sandbox's holder died; how the container ended is not known";
const MESSAGE_DAMAGED: &str = "the record of how the container ended cannot be read";

/// A sandbox whose record is whole, with the process that holds it.
struct Whole {
    sandbox: Sandbox,
    containers: Vec<FoundContainer>,
    process: Option<Arc<Process>>,
}

impl Inner {
    pub(super) async fn adopt_all(self: &Arc<Self>) -> Result<(), Error> {
        let directory = self.sandboxes_directory();
        let names = found::names(&directory)
            .map_err(|err| Error::node(format!("reading {}", directory.display()), err))?;
        let machine = Arc::new(Machine::default());
        futures_util::stream::iter(names.into_iter().map(SandboxId::new))
            .for_each_concurrent(AT_ONCE, |id| self.adopt_sandbox(id, &machine))
            .await;
        self.roots.retain(self.owners()).await?;
        self.network.keep_only(self.namespaces()).await
    }

    /// Whoever has an image's layers, known or not.
    fn owners(&self) -> BTreeSet<ContainerId> {
        let known = self.book.containers(None).into_iter().map(|it| it.id);
        known.chain(self.book.unreadable().into_iter().flat_map(|it| it.containers)).collect()
    }

    /// Of everything that lives, known or not.
    fn namespaces(&self) -> BTreeMap<SandboxId, Arc<dyn Namespace>> {
        let sandboxes = self.book.sandboxes().into_iter();
        let known =
            sandboxes.filter(|it| it.config.network == NetworkNamespace::Pod).filter_map(|it| {
                Some((it.id.clone(), self.book.holder(&it.id).process()?.namespace()))
            });
        let unreadable = self.book.unreadable().into_iter();
        let unreadable =
            unreadable.filter_map(|it| Some((it.report.sandbox, it.holder?.namespace())));
        known.chain(unreadable).collect()
    }

    async fn adopt_sandbox(self: &Arc<Self>, id: SandboxId, machine: &Arc<Machine>) {
        let (directory, looked_for) = (self.sandbox_directory(&id), id.clone());
        let machine = machine.clone();
        let look = move || found::look(&directory, looked_for, &machine);
        let found = match tokio::task::spawn_blocking(look).await {
            Ok(found) => found,
            Err(err) => return tracing::error!(sandbox = %id, error = %err, "looking at a sandbox"),
        };
        match sort_out(found) {
            Sorted::Whole(whole) => self.adopt_whole(*whole).await,
            Sorted::HalfMade(id, process) => self.remove_half_made(id, process).await,
            Sorted::Unreadable(kept) => self.keep(kept),
        }
    }

    /// Left as it is, for people to look at.
    fn keep(&self, kept: Kept) {
        let Unreadable { sandbox, container, pod, why } = &kept.report;
        let container = container.as_ref().map(ContainerId::as_str);
        let pod = pod.as_ref().map(PodRef::to_string);
        tracing::error!(%sandbox, container, pod, why, "left alone, because it cannot be read");
        if kept.may_run {
            self.cgroups.keep(&kept.containers);
        }
        self.book.add_unreadable(kept);
    }

    async fn adopt_whole(self: &Arc<Self>, whole: Whole) {
        let Whole { mut sandbox, containers, process } = whole;
        let id = sandbox.id.clone();
        let Some(process) = process else { return self.adopt_dead(sandbox, containers) };
        let mut contact = self.contact(&id, &process);
        sandbox.state = SandboxState::Ready;
        match tokio::time::timeout(self.config.timeouts.adopt, &mut contact).await {
            Ok(Some(Contacted { link, statuses })) => {
                self.book.add_sandbox(sandbox, Holder::Linked(link.clone()));
                self.adopt_containers(&id, containers, &Knowledge::Told(&statuses)).await;
                self.watch(id, link);
            }
            Ok(None) => self.adopt_dead(sandbox, containers),
            Err(_) => {
                self.book.add_sandbox(sandbox, Holder::Silent(process.clone()));
                self.adopt_containers(&id, containers, &Knowledge::Silence).await;
                self.fall_silent(&id, process);
                self.watch_silent(id, contact);
            }
        }
    }

    fn adopt_dead(&self, mut sandbox: Sandbox, containers: Vec<FoundContainer>) {
        let id = sandbox.id.clone();
        sandbox.state = SandboxState::NotReady;
        self.book.add_sandbox(sandbox, Holder::Gone);
        for container in containers {
            self.adopt_container(&id, container, &Knowledge::Dead);
        }
        self.end_leftovers(&id);
    }

    async fn adopt_containers(
        &self,
        sandbox: &SandboxId,
        containers: Vec<FoundContainer>,
        knowledge: &Knowledge<'_>,
    ) {
        for container in containers {
            if let (Ok(None), Knowledge::Told(_), None) =
                (&container.record, knowledge, knowledge.life(&container.id))
            {
                // Half made: the record is written last, and the holder has not heard of it.
                self.unmake_container(sandbox, &container.id).await;
                continue;
            }
            self.adopt_container(sandbox, container, knowledge);
        }
    }

    fn adopt_container(
        &self,
        sandbox: &SandboxId,
        container: FoundContainer,
        knowledge: &Knowledge<'_>,
    ) {
        let life = knowledge.life(&container.id);
        let may_run = match knowledge {
            Knowledge::Told(_) => matches!(life, Some(Life::Starting | Life::Running { .. })),
            Knowledge::Silence => true,
            Knowledge::Dead => false,
        };
        let report = |why: String| {
            let pod = self.book.sandbox(sandbox).map(|(it, _)| it.config.pod);
            let (sandbox, id) = (sandbox.clone(), container.id.clone());
            let containers = vec![id.clone()];
            let report = Unreadable { sandbox, container: Some(id), pod, why };
            self.keep(Kept { report, holder: None, containers, may_run });
        };
        match &container.record {
            Err(err) => report(stdx::error_chain(err)),
            Ok(None) => report("it has no container.json".to_owned()),
            Ok(Some(record)) => {
                if let Err(err) = &container.exit {
                    tracing::error!(%sandbox, container = %container.id, error = stdx::error_chain(err), "how a container ended cannot be read");
                }
                let recorded = Recorded::from(record.clone());
                let state = self.state_of(&container, &recorded, life, knowledge);
                self.book.add_container(container.id.clone(), sandbox.clone(), recorded, state);
            }
        }
    }

    fn state_of(
        &self,
        found: &FoundContainer,
        recorded: &Recorded,
        life: Option<&Life>,
        knowledge: &Knowledge<'_>,
    ) -> ContainerState {
        match (life, &found.exit, knowledge) {
            (Some(Life::Exited(exit)), _, _) | (_, Ok(Some(exit)), _) => {
                ContainerState::Exited(exit.clone().into())
            }
            (Some(Life::Running { started }), _, _) => {
                ContainerState::Running { started: *started }
            }
            // Its end or its beginning is told soon.
            (Some(Life::Starting), _, _) => ContainerState::Created,
            (None, Err(_), _) => {
                ContainerState::Exited(self.unknown_exit(found.started, MESSAGE_DAMAGED))
            }
            (None, Ok(None), Knowledge::Told(_)) => ContainerState::Created,
            (None, Ok(None), Knowledge::Silence) => self.last_known(found, recorded),
            (None, Ok(None), Knowledge::Dead) => {
                ContainerState::Exited(self.unknown_exit(found.started, MESSAGE_HOLDER_DIED))
            }
        }
    }

    /// Holders of earlier versions do not write down that a container was started; its cgroup shows
    /// it.
    fn last_known(&self, found: &FoundContainer, recorded: &Recorded) -> ContainerState {
        let started = found.started.or_else(|| {
            let has_processes = self.cgroups.has_processes(&recorded.cgroup);
            has_processes.unwrap_or(false).then_some(recorded.created)
        });
        started.map_or(ContainerState::Created, |started| ContainerState::Running { started })
    }

    pub(super) fn unknown_exit(&self, started: Option<jiff::Timestamp>, why: &str) -> Exit {
        Exit {
            code: CODE_UNKNOWN,
            signal: None,
            oom_killed: false,
            started,
            finished: self.world.clock.now(),
            message: Some(why.to_owned()),
        }
    }

    /// The holder is gone, and its containers with it; whatever escaped is killed.
    pub(super) fn end_leftovers(&self, sandbox: &SandboxId) {
        for container in self.book.containers(Some(sandbox)) {
            let Some(known) = self.book.known(&container.id) else { continue };
            // The cgroup may be gone already.
            let _ = self.cgroups.kill(&known.record.cgroup);
            if let ContainerState::Running { started } = container.state {
                let directory = self.container_directory(sandbox, &container.id);
                let exit = match records::read::<records::Exit>(&directory) {
                    Ok(Some(exit)) => exit.into(),
                    Ok(None) | Err(_) => self.unknown_exit(Some(started), MESSAGE_HOLDER_DIED),
                };
                self.book.set_container_state(&container.id, ContainerState::Exited(exit));
            }
        }
    }

    /// A crash came between its first and its last step. Its holder, if there is one, is asked to
    /// end; one that does not answer is waited for.
    async fn remove_half_made(self: &Arc<Self>, id: SandboxId, process: Option<Arc<Process>>) {
        let (inner, of) = (self.clone(), id.clone());
        let work = async move {
            if let Some(process) = process {
                let contact = inner.contact(&of, &process);
                end_half_made(contact, &process).await?;
            }
            inner.remove_sandbox_files(&of).await
        };
        let removed = self.finish("remove-half-made-sandbox", work);
        match tokio::time::timeout(self.config.timeouts.adopt, removed).await {
            // It goes on by itself.
            Err(_) => {
                tracing::warn!(sandbox = %id, "the holder of a half-made sandbox does not answer")
            }
            Ok(Ok(())) => {}
            Ok(Err(err)) => {
                tracing::warn!(sandbox = %id, error = stdx::error_chain(&err), "removing a half-made sandbox");
            }
        }
    }
}

async fn end_half_made(contact: Contact, process: &Process) -> Result<(), Error> {
    if let Some(Contacted { link, .. }) = contact.await {
        link.send_only(&Request::Shutdown)
            .await
            .map_err(|err| Error::node("ending a half-made sandbox", err))?;
    }
    process.exited().await.map_err(|err| Error::node("waiting for the holder's end", err))
}

/// Where what is known of a sandbox's containers comes from.
enum Knowledge<'a> {
    Told(&'a [ContainerStatus]),
    Silence,
    Dead,
}

impl Knowledge<'_> {
    fn life(&self, id: &ContainerId) -> Option<&Life> {
        let Self::Told(statuses) = self else { return None };
        statuses.iter().find(|it| it.container == id.as_str()).map(|it| &it.life)
    }
}

enum Sorted {
    Whole(Box<Whole>),
    /// Nobody was told of it.
    HalfMade(SandboxId, Option<Arc<Process>>),
    Unreadable(Kept),
}

/// What is to become of what was found. Pure.
fn sort_out(found: Found) -> Sorted {
    let Found { id, record, whose, containers, holder, has_socket } = found;
    let pod = whose.map(|it| PodRef::from(it.config.pod));
    let names = |it: &[FoundContainer]| it.iter().map(|it| it.id.clone()).collect::<Vec<_>>();
    let kept = |pod, why: String, holder: Option<Arc<Process>>, may_run, containers| {
        let report = Unreadable { sandbox: id.clone(), container: None, pod, why };
        Sorted::Unreadable(Kept { report, holder, containers, may_run })
    };
    let (process, containers) = match (holder, containers) {
        (Ok(process), Ok(containers)) => (process.map(Arc::new), containers),
        (Err(err), containers) => {
            let containers = containers.map(|it| names(&it)).unwrap_or_default();
            return kept(pod, format!("looking for its holder: {err}"), None, true, containers);
        }
        (Ok(process), Err(err)) => {
            let why = format!("reading its containers: {err}");
            return kept(pod, why, process.map(Arc::new), true, Vec::new());
        }
    };
    let may_run = process.is_some();
    match record {
        Err(err) => kept(pod, stdx::error_chain(&err), process, may_run, names(&containers)),
        // The socket is made after the record, and before the holder.
        Ok(None) if !has_socket && !may_run => Sorted::HalfMade(id, None),
        Ok(None) => {
            let why = "it has no sandbox.json".to_owned();
            kept(pod, why, process, may_run, names(&containers))
        }
        Ok(Some(SandboxRecord { addresses: None, .. })) => Sorted::HalfMade(id, process),
        Ok(Some(SandboxRecord { config, created, addresses: Some(addresses), .. })) => {
            let config = config.into();
            let state = SandboxState::NotReady;
            let sandbox = Sandbox { id, config, created, state, addresses };
            Sorted::Whole(Box::new(Whole { sandbox, containers, process }))
        }
    }
}
