//! Control groups on version 1, on version 2, and on machines that have both (hybrid): one name
//! stands for a cgroup in every hierarchy.
//!
//! Promises: creating what exists and removing what is gone succeeds; killing and removing take a
//! bounded time and say so when it was not enough.

mod devices;
mod end;
mod hierarchies;
mod limits;
mod machine;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use devices::{Access, DeviceKind, DeviceRule};
pub use hierarchies::{Hierarchies, Hierarchy, Version};
pub use limits::{CpuQuota, Limits, OomKill, weight};
pub use machine::machine_usage;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("write {value:?} to {}", path.display())]
    Write {
        path: PathBuf,
        value: String,
        #[source]
        source: io::Error,
    },
    #[error("make cgroup {}", path.display())]
    Make {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("remove cgroup {}", path.display())]
    Remove {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("filter devices of cgroup {}", path.display())]
    Devices {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("processes of cgroup {name} did not end within {waited:?}")]
    StillRunning { name: String, waited: Duration },
    #[error("cgroup name {0:?} is not a plain path")]
    Name(String),
    #[error("this machine's cgroups have no {what}")]
    NoController { what: &'static str },
}

/// One name in every hierarchy.
#[derive(Clone, Debug)]
pub struct Cgroup {
    hierarchies: Arc<Hierarchies>,
    /// Without a slash at either end.
    name: String,
}

/// What a cgroup has used, with everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    /// Memory that cannot be reclaimed at once: usage without inactive file pages, as Kubernetes
    /// counts it.
    pub memory_working_set: u64,
    pub memory: u64,
    /// Anonymous memory.
    pub memory_rss: u64,
    /// `None`: the kernel does not count it.
    pub swap: Option<u64>,
    pub page_faults: u64,
    pub major_page_faults: u64,
}

impl Cgroup {
    pub(crate) fn new(hierarchies: &Arc<Hierarchies>, name: &str) -> Result<Self, Error> {
        let name = name.trim_matches('/');
        if name.split('/').any(|it| it.is_empty() || it == "." || it == "..") {
            return Err(Error::Name(name.to_owned()));
        }
        Ok(Self { hierarchies: Arc::clone(hierarchies), name: name.to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn directory(&self, hierarchy: &Hierarchy) -> PathBuf {
        hierarchy.mount.join(&self.name)
    }

    /// Makes it with its parents.
    pub fn create(&self) -> Result<(), Error> {
        for hierarchy in self.hierarchies.iter() {
            let mut path = hierarchy.mount.clone();
            for component in self.name.split('/') {
                if hierarchy.version == Version::V2 {
                    enable_controllers(&path)?;
                }
                let parent = path.clone();
                path.push(component);
                match std::fs::create_dir(&path) {
                    Ok(()) => {}
                    Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(source) => return Err(Error::Make { path, source }),
                }
                if hierarchy.has("cpuset") && hierarchy.version == Version::V1 {
                    inherit(&parent, &path, "cpuset.cpus")?;
                    inherit(&parent, &path, "cpuset.mems")?;
                }
            }
        }
        Ok(())
    }

    pub fn exists(&self) -> bool {
        self.hierarchies.iter().any(|it| self.directory(it).is_dir())
    }

    /// Moves the calling process there, in every hierarchy.
    pub fn join(&self) -> Result<(), Error> {
        for hierarchy in self.hierarchies.iter() {
            write(&self.directory(hierarchy).join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    pub fn set_limits(&self, limits: &Limits) -> Result<(), Error> {
        limits::apply(self, limits)
    }

    /// Processor and memory as the kernel holds them to, and the rest as it was told. What the
    /// kernel only rounds (memory to pages, shares to a weight) is as it was told, too.
    pub fn limits(&self, told: &Limits) -> Result<Limits, Error> {
        limits::read_back(self, told)
    }

    /// Which devices may be used; later rules win.
    pub fn set_devices(&self, rules: &[DeviceRule]) -> Result<(), Error> {
        if let Some(hierarchy) = self.hierarchies.with("devices") {
            return devices::apply_v1(&self.directory(hierarchy), rules);
        }
        match self.hierarchies.unified() {
            Some(hierarchy) => devices::apply_v2(&self.directory(hierarchy), rules),
            None => Ok(()),
        }
    }

    /// How often the kernel has killed in it for want of memory.
    pub fn oom_kills(&self) -> Result<u64, Error> {
        let Some(hierarchy) = self.hierarchies.with("memory") else { return Ok(0) };
        let file = match hierarchy.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = read(&self.directory(hierarchy).join(file))?;
        Ok(field(&text, "oom_kill").unwrap_or(0))
    }

    pub fn usage(&self) -> Result<Usage, Error> {
        let mut usage = Usage::default();
        if let Some(hierarchy) = self.hierarchies.with("memory") {
            let directory = self.directory(hierarchy);
            let (current, prefix, rss) = match hierarchy.version {
                Version::V1 => ("memory.usage_in_bytes", "total_", "rss"),
                Version::V2 => ("memory.current", "", "anon"),
            };
            let current = number(&directory.join(current))?;
            let stat = read(&directory.join("memory.stat"))?;
            let counted = |name: &str| field(&stat, &format!("{prefix}{name}"));
            usage.memory = current;
            usage.memory_working_set =
                current.saturating_sub(counted("inactive_file").unwrap_or(0));
            usage.memory_rss = counted(rss).unwrap_or(0);
            usage.page_faults = counted("pgfault").unwrap_or(0);
            usage.major_page_faults = counted("pgmajfault").unwrap_or(0);
            usage.swap = match hierarchy.version {
                Version::V1 => counted("swap"),
                Version::V2 => number(&directory.join("memory.swap.current")).ok(),
            };
        }
        if let Some(hierarchy) = self.hierarchies.with("cpuacct") {
            usage.cpu =
                Duration::from_nanos(number(&self.directory(hierarchy).join("cpuacct.usage"))?);
        } else if let Some(hierarchy) = self.hierarchies.unified() {
            let stat = read(&self.directory(hierarchy).join("cpu.stat"))?;
            usage.cpu = Duration::from_micros(field(&stat, "usage_usec").unwrap_or(0));
        }
        Ok(usage)
    }

    /// How often and for how long the CPU limit has held processes back.
    pub fn throttled(&self) -> Result<(u64, Duration), Error> {
        let Some(hierarchy) = self.hierarchies.with("cpu") else { return Ok((0, Duration::ZERO)) };
        let stat = read(&self.directory(hierarchy).join("cpu.stat"))?;
        let time = match hierarchy.version {
            Version::V1 => Duration::from_nanos(field(&stat, "throttled_time").unwrap_or(0)),
            Version::V2 => Duration::from_micros(field(&stat, "throttled_usec").unwrap_or(0)),
        };
        Ok((field(&stat, "nr_throttled").unwrap_or(0), time))
    }

    /// Last names of the cgroups directly below, in any hierarchy.
    pub fn children(&self) -> Result<Vec<String>, Error> {
        let mut names = BTreeSet::new();
        for hierarchy in self.hierarchies.iter() {
            for path in directories_below(&self.directory(hierarchy))? {
                names.extend(path.file_name().map(|it| it.to_string_lossy().into_owned()));
            }
        }
        Ok(names.into_iter().collect())
    }

    /// Processes in it and below it.
    pub fn processes(&self) -> Result<Vec<i32>, Error> {
        let mut pids = BTreeSet::new();
        for hierarchy in self.hierarchies.iter() {
            end::collect(&self.directory(hierarchy), &mut pids)?;
        }
        Ok(pids.into_iter().collect())
    }

    /// Kills everything in it and below, and returns when nothing of that runs any more.
    pub fn kill(&self) -> Result<(), Error> {
        end::kill(self)
    }

    /// Kills what is in it and removes it, with everything below.
    pub fn remove(&self) -> Result<(), Error> {
        end::remove(self)
    }
}

/// All that this level has, for the level below. The kernel takes them one by one, so that one
/// which it refuses (a real-time process forbids `cpu`, for instance) does not take the others with
/// it; using its files then fails by name.
fn enable_controllers(directory: &Path) -> Result<(), Error> {
    let available = read(&directory.join("cgroup.controllers"))?;
    let control = directory.join("cgroup.subtree_control");
    let enabled = read(&control)?;
    for controller in ["cpu", "cpuset", "memory", "pids", "io", "hugetlb"] {
        let has = |text: &str| text.split_ascii_whitespace().any(|it| it == controller);
        if has(&available)
            && !has(&enabled)
            && let Err(err) = write(&control, &format!("+{controller}"))
        {
            tracing::warn!(controller, error = %err, "controller cannot be used");
        }
    }
    Ok(())
}

/// A new cpuset of version 1 is empty, and nothing can run in it (cpuset(7)).
fn inherit(parent: &Path, child: &Path, file: &str) -> Result<(), Error> {
    if !read(&child.join(file))?.trim().is_empty() {
        return Ok(());
    }
    write(&child.join(file), read(&parent.join(file))?.trim())
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn number(path: &Path) -> Result<u64, Error> {
    Ok(read(path)?.trim().parse().unwrap_or(0))
}

fn write(path: &Path, value: &str) -> Result<(), Error> {
    // Not `fs::write`: that would make a file where the kernel has none.
    std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .map_err(|source| Error::Write { path: path.to_owned(), value: value.to_owned(), source })
}

/// `name 123` on a line of its own.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn directories_below(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: directory.to_owned(), source };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(failed(err)),
    };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            directories.push(entry.path());
        }
    }
    directories.sort();
    Ok(directories)
}

impl Error {
    /// The kernel's number, where it was the kernel who refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Read { source, .. }
            | Self::Write { source, .. }
            | Self::Make { source, .. }
            | Self::Remove { source, .. }
            | Self::Devices { source, .. } => source.raw_os_error(),
            Self::StillRunning { .. } | Self::Name(_) | Self::NoController { .. } => None,
        }
    }
}
