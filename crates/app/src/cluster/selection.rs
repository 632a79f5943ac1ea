//! Which cluster a command means: the one that was named, else the one that there is.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Known, Name, Registry};
use crate::data_dir;

/// For commands about a cluster that is there.
#[derive(Clone, clap::Args)]
#[group(id = "selection", multiple = false)]
pub(crate) struct Selection {
    /// The cluster, as `xebec list` shows it; without it the one that runs
    #[arg(long, global = true, value_name = "NAME", value_parser = Name::parse)]
    name: Option<Name>,
    /// The cluster by its data directory
    #[arg(long, global = true, value_name = "DIR", value_parser = data_dir::parser())]
    data_dir: Option<PathBuf>,
}

impl Selection {
    /// The directory of the one that is meant. Says which there are when that is not clear.
    pub(crate) fn find(&self) -> Result<PathBuf> {
        match self.find_known()? {
            Some(directory) => Ok(directory),
            None => bail!("there is no cluster: start one with `xebec up`, or give its --data-dir"),
        }
    }

    /// Or the directory of one that could come.
    pub(crate) fn find_or_default(&self) -> Result<PathBuf> {
        Ok(self.find_known()?.unwrap_or_else(|| data_dir::default_path(&Name::default())))
    }

    /// `None`: there is none at all, and none was named.
    fn find_known(&self) -> Result<Option<PathBuf>> {
        if let Some(directory) = &self.data_dir {
            return Ok(Some(directory.clone()));
        }
        let clusters = Registry::of_this_user().clusters()?;
        if let Some(name) = &self.name {
            return match clusters.iter().find(|it| it.cluster.name == *name) {
                Some(known) => Ok(Some(known.data_dir.clone())),
                None if unlisted(name).is_some() => Ok(unlisted(name)),
                None if clusters.is_empty() => bail!("there is no cluster {name}, nor any other"),
                None => bail!("there is no cluster {name}; there are\n{}", table(&clusters)),
            };
        }
        Ok(pick(clusters)?.or_else(|| unlisted(&Name::default())))
    }
}

/// Where the cluster would be, if there is one that was never started by `up`.
fn unlisted(name: &Name) -> Option<PathBuf> {
    let directory = data_dir::default_path(name);
    data_dir::running(&directory).is_ok().then_some(directory)
}

/// The only one that runs; if none does, the only one.
fn pick(clusters: Vec<Known>) -> Result<Option<PathBuf>> {
    let running: Vec<Known> = clusters.iter().filter(|it| it.pid.is_some()).cloned().collect();
    let candidates = if running.is_empty() { clusters } else { running };
    match candidates.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.data_dir.clone())),
        several => bail!("which cluster? Say it with --name; there are\n{}", table(several)),
    }
}

/// As `xebec list` shows them.
pub(crate) fn table(clusters: &[Known]) -> String {
    let mut rows =
        vec![["NAME", "STATE", "PID", "NODES", "API SERVER", "DATA DIRECTORY"].map(str::to_owned)];
    rows.extend(clusters.iter().map(|it| {
        [
            it.cluster.name.to_string(),
            if it.pid.is_some() { "running" } else { "stopped" }.to_owned(),
            it.pid.map_or_else(|| "-".to_owned(), |it| it.to_string()),
            it.cluster.nodes_here().len().to_string(),
            format!("https://{}", it.cluster.server()),
            it.data_dir.display().to_string(),
        ]
    }));
    crate::progress::align(&rows).join("\n")
}

#[cfg(test)]
mod tests {
    use super::{pick, table};
    use crate::cluster::Known;
    use crate::cluster::choice::tests::cluster;

    fn known(name: &str, pid: Option<i32>) -> Known {
        let data_dir = format!("/data/{name}").into();
        Known { cluster: cluster(name), data_dir, pid }
    }

    #[test]
    fn the_one_that_runs_is_meant_else_the_one_that_there_is() {
        let check = |clusters: &[(&str, Option<i32>)], expected: &str| {
            let clusters = clusters.iter().map(|(name, pid)| known(name, *pid)).collect();
            let picked = pick(clusters)
                .map(|it| it.map_or_else(|| "none".to_owned(), |it| it.display().to_string()));
            let picked =
                picked.unwrap_or_else(|err| err.to_string().lines().next().unwrap().to_owned());
            assert_eq!(picked, expected);
        };
        check(&[], "none");
        check(&[("a", None)], "/data/a");
        check(&[("a", None), ("b", Some(7))], "/data/b");
        check(&[("a", None), ("b", None)], "which cluster? Say it with --name; there are");
        check(&[("a", Some(6)), ("b", Some(7))], "which cluster? Say it with --name; there are");
    }

    #[test]
    fn clusters_are_listed_with_what_tells_them_apart() {
        assert_eq!(
            table(&[known("a", None), known("xebec", Some(42))]),
            "NAME    STATE     PID   NODES   API SERVER               DATA DIRECTORY\n\
             a       stopped   -     1       https://127.0.0.1:6443   /data/a\n\
             xebec   running   42    1       https://127.0.0.1:6443   /data/xebec"
        );
    }
}
