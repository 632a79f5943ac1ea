//! Chains of iptables where that is made of nf_tables: removed with the rules that lead to them, each
//! table at once or not at all.

use std::collections::BTreeMap;

use linux::netlink::Error;
use linux::netlink::nftables::{Change, Ending, ForeignRule, Nftables, TableId, Verdict};

use super::{Leftover, names};

pub(super) fn find(socket: &mut Nftables) -> Result<Vec<Leftover>, Error> {
    let mut tables: BTreeMap<(u8, String), Vec<String>> = BTreeMap::new();
    let mut of_family: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    let mut ids = BTreeMap::new();
    for chain in socket.foreign_chains()? {
        if names::is_table_of_iptables(&chain.table.name) {
            let family = chain.table.family as u8;
            of_family.entry(family).or_default().push(chain.name.clone());
            let key = (family, chain.table.name.clone().into_owned());
            ids.insert(key.clone(), chain.table);
            tables.entry(key).or_default().push(chain.name);
        }
    }
    let mut found = Vec::new();
    for (key, chains) in tables {
        let all = of_family.get(&key.0).map(Vec::as_slice).unwrap_or_default();
        let left = names::left(all.iter().map(String::as_str));
        let mut chains: Vec<_> =
            chains.into_iter().filter(|it| left.contains(&it.as_str())).collect();
        chains.sort();
        if let Some(table) = ids.get(&key).filter(|_| !chains.is_empty()) {
            found.push(Leftover::Chains { table: table.clone(), chains });
        }
    }
    Ok(found)
}

/// Those that are left in the table now.
pub(super) fn remove(table: &TableId) -> Result<(), super::Error> {
    let mut socket = Nftables::open(table.clone())?;
    let is_it =
        |it: &Leftover| matches!(it, Leftover::Chains { table: found, .. } if found == table);
    let found = find(&mut socket)?.into_iter().find(is_it);
    let Some(Leftover::Chains { chains, .. }) = found else { return Ok(()) };
    let all = socket.foreign_chains()?.into_iter().filter(|it| it.table == *table);
    let mut rules = BTreeMap::new();
    for chain in all.collect::<Vec<_>>() {
        let of_chain = socket.foreign_rules(table, &chain.name)?;
        rules.insert(chain.name, of_chain);
    }
    Ok(socket.apply(&changes(&rules, &chains))?)
}

/// Rules that lead to a chain go before it, and its own as well: chains lead to each other.
fn changes(rules: &BTreeMap<String, Vec<ForeignRule>>, gone: &[String]) -> Vec<Change> {
    let leads_there = |rule: &&ForeignRule| match &rule.ending {
        Some(Ending::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain))) => gone.contains(chain),
        _ => false,
    };
    let mut changes = Vec::new();
    for (chain, rules) in rules.iter().filter(|(name, _)| !gone.contains(name)) {
        let leading = rules.iter().filter(leads_there);
        changes.extend(
            leading.map(|it| Change::DeleteRule { chain: chain.clone(), handle: it.handle }),
        );
    }
    let has_rules = |it: &&String| rules.get(*it).is_some_and(|it| !it.is_empty());
    changes.extend(gone.iter().filter(has_rules).cloned().map(Change::FlushChain));
    changes.extend(gone.iter().cloned().map(Change::DeleteChain));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_lead_to_a_chain_go_with_it_and_others_stay() {
        let jump = |handle, to: &str| ForeignRule {
            handle,
            ending: Some(Ending::Verdict(Verdict::Jump(to.into()))),
            ..ForeignRule::default()
        };
        let rules = BTreeMap::from([
            ("FORWARD".to_owned(), vec![jump(1, "DOCKER"), jump(2, "KUBE-FORWARD")]),
            ("KUBE-FORWARD".to_owned(), vec![jump(3, "KUBE-X")]),
            ("KUBE-X".to_owned(), vec![]),
        ]);
        let gone = ["KUBE-FORWARD".to_owned(), "KUBE-X".to_owned()];
        let expected = [
            Change::DeleteRule { chain: "FORWARD".into(), handle: 2 },
            Change::FlushChain("KUBE-FORWARD".into()),
            Change::DeleteChain("KUBE-FORWARD".into()),
            Change::DeleteChain("KUBE-X".into()),
        ];
        assert_eq!(changes(&rules, &gone), expected);
    }
}
