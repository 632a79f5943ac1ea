//! The agent of a node: this binary as `xebec join`, started among the node's processes; and what
//! it is told, kept so that whoever starts it again tells it the same.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::place::{self, Place};
use crate::data_dir::{self, make_private, write_private};
use crate::detach;

/// Whatever all agents of a cluster are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Start {
    /// `10.234.0.1:6443`
    pub(crate) server: String,
    /// Those of `xebec up` that are about any node.
    pub(crate) flags: Vec<String>,
    /// For one that has not joined yet. Never kept.
    #[serde(skip)]
    pub(crate) token: Option<String>,
}

fn kept(cluster_directory: &Path) -> PathBuf {
    place::folder(cluster_directory).join("agents.json")
}

impl Start {
    /// For `xebec node start`.
    pub(crate) fn save(&self, cluster_directory: &Path) -> Result<()> {
        let path = kept(cluster_directory);
        let write = || {
            make_private(&place::folder(cluster_directory))?;
            write_private(&path, &serde_json::to_vec(self)?)
        };
        write().with_context(|| format!("writing {}", path.display()))
    }

    pub(crate) fn load(cluster_directory: &Path) -> Result<Self> {
        let path = kept(cluster_directory);
        let doing = || format!("reading {}", path.display());
        let text = std::fs::read(&path).with_context(doing)?;
        serde_json::from_slice(&text).with_context(doing)
    }
}

/// The command line of `xebec join` there. Pure.
fn arguments(place: &Place, start: &Start) -> Vec<String> {
    let ips: Vec<String> = place.ips().iter().map(ToString::to_string).collect();
    let data = place.data().display().to_string();
    let own = [
        "xebec",
        "join",
        &start.server,
        "--data-dir",
        &data,
        "--node-name",
        &place.name,
        "--node-ip",
        &ips.join(","),
        "--detached-child",
    ];
    let token: &[&str] = if start.token.is_some() { &["--token-file", "-"] } else { &[] };
    let own = own.iter().chain(token).map(|it| (*it).to_owned());
    own.chain(start.flags.iter().cloned()).collect()
}

/// Returns when the node is Ready, or, where the cluster does not answer, when it runs.
pub(super) fn start(place: &Place, start: &Start) -> Result<()> {
    let mut child = super::command("enter")
        .arg(&place.directory)
        .arg(&place.cgroup)
        .args(arguments(place, start))
        .env(crate::cluster::REGISTRY_VARIABLE, place.registry())
        .stdin(if start.token.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting its agent")?;
    if let (Some(token), Some(mut stdin)) = (&start.token, child.stdin.take()) {
        // One that ends before it has read it says why.
        let _ = stdin.write_all(token.as_bytes());
    }
    let followed = detach::follow(&mut child, |_| ())?;
    // It was there to start the agent only.
    child.wait().context("starting its agent")?;
    match followed.is_ready {
        true => Ok(()),
        false => {
            let log = data_dir::log_file(&place.data());
            let said = followed.said.trim_start_matches("error: ");
            bail!("its agent did not start: {said} (see {})", log.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_told_where_it_is_and_whom_to_join() {
        let start = Start {
            server: "10.234.0.1:6443".to_owned(),
            flags: vec!["--network".to_owned(), "host-gw".to_owned()],
            token: Some("secret".to_owned()),
        };
        let places = place::tests::places();
        assert_eq!(
            arguments(&places[0], &start).join(" "),
            "xebec join 10.234.0.1:6443 --data-dir /data/a/nodes/host-2/data --node-name host-2 \
             --node-ip 10.234.0.2,fd00:10:234::2 --detached-child --token-file - --network host-gw"
        );
        let again = Start { token: None, ..start };
        assert!(!arguments(&places[0], &again).iter().any(|it| it == "--token-file"));
    }
}
