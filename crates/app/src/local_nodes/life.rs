//! How a node is and what becomes of it: looked at, decided (purely), done.

use std::fmt;
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use linux::process::Signal;
use stdx::World;

use super::place::Place;
use super::switch::Switch;
use super::{agent, boot, files, process, uplink};
use crate::cluster::Cluster;
use crate::data_dir::make_private;

/// Longer than an agent's own drain.
const STOP_MAX: Duration = Duration::from_secs(20);
/// What is killed ends at once, unless it waits for a disk.
const KILL_MAX: Duration = Duration::from_secs(10);

/// As it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Its first process, and with it all that it has in the kernel.
    pub(crate) init: Option<i32>,
    pub(crate) agent: Option<i32>,
    /// Whether its cable is plugged in; `None`: there is no cable.
    pub(crate) uplink: Option<bool>,
}

/// In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    Running,
    /// Its agent has ended; pods go on.
    Stopped,
    /// Nobody reaches it, nor does it reach anybody.
    Isolated,
    /// Nothing of it runs.
    Dead,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Isolated => "isolated",
            Self::Dead => "dead",
        })
    }
}

impl Observed {
    pub(crate) fn state(&self) -> State {
        match self {
            Self { init: None, .. } => State::Dead,
            Self { uplink: Some(false) | None, .. } => State::Isolated,
            Self { agent: None, .. } => State::Stopped,
            Self { .. } => State::Running,
        }
    }
}

/// What is to become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Whole, whatever was done to it.
    Running,
    /// The same, with an agent that has started just now.
    Restarted,
    Stopped,
    Isolated,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Boot,
    LayCable,
    PlugIn,
    PullOut,
    RemoveCable,
    StartAgent,
    StopAgent,
    Kill,
}

/// Planning again when it is done says that there is nothing to do.
pub(super) fn plan(observed: &Observed, wanted: Wanted) -> Vec<Step> {
    let Observed { init, agent, uplink } = observed;
    // The agent that somebody noted is that of the node which lives.
    let agent = agent.filter(|_| init.is_some());
    match wanted {
        Wanted::Dead => {
            let kill = init.map(|_| Step::Kill);
            kill.into_iter().chain(uplink.map(|_| Step::RemoveCable)).collect()
        }
        Wanted::Stopped => agent.map(|_| Step::StopAgent).into_iter().collect(),
        Wanted::Isolated => {
            let pull = uplink.filter(|is_in| *is_in && init.is_some());
            pull.map(|_| Step::PullOut).into_iter().collect()
        }
        Wanted::Running | Wanted::Restarted => {
            let boot = init.is_none().then_some(Step::Boot);
            let cable = match uplink {
                // One that is there leads to a node that is gone.
                _ if init.is_none() => Some(Step::LayCable),
                None => Some(Step::LayCable),
                Some(false) => Some(Step::PlugIn),
                Some(true) => None,
            };
            let stop = agent.filter(|_| wanted == Wanted::Restarted).map(|_| Step::StopAgent);
            let is_started = agent.is_none() || stop.is_some();
            let start = is_started.then_some(Step::StartAgent);
            boot.into_iter().chain(cable).chain(stop).chain(start).collect()
        }
    }
}

/// One further node, and what joins it to the others.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    switch: Switch,
}

impl Node {
    pub(crate) fn all(cluster: &Cluster, directory: &Path) -> Vec<Self> {
        let Some(switch) = Switch::of(cluster) else { return Vec::new() };
        let places = Place::all(cluster, directory).into_iter();
        places.map(|place| Self { place, switch: switch.clone() }).collect()
    }

    pub(crate) fn find(cluster: &Cluster, directory: &Path, name: &str) -> Result<Self> {
        let place = Place::find(cluster, directory, name)?;
        let switch = Switch::of(cluster).context("nodes of one machine are joined by a switch")?;
        Ok(Self { place, switch })
    }

    pub(crate) fn observe(&self) -> Result<Observed> {
        let doing = || format!("looking at the node {}", self.place.name);
        let pid = |path: &Path| process::find(path).map(|it| it.map(|it| it.pid));
        Ok(Observed {
            init: pid(&self.place.init()).with_context(doing)?,
            agent: pid(&self.place.agent()).with_context(doing)?,
            uplink: uplink::is_up(&self.place, &self.switch).with_context(doing)?,
        })
    }

    /// Says what was done to it: nothing if it is so already. Blocks, and to start an agent for as
    /// long as it takes the Node to be Ready.
    pub(crate) fn bring_to(&self, wanted: Wanted, start: Option<&agent::Start>) -> Result<bool> {
        let _lock = match wanted {
            Wanted::Running | Wanted::Restarted => Some(self.lock()?),
            Wanted::Stopped | Wanted::Isolated | Wanted::Dead => None,
        };
        let steps = plan(&self.observe()?, wanted);
        for step in &steps {
            let doing = || format!("the node {}", self.place.name);
            self.take(*step, start).with_context(doing)?;
        }
        Ok(!steps.is_empty())
    }

    /// All but the agent: so far it needs no cluster.
    pub(super) fn prepare(&self) -> Result<()> {
        let _lock = self.lock()?;
        let steps = plan(&self.observe()?, Wanted::Running);
        for step in steps.into_iter().filter(|it| *it != Step::StartAgent) {
            self.take(step, None)?;
        }
        Ok(())
    }

    /// Two that start it at once would start two.
    fn lock(&self) -> Result<std::fs::File> {
        let path = self.place.lock();
        let open = || {
            make_private(&self.place.directory)?;
            OpenOptions::new().write(true).create(true).truncate(false).open(&path)
        };
        let file = open().with_context(|| format!("opening {}", path.display()))?;
        if !stdx::lock_file(&file) {
            bail!("the node {} is being started already", self.place.name);
        }
        Ok(file)
    }

    fn take(&self, step: Step, start: Option<&agent::Start>) -> Result<()> {
        let Self { place, switch } = self;
        match step {
            Step::Boot => {
                files::write(place, &World::system().random).context("writing its files")?;
                boot::boot(place)
            }
            Step::LayCable => {
                let init = process::find(&place.init()).context("finding its first process")?;
                let init = init.context("its first process has ended")?.pid;
                uplink::lay(place, switch, init).context("joining it to the others")
            }
            Step::PlugIn => uplink::set(place, switch, true).context("plugging its cable in"),
            Step::PullOut => uplink::set(place, switch, false).context("pulling its cable out"),
            Step::RemoveCable => uplink::remove(place, switch).context("removing its cable"),
            Step::StartAgent => {
                files::write_resolv_conf(place).context("writing its resolv.conf")?;
                agent::start(place, start.context("nobody said how to start its agent")?)
            }
            Step::StopAgent => self.end(&place.agent(), Signal::TERM, STOP_MAX),
            Step::Kill => {
                self.end(&place.init(), Signal::KILL, KILL_MAX)?;
                // What the first process takes with it has ended when it has; its cgroups go now.
                boot::cgroup(place).and_then(|it| it.remove()).context("removing its cgroups")
            }
        }
    }

    fn end(&self, record: &Path, signal: Signal, patience: Duration) -> Result<()> {
        let found = process::find(record).context("finding its process")?;
        let Some(found) = found else { return Ok(()) };
        process::end(&found, signal, patience)
            .with_context(|| format!("ending it; see {}", self.log().display()))
    }

    pub(crate) fn log(&self) -> std::path::PathBuf {
        crate::data_dir::log_file(&self.place.data())
    }

    /// Leaves nothing of it in the kernel; its directory stays.
    pub(super) fn purge(&self) -> Result<()> {
        self.bring_to(Wanted::Dead, None)?;
        // Also of what was never noted.
        let removed = boot::cgroup(&self.place).and_then(|it| it.remove());
        removed.with_context(|| format!("removing the cgroups of the node {}", self.place.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `init agent cable`, as far as it is there; a cable that is pulled out is `cut`.
    fn observed(text: &str) -> Observed {
        let has = |word: &str| text.split(' ').any(|it| it == word);
        let uplink = if has("cable") { Some(true) } else { has("cut").then_some(false) };
        Observed { init: has("init").then_some(2), agent: has("agent").then_some(3), uplink }
    }

    #[test]
    fn what_is_done_depends_on_how_it_is() {
        let check = |is: &str, wanted: Wanted, expected: &[Step]| {
            assert_eq!(plan(&observed(is), wanted), expected, "{is} to be {wanted:?}");
        };
        use Step::{Boot, Kill, LayCable, PlugIn, PullOut, RemoveCable, StartAgent, StopAgent};
        use Wanted::{Dead, Isolated, Restarted, Running, Stopped};
        check("", Running, &[Boot, LayCable, StartAgent]);
        check("cable", Running, &[Boot, LayCable, StartAgent]);
        check("agent cable", Running, &[Boot, LayCable, StartAgent]);
        check("init", Running, &[LayCable, StartAgent]);
        check("init cable", Running, &[StartAgent]);
        check("init agent cut", Running, &[PlugIn]);
        check("init cut", Running, &[PlugIn, StartAgent]);
        check("init agent cable", Running, &[]);
        check("init agent cable", Restarted, &[StopAgent, StartAgent]);
        check("init cable", Restarted, &[StartAgent]);
        check("init agent cable", Stopped, &[StopAgent]);
        check("init cable", Stopped, &[]);
        check("init agent cable", Isolated, &[PullOut]);
        check("init agent cut", Isolated, &[]);
        check("", Isolated, &[]);
        check("init agent cable", Dead, &[Kill, RemoveCable]);
        check("init", Dead, &[Kill]);
        check("cut", Dead, &[RemoveCable]);
        check("", Dead, &[]);
    }

    #[test]
    fn a_node_is_as_the_worst_of_it() {
        let check = |is: &str, expected: State| assert_eq!(observed(is).state(), expected, "{is}");
        check("init agent cable", State::Running);
        check("init cable", State::Stopped);
        check("init agent cut", State::Isolated);
        check("init agent", State::Isolated);
        check("agent cable", State::Dead);
        check("", State::Dead);
    }
}
