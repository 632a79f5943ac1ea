//! The same of the older iptables, by its programs.

use std::collections::BTreeMap;
use std::path::Path;

use linux::network_namespace::NetworkNamespace;
use stdx::Family;

use super::{Error, Leftover, names};
use crate::firewalls::{ProgramError, legacy_program, run_program};

/// As people call it.
pub(super) fn program(family: Family) -> String {
    legacy_program(family, "save").trim_end_matches("-save").to_owned()
}

/// The tables that the kernel has already: who asks the program for another one makes it.
fn tables(family: Family) -> Vec<String> {
    let name = match family {
        Family::V4 => "ip_tables_names",
        Family::V6 => "ip6_tables_names",
    };
    // Without the older variant there is no such file.
    let names = std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    names.unwrap_or_default().lines().map(str::to_owned).collect()
}

pub(super) fn find() -> Result<Vec<Leftover>, Error> {
    let mut found = Vec::new();
    for family in [Family::V4, Family::V6] {
        let mut saved = BTreeMap::new();
        for table in tables(family) {
            saved.insert(table.clone(), save(family, &table)?);
        }
        let left = names_left(&saved);
        for (table, chains) in left {
            found.push(Leftover::LegacyChains { family, table, chains });
        }
    }
    Ok(found)
}

/// Of each table those that are left, if there are any.
fn names_left(saved: &BTreeMap<String, String>) -> BTreeMap<String, Vec<String>> {
    let all = saved.values().flat_map(|it| chains_of(it));
    let left = names::left(all);
    let of_table = |text: &str| -> Vec<String> {
        let chains = chains_of(text).filter(|it| left.contains(it));
        chains.map(str::to_owned).collect()
    };
    let tables = saved.iter().map(|(table, text)| (table.clone(), of_table(text)));
    tables.filter(|(_, chains)| !chains.is_empty()).collect()
}

fn save(family: Family, table: &str) -> Result<String, Error> {
    let here = NetworkNamespace::current();
    let here = here.map_err(|err| Error::Look("/proc/thread-self/ns/net".into(), err.source))?;
    let program = legacy_program(family, "save");
    match run_program(&here, Path::new(&program), &["-t", table], "") {
        // Who has no such program has nothing by it.
        Err(ProgramError::Missing(_)) => Ok(String::new()),
        result => Ok(result?),
    }
}

fn chains_of(saved: &str) -> impl Iterator<Item = &str> + Clone {
    saved.lines().filter_map(|it| it.strip_prefix(':')?.split_whitespace().next())
}

pub(super) fn remove(family: Family, table: &str) -> Result<(), Error> {
    let mut saved = BTreeMap::new();
    for it in tables(family) {
        saved.insert(it.clone(), save(family, &it)?);
    }
    let left = names_left(&saved).remove(table).unwrap_or_default();
    if left.is_empty() {
        return Ok(());
    }
    let input = removal(table, saved.get(table).map_or("", String::as_str), &left);
    let here = NetworkNamespace::current();
    let here = here.map_err(|err| Error::Look("/proc/thread-self/ns/net".into(), err.source))?;
    let program = legacy_program(family, "restore");
    let words = ["--noflush", "--wait", "5"];
    run_program(&here, Path::new(&program), &words, &input)?;
    Ok(())
}

/// Chains that are named are emptied; then rules that lead to them go, and they themselves.
fn removal(table: &str, saved: &str, gone: &[String]) -> String {
    let mut lines = vec![format!("*{table}")];
    lines.extend(gone.iter().map(|it| format!(":{it} - [0:0]")));
    let leads_there = |rule: &str| {
        let mut words = rule.split_whitespace().rev();
        let is_chain = |it: &str| gone.iter().any(|gone| gone == it);
        let target = words.next().is_some_and(is_chain);
        target && matches!(words.next(), Some("-j" | "-g"))
    };
    let is_kept_chain = |rule: &str| {
        let chain = rule.split_whitespace().next().unwrap_or_default();
        !gone.iter().any(|it| it == chain)
    };
    let rules = saved.lines().filter_map(|it| it.strip_prefix("-A "));
    let rules = rules.filter(|it| is_kept_chain(it) && leads_there(it));
    lines.extend(rules.map(|it| format!("-D {it}")));
    lines.extend(gone.iter().map(|it| format!("-X {it}")));
    lines.push("COMMIT\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_go_with_the_rules_that_lead_to_them() {
        let saved = "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-X - [0:0]\n\
                     -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
                     -A PREROUTING -j DOCKER\n-A KUBE-SERVICES -j KUBE-X\nCOMMIT\n";
        let all = BTreeMap::from([("nat".to_owned(), saved.to_owned())]);
        let left = names_left(&all).remove("nat").unwrap();
        assert_eq!(left, ["KUBE-SERVICES", "KUBE-X"]);
        let expected = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-X - [0:0]\n\
                        -D PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
                        -X KUBE-SERVICES\n-X KUBE-X\nCOMMIT\n";
        assert_eq!(removal("nat", saved, &left), expected);
    }
}
