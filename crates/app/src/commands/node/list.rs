//! `xebec node list`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::super::{Output, render_json};
use crate::cluster::Cluster;
use crate::data_dir;
use crate::local_nodes::{Node, State};
use crate::progress::{align, say};

/// As `-o json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    state: State,
    /// Empty: wherever the machine is.
    addresses: Vec<IpAddr>,
    /// Of the process whose namespaces the node has; of the machine's own node the one of `up`.
    pid: Option<i32>,
    /// Of the agent.
    agent_pid: Option<i32>,
    data_dir: PathBuf,
}

pub(super) fn run(cluster: &Cluster, path: &Path, output: Output) -> Result<()> {
    let mut rows = Vec::new();
    rows.extend(own(cluster, path)?);
    for node in Node::all(cluster, path) {
        let observed = node.observe()?;
        rows.push(Row {
            name: node.place.name.clone(),
            state: observed.state(),
            addresses: node.place.ips(),
            pid: observed.init,
            agent_pid: observed.agent,
            data_dir: node.place.data(),
        });
    }
    match output {
        Output::Json => say(&render_json(&rows)?),
        Output::Text => say(&table(&rows)),
    }
    Ok(())
}

/// The one of `up` itself.
fn own(cluster: &Cluster, path: &Path) -> Result<Option<Row>> {
    let Some(node) = &cluster.node else { return Ok(None) };
    let pid = data_dir::running(path)?.map(|it| it.as_raw_nonzero().get());
    Ok(Some(Row {
        name: node.name.clone(),
        state: if pid.is_some() { State::Running } else { State::Stopped },
        addresses: cluster.node_ips(),
        pid,
        agent_pid: pid,
        data_dir: path.to_owned(),
    }))
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![["NAME", "STATE", "PID", "ADDRESS", "DATA DIRECTORY"].map(str::to_owned)];
    lines.extend(rows.iter().map(|it| {
        let addresses: Vec<String> = it.addresses.iter().map(ToString::to_string).collect();
        let none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        [
            it.name.clone(),
            it.state.to_string(),
            none(it.pid.map(|it| it.to_string()).unwrap_or_default()),
            none(addresses.join(",")),
            it.data_dir.display().to_string(),
        ]
    }));
    align(&lines).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_with_how_they_are() {
        let row = |name: &str, state: State, address: &str, pid: Option<i32>| Row {
            name: name.to_owned(),
            state,
            addresses: address.parse().into_iter().collect(),
            pid,
            agent_pid: None,
            data_dir: format!("/data/{name}").into(),
        };
        let rows = [
            row("a", State::Running, "", Some(7)),
            row("a-2", State::Isolated, "10.234.0.2", Some(4711)),
            row("a-3", State::Dead, "10.234.0.3", None),
        ];
        assert_eq!(
            table(&rows),
            "NAME   STATE      PID    ADDRESS      DATA DIRECTORY\n\
             a      running    7      -            /data/a\n\
             a-2    isolated   4711   10.234.0.2   /data/a-2\n\
             a-3    dead       -      10.234.0.3   /data/a-3"
        );
    }
}
