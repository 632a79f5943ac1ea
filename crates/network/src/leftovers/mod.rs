//! What other Kubernetes, or their networks, have left on this machine: chains, tables, sets, links
//! and files that look like theirs and that nobody looks after.
//!
//! Found by name (`names`), as far as the name is nobody else's. What a cluster of ours has is known
//! by its id and never among it. While a program runs here whose things these may be, they are no
//! leftovers.

mod chains;
mod files;
mod legacy;
mod names;
mod owners;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use linux::netlink;
use linux::netlink::ip_sets::IpSets;
use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use linux::netlink::route::{Address, Link, LinkChange, RouteSocket};
use stdx::{Family, error_chain};

pub use owners::Owner;

use crate::firewalls::ProgramError;

/// Of so many names as many are shown.
const SHOWN_MAX: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("look at {}", .0.display())]
    Look(PathBuf, #[source] io::Error),
    #[error("remove {}", .0.display())]
    Remove(PathBuf, #[source] io::Error),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Of nftables.
    Table(TableId),
    /// Of iptables, and rules that lead to them.
    Chains {
        table: TableId,
        chains: Vec<String>,
    },
    /// The same of its older variant.
    LegacyChains {
        family: Family,
        table: String,
        chains: Vec<String>,
    },
    IpSet(String),
    Link(String),
    /// A file, or a folder with what is in it.
    File(PathBuf),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(id) => write!(f, "table {id}"),
            Self::Chains { table, chains } => {
                write!(f, "chains of table {table}: {}", shown(chains))
            }
            Self::LegacyChains { family, table, chains } => {
                let program = legacy::program(*family);
                write!(f, "chains of {program} -t {table}: {}", shown(chains))
            }
            Self::IpSet(name) => write!(f, "ipset {name}"),
            Self::Link(name) => write!(f, "link {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

fn shown(names: &[String]) -> String {
    let first: Vec<_> = names.iter().take(SHOWN_MAX).map(String::as_str).collect();
    match names.len().checked_sub(SHOWN_MAX) {
        None | Some(0) => first.join(", "),
        Some(n_more) => format!("{} and {n_more} more", first.join(", ")),
    }
}

/// In the network namespace of the calling thread, and among files below `root`. In the order in which
/// they can be removed.
pub fn find(root: &Path) -> Result<Vec<Leftover>, Error> {
    let mut socket = Nftables::open(TableId::new(TableFamily::Ip, ""))?;
    let mut found: Vec<Leftover> = chains::find(&mut socket)?;
    found.extend(legacy::find()?);
    let tables = socket.tables()?.into_iter().filter(|it| names::is_table(&it.name));
    found.extend(tables.map(Leftover::Table));
    let sets = IpSets::open()?.names()?.into_iter().filter(|it| names::is_set(it));
    found.extend(sets.map(Leftover::IpSet));
    let mut routes = RouteSocket::open()?;
    let (links, addresses) = (routes.links()?, routes.addresses()?);
    let links = links.into_iter().filter(|it| is_left(it, &addresses));
    found.extend(links.map(|it| Leftover::Link(it.name)));
    found.extend(files::find(root)?.into_iter().map(Leftover::File));
    Ok(found)
}

/// Programs that run in the network namespace of the calling thread, and whose what is found may be.
pub fn owners() -> Result<Vec<Owner>, Error> {
    owners::find()
}

/// Links of ours are in a group, whatever they are called. The tunnel that the kernel has by itself
/// is somebody's if it is in use.
fn is_left(link: &Link, addresses: &[Address]) -> bool {
    let is_used = || link.is_up || addresses.iter().any(|it| it.link == link.index);
    link.group == 0 && names::is_link(&link.name) && (!names::is_of_kernel(&link.name) || is_used())
}

impl Leftover {
    /// In the network namespace of the calling thread. What is gone already is no error.
    pub fn remove(&self) -> Result<(), Error> {
        match self {
            Self::Table(id) => Ok(Nftables::open(id.clone())?.purge()?),
            Self::Chains { table, .. } => chains::remove(table),
            Self::LegacyChains { family, table, .. } => legacy::remove(*family, table),
            Self::IpSet(name) => Ok(IpSets::open()?.destroy(name)?),
            Self::Link(name) => remove_link(name),
            Self::File(path) => files::remove(path).map_err(|err| Error::Remove(path.clone(), err)),
        }
    }
}

fn remove_link(name: &str) -> Result<(), Error> {
    let mut routes = RouteSocket::open()?;
    let Some(link) = routes.link(name)? else { return Ok(()) };
    if !names::is_of_kernel(name) {
        return Ok(routes.delete_link(&link)?);
    }
    for it in routes.addresses()?.iter().filter(|it| it.link == link.index) {
        routes.delete_address(&link, it.address, it.prefix_length)?;
    }
    let down = LinkChange { is_up: Some(false), ..LinkChange::default() };
    Ok(routes.change_link(&link, down)?)
}

/// At a start: says what is there, if nobody looks after it.
pub(crate) fn warn() {
    let found = match find(Path::new("/")) {
        Ok(found) if found.is_empty() => return,
        Ok(found) => found,
        Err(err) => {
            let error = error_chain(&err);
            return tracing::warn!(error, "could not look for what other clusters left here");
        }
    };
    // Who cannot be asked is not there.
    if owners().is_ok_and(|it| it.is_empty()) {
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        tracing::warn!(
            ?found,
            "other clusters left this here: it may keep packets from pods and Services; `xebec clean --foreign` removes it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_told_in_short() {
        let names = |n: usize| (0..n).map(|it| format!("KUBE-{it}")).collect::<Vec<_>>();
        assert_eq!(shown(&names(1)), "KUBE-0");
        assert_eq!(shown(&names(4)), "KUBE-0, KUBE-1, KUBE-2, KUBE-3");
        assert_eq!(shown(&names(9)), "KUBE-0, KUBE-1, KUBE-2, KUBE-3 and 5 more");
    }
}
