//! The programs of iptables: which of its two variants holds the host's rules, and running them.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

use linux::netlink::nftables::draft::table_family;
use linux::netlink::nftables::{Nftables, TableId};
use linux::network_namespace::NetworkNamespace;
use stdx::Family;

use super::ruleset::is_owner_chain;
use super::saved::{Saved, parse};
use crate::backends::ProgramError as Error;

/// Of what a program complains, this much is told.
const COMPLAINT_MAX: usize = 500;
/// Chains by which kubelets and proxies tell which variant they use.
const HINTS: [&str; 3] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY", "KUBE-PROXY-CANARY"];

/// How rules get into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// By nf_tables, in tables `ip nat` and the like.
    Nft,
    /// By the older interface of the kernel, which tells nobody of changes.
    Legacy,
}

impl Variant {
    pub(super) const ALL: [Self; 2] = [Self::Nft, Self::Legacy];

    fn program(self, family: Family, verb: &str) -> String {
        let family = match family {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        };
        let variant = match self {
            Self::Nft => "nft",
            Self::Legacy => "legacy",
        };
        format!("{family}-{variant}-{verb}")
    }
}

/// What ran, and by which process.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) output: String,
    pub(super) pid: u32,
}

/// The programs of one family in one network namespace.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) variant: Variant,
    family: Family,
    namespace: NetworkNamespace,
}

impl Programs {
    pub(super) fn new(variant: Variant, family: Family) -> Result<Self, Error> {
        let namespace = NetworkNamespace::current()
            .map_err(|err| Error::Run { program: "iptables".to_owned(), source: err.source })?;
        Ok(Self { variant, family, namespace })
    }

    /// The variant that holds the rules of this host, so that all are seen in one place: that with
    /// a mark of Kubernetes', else that with more rules, else nf_tables.
    pub(super) fn find(family: Family) -> Result<Self, Error> {
        let mut best: Option<(bool, usize, Self)> = None;
        let mut missing = None;
        for variant in Variant::ALL {
            let programs = Self::new(variant, family)?;
            let saved = match programs.save() {
                Ok((saved, _)) => saved,
                Err(Error::Missing { program }) => {
                    missing.get_or_insert(Error::Missing { program });
                    continue;
                }
                // The kernel may lack what this variant needs, and have the other's.
                Err(err) => {
                    missing = Some(err);
                    continue;
                }
            };
            let mut chains = saved.values().flat_map(|it| &it.chains);
            let is_marked = chains.any(|it| HINTS.contains(&it.as_str()) || is_owner_chain(it));
            let n_rules = saved.values().map(|it| it.rules.len()).sum();
            if best.as_ref().is_none_or(|it| (it.0, it.1) < (is_marked, n_rules)) {
                best = Some((is_marked, n_rules, programs));
            }
        }
        let nothing = || Error::Missing { program: "iptables-nft-save".to_owned() };
        best.map(|it| it.2).ok_or_else(|| missing.unwrap_or_else(nothing))
    }

    /// Whether there is a table that may have chains of ours: asks the kernel, and runs nothing.
    pub(super) fn has_table(&self) -> Result<bool, Error> {
        let run =
            |source| Error::Run { program: self.variant.program(self.family, "save"), source };
        match self.variant {
            Variant::Nft => {
                let id = TableId::new(table_family(self.family), "nat");
                let tables = Nftables::open(id.clone()).and_then(|mut it| it.tables());
                tables.map(|it| it.contains(&id)).map_err(|err| run(err.source))
            }
            Variant::Legacy => {
                let name = match self.family {
                    Family::V4 => "ip_tables_names",
                    Family::V6 => "ip6_tables_names",
                };
                match std::fs::read_to_string(format!("/proc/thread-self/net/{name}")) {
                    Ok(names) => Ok(names.lines().any(|it| it == "nat")),
                    Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
                    Err(err) => Err(run(err)),
                }
            }
        }
    }

    /// The tables that are there. Makes none: of the older interface only those that the kernel has
    /// are read.
    pub(super) fn save(&self) -> Result<(BTreeMap<String, Saved>, u32), Error> {
        let ran = self.run("save", &[], None)?;
        Ok((parse(&ran.output), ran.pid))
    }

    /// Each table at once or not at all; what is not named stays.
    pub(super) fn restore(&self, input: &str) -> Result<u32, Error> {
        let words = ["--noflush", "--counters", "--wait", "5"];
        self.run("restore", &words, Some(input)).map(|it| it.pid)
    }

    fn run(&self, verb: &str, words: &[&str], input: Option<&str>) -> Result<Ran, Error> {
        let program = self.variant.program(self.family, verb);
        let run = || run(&program, words, input);
        let ran = self
            .namespace
            .run(run)
            .map_err(|err| Error::Run { program: program.clone(), source: err.source })?;
        let (output, pid) = match ran {
            Ok(it) => it,
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Missing { program });
            }
            Err(source) => return Err(Error::Run { program, source }),
        };
        if output.status.success() {
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            return Ok(Ran { output, pid });
        }
        let complaint: String =
            String::from_utf8_lossy(&output.stderr).trim().chars().take(COMPLAINT_MAX).collect();
        Err(Error::Refused { program, status: output.status.to_string(), complaint })
    }
}

fn run(program: &str, words: &[&str], input: Option<&str>) -> io::Result<(Output, u32)> {
    let stdin = input.map_or_else(Stdio::null, |_| Stdio::piped());
    let mut child = Command::new(program)
        .args(words)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = child.id();
    // One that ends early says why by itself.
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        let _ = stdin.write_all(input.as_bytes());
    }
    Ok((child.wait_with_output()?, pid))
}
