//! Containers that run get another size, and their pod's cgroup with them.

mod order;

use std::collections::BTreeMap;

use jiff::Timestamp;
use node_api::ContainerId;
use node_api::containers::Resources;
use reconcile::EventType;

use super::{Action, On, Operation, Outcome, Scene};
use crate::allocation::{self, Size, Written};
use crate::cgroups;
use crate::pod_worker::memory::Memory;
use crate::pod_worker::resize::is_less;
use order::{Write, writes};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResizePod {
    /// The pod's cgroup: what it has, and what it should have.
    pub(crate) pod: Box<(Resources, Resources)>,
    pub(crate) containers: Vec<Change>,
    /// Runs that were given another size before.
    pub(crate) resized: BTreeMap<ContainerId, Size>,
    /// What was told about the last try.
    pub(crate) failed: Option<String>,
    pub(crate) generation: i64,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) id: ContainerId,
    pub(crate) name: String,
    pub(crate) from: Size,
    pub(crate) to: Size,
    /// What it was told beside that.
    pub(crate) others: Resources,
}

/// As far as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resized {
    pub(crate) pod: Resources,
    /// What each run was told.
    pub(crate) told: BTreeMap<ContainerId, Size>,
    /// What the kernel says of each.
    pub(crate) actual: BTreeMap<ContainerId, Size>,
}

impl Operation for ResizePod {
    const NAME: &'static str = "resize_pod";
    type Done = Resized;
    /// With why it came no further.
    type Failure = (Resized, String);

    fn on(&self) -> On {
        On::Pod
    }

    fn action(self) -> Action {
        Action::ResizePod(self)
    }

    async fn apply(&self, scene: &Scene) -> Outcome<Resized, (Resized, String)> {
        let mut resized = Resized { pod: self.pod.0.clone(), ..Resized::default() };
        let name = cgroups::name(&scene.pod.spec.clone().unwrap_or_default(), &scene.uid);
        let result = match self.refuse_shrinking(scene, &name).await {
            Ok(()) => self.carry_out(scene, &name, &mut resized).await,
            Err(why) => Err(why),
        };
        self.read_back(scene, &mut resized).await;
        self.record(scene, &resized).await;
        let Err(why) = result else { return Outcome::Done(resized) };
        if self.failed.as_ref() != Some(&why) {
            let message = allocation::failed(&scene.pod, self.generation, &why);
            scene.context.event(&scene.pod, EventType::Warning, "ResizeError", message);
        }
        Outcome::Failed((resized, why))
    }

    fn done(&self, resized: Resized, memory: &mut Memory) {
        remember(resized, memory);
        memory.resize_error = None;
    }

    fn failed(&self, (resized, why): (Resized, String), memory: &mut Memory, now: Timestamp) {
        remember(resized, memory);
        memory.resize_error = Some(why);
        memory.wait(self.op(), Self::RETRY, now);
    }
}

fn remember(resized: Resized, memory: &mut Memory) {
    memory.cgroup = Some(resized.pod);
    memory.resized.extend(resized.told);
    memory.actual.extend(resized.actual);
}

impl ResizePod {
    /// Memory that is in use cannot be taken away: the kernel would kill for it.
    async fn refuse_shrinking(&self, scene: &Scene, name: &str) -> Result<(), String> {
        let (current, target) = &*self.pod;
        let mut problems = Vec::new();
        if let Some(limit) = target.memory_limit
            && is_less(target.memory_limit, current.memory_limit)
        {
            match scene.context.parts.cgroups.usage(name).await {
                Err(_) => problems.push("missing pod memory usage".to_owned()),
                Ok(it) if it.memory_usage >= limit => problems.push(format!(
                    "attempting to set pod memory limit ({limit}) below current usage ({})",
                    it.memory_usage
                )),
                Ok(_) => {}
            }
        }
        for change in &self.containers {
            let Ok(limit) = u64::try_from(change.to.memory_limit) else { continue };
            let is_shrinking =
                change.from.memory_limit == 0 || change.to.memory_limit < change.from.memory_limit;
            if limit == 0 || !is_shrinking {
                continue;
            }
            let container = &change.name;
            match scene.context.parts.containers.usage(&change.id).await {
                Err(_) => problems.push(format!("missing container {container:?} memory usage")),
                Ok(it) if it.memory_usage >= limit => problems.push(format!(
                    "attempting to set container {container:?} memory limit ({limit}) below current usage ({})",
                    it.memory_usage
                )),
                Ok(_) => {}
            }
        }
        let problem = match problems.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            _ => format!("[{}]", problems.join(", ")),
        };
        Err(format!("cannot decrease memory limits: {problem}"))
    }

    /// In order, up to what cannot be done.
    async fn carry_out(
        &self,
        scene: &Scene,
        name: &str,
        resized: &mut Resized,
    ) -> Result<(), String> {
        let parts = &scene.context.parts;
        for write in writes(&self.pod, &self.containers) {
            match write {
                Write::Pod(resources) => {
                    let done = parts.cgroups.ensure(name, resources.clone()).await;
                    done.map_err(|err| stdx::error_chain(&err))?;
                    resized.pod = resources;
                }
                Write::Container(id, size, resources) => {
                    let done = parts.containers.update_resources(&id, resources).await;
                    done.map_err(|err| stdx::error_chain(&err))?;
                    resized.told.insert(id, size);
                }
            }
        }
        resized.pod = self.pod.1.clone();
        Ok(())
    }

    async fn read_back(&self, scene: &Scene, resized: &mut Resized) {
        for (id, told) in &resized.told {
            match scene.context.parts.containers.resources(id).await {
                Ok(it) => {
                    let actual = Size::in_force(&it, told.memory_request);
                    resized.actual.insert(id.clone(), actual);
                }
                Err(err) => {
                    tracing::warn!(%id, error = stdx::error_chain(&err), "limits not read back");
                }
            }
        }
    }

    /// Lost, it is done once more.
    async fn record(&self, scene: &Scene, resized: &Resized) {
        if resized.told.is_empty() {
            return;
        }
        let all = self.resized.iter().chain(&resized.told);
        let resized = all.map(|(id, size)| (id.to_string(), *size)).collect();
        let written = Written { allocation: (*scene.allocation).clone(), resized };
        let directory = scene.context.pod_directory(&scene.uid);
        if let Err(err) = allocation::write(&directory, written).await {
            tracing::warn!(uid = %scene.uid, error = %err, "sizes of containers are not on disk");
        }
    }
}
