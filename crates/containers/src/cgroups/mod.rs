//! The cgroups of pods and containers, below one root in every hierarchy.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linux::cgroups::{Access, Cgroup, CpuQuota, DeviceKind, Hierarchies, Limits, OomKill};
use node_api::containers::{Resources, Usage};
use node_api::{Cgroups, ContainerId, Error, Future};

use crate::spec::{self, Spec};

/// Implements [`node_api::Cgroups`]. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    hierarchies: Arc<Hierarchies>,
    root: Arc<str>,
    /// Containers whose cgroups nobody may remove, by id: removing kills.
    kept: Arc<Mutex<BTreeSet<String>>>,
}

impl Tree {
    /// `root` as in [`crate::Config::cgroup_root`]. Makes it.
    pub fn open(root: &str) -> Result<Self, Error> {
        let doing = || "find the machine's cgroups";
        let hierarchies = Hierarchies::detect().map_err(|err| Error::node(doing(), err))?;
        let root = root.trim_matches('/');
        if !root.is_empty() {
            let made = hierarchies.cgroup(root).and_then(|it| it.create());
            made.map_err(|err| Error::node(format!("make cgroup {root}"), err))?;
        }
        Ok(Self { hierarchies, root: root.into(), kept: Arc::default() })
    }

    /// The path of a cgroup from the hierarchies' root, for `linux.cgroupsPath`.
    pub fn path(&self, name: &str) -> String {
        match (&*self.root, name.trim_matches('/')) {
            ("", name) => format!("/{name}"),
            (root, "") => format!("/{root}"),
            (root, name) => format!("/{root}/{name}"),
        }
    }

    /// Makes the cgroup of a container with the limits and device rules of its configuration.
    /// Blocks for a moment.
    pub fn create_container(&self, spec: &Spec) -> Result<(), Error> {
        let name = &spec.linux.cgroups_path;
        let create = || {
            let cgroup = self.hierarchies.cgroup(name)?;
            cgroup.create()?;
            cgroup.set_limits(&container_limits(&spec.linux.resources))?;
            let rules: Vec<_> = spec.linux.resources.devices.iter().map(device_rule).collect();
            cgroup.set_devices(&rules)
        };
        create().map_err(|err| failed(format!("set up cgroup {name}"), err))
    }

    /// Changes the limits of a container; those that are `None` are lifted.
    pub fn update(&self, name: &str, resources: &Resources) -> Result<(), Error> {
        let limits = Limits { oom_kill: OomKill::All, ..limits(resources) };
        self.with(name, "set limits of", |it| it.set_limits(&limits))
    }

    /// What is in force in a cgroup that was told these.
    pub(crate) fn limits(&self, name: &str, told: Resources) -> Future<'_, Resources> {
        self.run(name, "read limits of", move |it| {
            let actual = it.limits(&limits(&told))?;
            Ok(Resources {
                cpu_shares: actual.cpu_shares,
                cpu_quota: actual.cpu_quota.map(|it| node_api::containers::CpuQuota {
                    quota: it.quota,
                    period: it.period,
                }),
                memory_limit: actual.memory,
                ..told
            })
        })
    }

    /// Kills everything in it, and returns when it is empty or after a bounded time.
    pub fn kill(&self, name: &str) -> Result<(), Error> {
        self.with(name, "kill", Cgroup::kill)
    }

    /// From now on these are not removed, nor what they are in: their holder lives, or may live, and
    /// is the one to end them.
    pub(crate) fn keep(&self, containers: &[ContainerId]) {
        self.kept().extend(containers.iter().map(ContainerId::to_string));
    }

    pub(crate) fn unkeep(&self, containers: &[ContainerId]) {
        let mut kept = self.kept();
        kept.retain(|it| !containers.iter().any(|other| other.as_str() == it));
    }

    fn kept(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A container's cgroup has its id for a name and is right below its pod's.
    fn refuse_kept(&self, name: &str) -> Result<(), Error> {
        if self.kept().is_empty() {
            return Ok(());
        }
        let own = name.rsplit('/').next().map(str::to_owned);
        let below = self.with(name, "list", Cgroup::children)?;
        let kept = self.kept();
        match own.into_iter().chain(below).find(|it| kept.contains(it)) {
            None => Ok(()),
            Some(container) => Err(Error::Refused(format!(
                "cgroup {name} is left alone: nobody can tell whether container {container} in it has ended"
            ))),
        }
    }

    /// The cgroups of these containers, wherever their pods' are below `kubepods`. For containers
    /// whose records cannot be read. Blocks for a moment.
    pub(crate) fn find(&self, containers: &[ContainerId]) -> Result<Vec<String>, Error> {
        // Of quality of service, of the pod, of the container.
        const DEPTH_MAX: u32 = 3;
        let mut level = vec!["kubepods".to_owned()];
        let mut found = Vec::new();
        for _ in 0..DEPTH_MAX {
            let mut next = Vec::new();
            for name in &level {
                for child in self.with(name, "list", Cgroup::children)? {
                    let path = format!("{name}/{child}");
                    let is_it = containers.iter().any(|it| it.as_str() == child);
                    if is_it { found.push(path) } else { next.push(path) }
                }
            }
            level = next;
        }
        Ok(found)
    }

    pub(crate) fn has_processes(&self, name: &str) -> Result<bool, Error> {
        self.with(name, "look into", |it| Ok(!it.processes()?.is_empty()))
    }

    /// How often the kernel has killed in it for want of memory.
    pub fn oom_kills(&self, name: &str) -> Result<u64, Error> {
        self.with(name, "read memory events of", Cgroup::oom_kills)
    }

    /// Moves the calling process into it.
    pub fn join(&self, name: &str) -> Result<(), Error> {
        self.with(name, "join", Cgroup::join)
    }

    /// Makes it, without limits of its own and without any device, and moves the calling process
    /// into it.
    pub fn join_new(&self, name: &str) -> Result<(), Error> {
        let no_device = linux::cgroups::DeviceRule {
            allow: false,
            kind: DeviceKind::Any,
            major: None,
            minor: None,
            access: Access::parse("rwm"),
        };
        self.with(name, "make", |it| {
            it.create()?;
            it.set_devices(std::slice::from_ref(&no_device))?;
            it.join()
        })
    }

    /// As [`Cgroups::remove`], for callers that may block.
    pub fn remove_now(&self, name: &str) -> Result<(), Error> {
        self.refuse_kept(name)?;
        self.with(name, "remove", Cgroup::remove)
    }

    fn with<T>(
        &self,
        name: &str,
        verb: &str,
        act: impl FnOnce(&Cgroup) -> Result<T, linux::cgroups::Error>,
    ) -> Result<T, Error> {
        let path = self.path(name);
        self.hierarchies
            .cgroup(&path)
            .and_then(|it| act(&it))
            .map_err(|err| failed(format!("{verb} cgroup {path}"), err))
    }

    /// How many processes are in it and below.
    pub(crate) fn n_processes(&self, name: &str) -> Future<'_, u64> {
        self.run(name, "count processes of", |it| Ok(it.processes()?.len() as u64))
    }

    /// The kernel may take a while (killing waits for processes to end), so it is asked from a
    /// thread that may wait.
    fn run<T: Send + 'static>(
        &self,
        name: &str,
        verb: &'static str,
        act: impl FnOnce(&Cgroup) -> Result<T, linux::cgroups::Error> + Send + 'static,
    ) -> Future<'_, T> {
        let (tree, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let doing = format!("{verb} cgroup {name}");
            tokio::task::spawn_blocking(move || tree.with(&name, verb, act))
                .await
                .map_err(|err| Error::node(doing, err))?
        })
    }
}

impl Cgroups for Tree {
    fn ensure(&self, name: &str, resources: Resources) -> Future<'_, ()> {
        self.run(name, "set up", move |it| {
            it.create()?;
            it.set_limits(&limits(&resources))
        })
    }

    fn remove(&self, name: &str) -> Future<'_, ()> {
        let (tree, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let doing = format!("remove cgroup {name}");
            tokio::task::spawn_blocking(move || tree.remove_now(&name))
                .await
                .map_err(|err| Error::node(doing, err))?
        })
    }

    fn children(&self, name: &str) -> Future<'_, Vec<String>> {
        self.run(name, "list", Cgroup::children)
    }

    fn usage(&self, name: &str) -> Future<'_, Usage> {
        self.run(name, "read usage of", |it| it.usage().map(usage))
    }

    fn machine(&self) -> Future<'_, Usage> {
        let read = linux::cgroups::machine_usage().map(usage);
        let read = read.map_err(|err| failed("read what the machine uses".to_owned(), err));
        Box::pin(std::future::ready(read))
    }
}

fn usage(usage: linux::cgroups::Usage) -> Usage {
    Usage {
        cpu: usage.cpu,
        memory_working_set: usage.memory_working_set,
        memory_usage: usage.memory,
        memory_rss: usage.memory_rss,
        swap: usage.swap,
        page_faults: usage.page_faults,
        major_page_faults: usage.major_page_faults,
    }
}

/// What the machine has not is refused by name; the rest is the machine's fault.
fn failed(doing: String, err: linux::cgroups::Error) -> Error {
    match err {
        linux::cgroups::Error::NoController { what } => Error::unsupported(what),
        err => Error::node(doing, err),
    }
}

fn limits(resources: &Resources) -> Limits {
    Limits {
        cpu_shares: resources.cpu_shares,
        cpu_quota: resources.cpu_quota.map(|it| CpuQuota { quota: it.quota, period: it.period }),
        memory: resources.memory_limit,
        memory_and_swap: resources.memory_swap_limit,
        pids: resources.pids_limit,
        cpuset_cpus: resources.cpuset_cpus.clone(),
        cpuset_mems: resources.cpuset_mems.clone(),
        hugepages: resources.hugepage_limits.clone(),
        unified: resources.unified.clone(),
        oom_kill: OomKill::One,
    }
}

/// When a container's memory runs out, all of it ends, so that it is never left with half of its
/// processes (upstream's default on version 2).
fn container_limits(resources: &spec::Resources) -> Limits {
    const PERIOD_DEFAULT: Duration = Duration::from_millis(100);
    let positive = |it: Option<i64>| it.and_then(|it| u64::try_from(it).ok());
    Limits {
        cpu_shares: resources.cpu.shares,
        cpu_quota: positive(resources.cpu.quota).map(|quota| CpuQuota {
            quota: Duration::from_micros(quota),
            period: resources.cpu.period.map_or(PERIOD_DEFAULT, Duration::from_micros),
        }),
        memory: positive(resources.memory.limit),
        memory_and_swap: positive(resources.memory.swap),
        pids: positive(resources.pids.limit),
        cpuset_cpus: resources.cpu.cpus.clone(),
        cpuset_mems: resources.cpu.mems.clone(),
        hugepages: resources
            .hugepage_limits
            .iter()
            .map(|it| (it.page_size.clone(), it.limit))
            .collect(),
        unified: resources.unified.clone(),
        oom_kill: OomKill::All,
    }
}

fn device_rule(rule: &spec::DeviceRule) -> linux::cgroups::DeviceRule {
    linux::cgroups::DeviceRule {
        allow: rule.allow,
        kind: match rule.kind {
            'b' => DeviceKind::Block,
            'c' => DeviceKind::Character,
            _ => DeviceKind::Any,
        },
        major: rule.major,
        minor: rule.minor,
        access: Access::parse(&rule.access),
    }
}
