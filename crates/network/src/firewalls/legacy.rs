//! Chains of iptables in its older variant, of which the kernel tells nobody and which only iptables
//! itself changes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use linux::netlink::nftables::{Ending, ForeignRule, TableFamily, Verdict};
use linux::network_namespace::NetworkNamespace;
use node_api::ClusterId;
use stdx::{Cidr, Family};

use super::plan::{Passage, Place, Step};
use super::programs::{self, Error};
use super::rules::{self, Pass};

const TABLE: &str = "filter";
const CHAIN: &str = "FORWARD";
/// The chains that the kernel has: where others jump to is none of these.
const TARGETS: [&str; 4] = ["ACCEPT", "DROP", "REJECT", "RETURN"];

/// Lets packets of pods pass, where the kernel has such chains at all.
pub(super) fn open(
    namespace: &NetworkNamespace,
    cluster: ClusterId,
    pods: &[Cidr],
) -> Result<(), Error> {
    each_family(namespace, |family| {
        let table = match family {
            Family::V4 => TableFamily::Ip,
            Family::V6 => TableFamily::Ip6,
        };
        let passes = rules::passes(cluster, pods, table);
        converge(namespace, cluster, family, Some(&passes))
    })
}

pub(super) fn purge(namespace: &NetworkNamespace, cluster: ClusterId) -> Result<(), Error> {
    each_family(namespace, |family| converge(namespace, cluster, family, None))
}

fn each_family(
    namespace: &NetworkNamespace,
    mut run: impl FnMut(Family) -> Result<(), Error>,
) -> Result<(), Error> {
    for family in [Family::V4, Family::V6] {
        let found = namespace.run(|| has_table(family));
        let found = found.map_err(|err| io_error(err.source))?.map_err(io_error)?;
        if found {
            run(family)?;
        }
    }
    Ok(())
}

fn io_error(source: io::Error) -> Error {
    Error::Run { program: "iptables-legacy-save".into(), source }
}

/// Asks the kernel, and makes nothing: who asks the program makes the table.
fn has_table(family: Family) -> io::Result<bool> {
    let name = match family {
        Family::V4 => "ip_tables_names",
        Family::V6 => "ip6_tables_names",
    };
    match std::fs::read_to_string(format!("/proc/thread-self/net/{name}")) {
        Ok(names) => Ok(names.lines().any(|it| it == TABLE)),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(err) => Err(err),
    }
}

pub(crate) fn program(family: Family, verb: &str) -> String {
    let family = match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    format!("{family}-legacy-{verb}")
}

/// `None`: nothing of ours should be there.
fn converge(
    namespace: &NetworkNamespace,
    cluster: ClusterId,
    family: Family,
    passes: Option<&[Pass]>,
) -> Result<(), Error> {
    let save = program(family, "save");
    let saved = programs::run(namespace, Path::new(&save), &["-t", TABLE], "")?;
    let passage = parse(&saved);
    let is_ours = |it: &str| it.starts_with(&rules::prefix(cluster));
    let steps = match passes {
        Some(passes) => {
            let wanted: Vec<_> = passes.iter().map(|it| it.comment().to_owned()).collect();
            passage.steps(&wanted, is_ours)
        }
        None => {
            let ours = passage.rules().iter().filter(|it| is_ours(&it.comment));
            ours.map(|it| Step::Delete(it.handle)).collect()
        }
    };
    if steps.is_empty() {
        return Ok(());
    }
    tracing::info!(?steps, "pods' packets in the older iptables");
    let input = render(&steps, passes.unwrap_or_default());
    let restore = program(family, "restore");
    let words = ["--noflush", "--counters", "--wait", "5"];
    programs::run(namespace, Path::new(&restore), &words, &input).map(drop)
}

/// A rule's handle is its number, from one on.
fn parse(saved: &str) -> Passage {
    let mut chains: BTreeMap<String, Vec<ForeignRule>> = BTreeMap::new();
    let mut is_closed = false;
    for line in saved.lines() {
        if let Some(rest) = line.strip_prefix(':') {
            let mut words = rest.split_whitespace();
            let name = words.next().unwrap_or_default();
            is_closed |= name == CHAIN && words.next() == Some("DROP");
            chains.entry(name.to_owned()).or_default();
        } else if let Some((name, words)) =
            line.strip_prefix("-A ").and_then(|it| it.split_once(' '))
        {
            let rules = chains.entry(name.to_owned()).or_default();
            let handle = rules.len() as u64 + 1;
            rules.push(ForeignRule { handle, ..read_rule(words) });
        }
    }
    Passage { name: CHAIN.to_owned(), is_closed, chains }
}

/// Whatever is not understood is taken for something that is asked of packets.
fn read_rule(text: &str) -> ForeignRule {
    let mut rule = ForeignRule { is_for_all: true, ..ForeignRule::default() };
    let words = split(text);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "-m" => rule.is_for_all &= words.next() == Some("comment"),
            "--comment" => words.next().unwrap_or_default().clone_into(&mut rule.comment),
            "-j" => rule.ending = words.next().and_then(|it| ending(it, Verdict::Jump)),
            "-g" => rule.ending = words.next().and_then(|it| ending(it, Verdict::Goto)),
            // What a target is told to do changes nothing of whom it is for.
            _ if rule.ending.is_some() => {}
            _ => rule.is_for_all = false,
        }
    }
    rule
}

fn ending(target: &str, to: impl FnOnce(String) -> Verdict) -> Option<Ending> {
    let is_extension = target.bytes().all(|it| it.is_ascii_uppercase());
    match target {
        "ACCEPT" => Some(Ending::Verdict(Verdict::Accept)),
        "DROP" => Some(Ending::Verdict(Verdict::Drop)),
        "RETURN" => Some(Ending::Verdict(Verdict::Return)),
        "REJECT" => Some(Ending::Reject),
        "LOG" | "NFLOG" | "MARK" | "CONNMARK" => None,
        _ if is_extension && TARGETS.contains(&target) => Some(Ending::Other),
        _ => Some(Ending::Verdict(to(target.to_owned()))),
    }
}

/// Words, of which some are in double quotes.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            '\\' if is_quoted => word.get_or_insert_default().extend(letters.next()),
            ' ' if !is_quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// All steps at once or none. Numbers of rules change with each that goes or comes.
fn render(steps: &[Step], passes: &[Pass]) -> String {
    let mut gone: Vec<u64> = steps
        .iter()
        .filter_map(|it| match it {
            Step::Delete(handle) => Some(*handle),
            Step::Add(..) => None,
        })
        .collect();
    gone.sort_unstable();
    let mut lines = vec![format!("*{TABLE}")];
    lines.extend(gone.iter().rev().map(|it| format!("-D {CHAIN} {it}")));
    let mut n_added = 0;
    for step in steps {
        let Step::Add(n, place) = step else { continue };
        let words = passes.get(*n).map(Pass::words).unwrap_or_default();
        lines.push(match place {
            Place::End => format!("-A {CHAIN} {words}"),
            Place::Before(handle) => {
                let n_gone = gone.iter().filter(|it| *it < handle).count() as u64;
                n_added += 1;
                format!("-I {CHAIN} {} {words}", handle - n_gone + n_added - 1)
            }
        });
    }
    lines.push("COMMIT\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(saved: &str, expected: &[&str]) {
        let pods = ["10.244.0.0/16".parse().unwrap()];
        let cluster = "00c0ffee".parse().unwrap();
        let passes = rules::passes(cluster, &pods, TableFamily::Ip);
        let wanted: Vec<_> = passes.iter().map(|it| it.comment().to_owned()).collect();
        let steps = parse(saved).steps(&wanted, |it| it.starts_with("xebec-00c0ffee: "));
        let input = render(&steps, &passes);
        let of_rule = |it: &str| it.split(" -m comment").next().unwrap().to_owned();
        let lines: Vec<_> = input.lines().filter(|it| it.starts_with('-')).map(of_rule).collect();
        assert_eq!(lines, expected, "{saved}");
    }

    #[test]
    fn pods_pass_right_before_the_last_word() {
        check("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -i docker0 -j DROP\n", &[]);
        let at_end = ["-A FORWARD -s 10.244.0.0/16", "-A FORWARD -d 10.244.0.0/16"];
        let docker = "*filter\n:FORWARD DROP [0:0]\n:DOCKER-USER - [0:0]\n-A FORWARD -j DOCKER-USER\n\
                      -A FORWARD -o docker0 -j ACCEPT\n-A DOCKER-USER -j RETURN\n";
        check(docker, &at_end);
        let before = ["-I FORWARD 2 -s 10.244.0.0/16", "-I FORWARD 3 -d 10.244.0.0/16"];
        check(
            "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m state --state ESTABLISHED -j ACCEPT\n\
             -A FORWARD -m comment --comment \"the last word\" -j REJECT --reject-with icmp-host-prohibited\n",
            &before,
        );
    }

    #[test]
    fn rules_that_are_there_stay_and_those_of_before_go() {
        let ours = |side: &str, words: &str| {
            format!(
                "-A FORWARD {side} 10.244.0.0/16 -m comment --comment \"xebec-00c0ffee: packets {words} pods pass\" -j ACCEPT\n"
            )
        };
        let head = "*filter\n:FORWARD DROP [0:0]\n";
        let (from, to) = (ours("-s", "from"), ours("-d", "to"));
        check(&format!("{head}{from}{to}"), &[]);
        let before = "*filter\n:FORWARD ACCEPT [0:0]\n";
        check(
            &format!("{before}{from}-A FORWARD -j DROP\n{to}"),
            &[
                "-D FORWARD 3",
                "-D FORWARD 1",
                "-I FORWARD 1 -s 10.244.0.0/16",
                "-I FORWARD 2 -d 10.244.0.0/16",
            ],
        );
        check(&format!("{before}{from}{to}"), &["-D FORWARD 2", "-D FORWARD 1"]);
    }

    #[test]
    fn words_may_be_quoted() {
        let expected = ["-m", "comment", "--comment", "a \"b\" c", "-j", "X"];
        assert_eq!(split(r#"-m comment --comment "a \"b\" c" -j X"#), expected);
        assert_eq!(split(""), [""; 0]);
    }
}
