//! Chains that the kernel tells of: those of nft, of firewalld, and of iptables where that is made of
//! nf_tables.

use std::collections::BTreeMap;

use linux::netlink::Error;
use linux::netlink::nftables::{
    ChainKind, Change, ForeignChain, HookPoint, Nftables, Policy, TableId,
};
use node_api::ClusterId;
use stdx::Cidr;

use super::plan::{Passage, Place, Step};
use super::rules::{self, Pass};

/// More nobody's passage is looked through.
const CHAINS_MAX: usize = 256;
/// How the names of tables of ours begin, of whatever cluster.
pub(super) const OURS: &str = "xebec-";

pub(super) struct Tables {
    socket: Nftables,
    cluster: ClusterId,
    pods: Vec<Cidr>,
}

/// Where packets of pods are refused, and nobody but its owner can change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned(pub(super) TableId);

impl Tables {
    pub(super) fn new(socket: Nftables, cluster: ClusterId, pods: Vec<Cidr>) -> Self {
        Self { socket, cluster, pods }
    }

    /// What notices of our own changes carry.
    pub(super) fn port(&self) -> u32 {
        self.socket.port()
    }

    /// Lets packets of pods pass. One table that cannot be changed keeps no other from it.
    pub(super) fn open(&mut self) -> Result<(Vec<Owned>, Vec<Error>), Error> {
        let tables = self.socket.foreign_tables()?;
        let owned: Vec<_> = tables.into_iter().filter(|it| it.is_owned).map(|it| it.id).collect();
        let (mut left, mut errors) = (Vec::new(), Vec::new());
        for chain in self.chains_at(HookPoint::Forward)? {
            let passage = self.read(&chain)?;
            let passes = rules::passes(self.cluster, &self.pods, chain.table.family);
            if owned.contains(&chain.table) {
                left.extend(passage.place().map(|_| Owned(chain.table)));
                continue;
            }
            let changes = self.changes(&passage, &passes);
            if !changes.is_empty() {
                tracing::info!(table = %chain.table, chain = chain.name, ?changes, "pods' packets pass");
                errors.extend(self.socket.apply_to(&chain.table, &changes).err());
            }
        }
        left.dedup();
        Ok((left, errors))
    }

    /// The chains, as `nft` names them, that refuse what is for this machine itself.
    pub(super) fn closed_to_the_machine(&mut self) -> Result<Vec<String>, Error> {
        let mut closed = Vec::new();
        for chain in self.chains_at(HookPoint::Input)? {
            if self.read(&chain)?.place().is_some() {
                closed.push(format!("{} {}", chain.table, chain.name));
            }
        }
        Ok(closed)
    }

    pub(super) fn purge(&mut self) -> Result<(), Error> {
        for chain in self.chains_at(HookPoint::Forward)? {
            let rules = self.socket.foreign_rules(&chain.table, &chain.name)?;
            let prefix = rules::prefix(self.cluster);
            let ours = rules.into_iter().filter(|it| it.comment.starts_with(&prefix));
            let delete = |handle| Change::DeleteRule { chain: chain.name.clone(), handle };
            let changes: Vec<_> = ours.map(|it| delete(it.handle)).collect();
            if !changes.is_empty() {
                self.socket.apply_to(&chain.table, &changes)?;
            }
        }
        Ok(())
    }

    fn chains_at(&mut self, point: HookPoint) -> Result<Vec<ForeignChain>, Error> {
        let is_there = |it: &ForeignChain| {
            let is_at = |it| matches!(it, Some((ChainKind::Filter, at)) if at == point);
            is_at(it.hook.map(|it| (it.kind, it.point))) && !it.table.name.starts_with(OURS)
        };
        Ok(self.socket.foreign_chains()?.into_iter().filter(is_there).collect())
    }

    fn read(&mut self, chain: &ForeignChain) -> Result<Passage, Error> {
        let mut passage = Passage {
            name: chain.name.clone(),
            is_closed: chain.hook.is_some_and(|it| it.policy == Policy::Drop),
            chains: BTreeMap::new(),
        };
        let mut next = Some(chain.name.clone());
        while let Some(name) = next.filter(|_| passage.chains.len() < CHAINS_MAX) {
            let rules = self.socket.foreign_rules(&chain.table, &name)?;
            passage.chains.insert(name, rules);
            next = passage.unknown();
        }
        Ok(passage)
    }

    fn changes(&self, passage: &Passage, passes: &[Pass]) -> Vec<Change> {
        let prefix = rules::prefix(self.cluster);
        let rules: Vec<_> = passes.iter().map(Pass::rule).collect();
        let wanted: Vec<_> = rules.iter().map(|it| it.signature()).collect();
        let chain = || passage.name.clone();
        let change = |step: Step| match step {
            Step::Delete(handle) => Change::DeleteRule { chain: chain(), handle },
            Step::Add(n, Place::Before(before)) => {
                Change::InsertRule { chain: chain(), before, rule: rules[n].clone() }
            }
            Step::Add(n, Place::End) => Change::AddRule { chain: chain(), rule: rules[n].clone() },
        };
        let steps = passage.steps(&wanted, |it| it.starts_with(&prefix));
        steps.into_iter().map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Child, Command, Stdio};

    use linux::netlink::nftables::TableFamily;
    use linux::network_namespace::NetworkNamespace;

    use super::*;

    /// Has its table as long as it runs, for itself alone.
    struct Owner(Child);

    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    const OWNED: &str = "add table inet firewalld { flags owner; }
add chain inet firewalld filter_FORWARD { type filter hook forward priority filter; policy drop; }
";

    fn owner(namespace: &NetworkNamespace) -> Option<Owner> {
        let spawn = || {
            let mut command = Command::new("nft");
            command.arg("-i").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
        };
        let mut owner = match namespace.run(spawn).unwrap() {
            Ok(child) => Owner(child),
            Err(err) => {
                println!("SKIPPED: nft does not run: {err}");
                return None;
            }
        };
        owner.0.stdin.as_mut().unwrap().write_all(OWNED.as_bytes()).unwrap();
        Some(owner)
    }

    #[test]
    fn a_table_that_is_its_owners_alone_is_told_and_keeps_no_other_closed() {
        let namespace = match NetworkNamespace::create() {
            Ok(namespace) => namespace,
            Err(err) => return println!("SKIPPED: {err}: {}", err.source),
        };
        let Some(owner) = owner(&namespace) else { return };
        let cluster: ClusterId = "00c0ffee".parse().unwrap();
        let pods = vec!["10.244.0.0/16".parse().unwrap()];
        let id = || TableId::new(TableFamily::Ip, "filter");
        let run = || {
            let mut tables = Tables::new(Nftables::open(id()).unwrap(), cluster, pods);
            let others = "add table ip filter
                add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }";
            assert!(Command::new("nft").arg(others).status().unwrap().success());
            // Until the owner's commands were read.
            while !tables.socket.tables().unwrap().iter().any(|it| it.name == "firewalld") {}
            while tables.chains_at(HookPoint::Forward).unwrap().len() < 2 {}
            let (left, errors) = tables.open().unwrap();
            let owned = [Owned(TableId::new(TableFamily::Inet, "firewalld"))];
            assert_eq!((left, errors.len()), (owned.into(), 0));
            let rules = tables.socket.foreign_rules(&id(), "FORWARD").unwrap();
            assert_eq!(rules.len(), 2);
            tables.purge().unwrap();
            assert_eq!(tables.socket.foreign_rules(&id(), "FORWARD").unwrap(), []);
        };
        namespace.run(run).unwrap();
        drop(owner);
    }
}
