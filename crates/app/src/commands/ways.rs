//! Flags about the ways between nodes, the same for every command that starts a node.

use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use network::Bgp;

use crate::node;

/// More the kernel does not take.
const PASSWORD_MAX: usize = linux::tcp_md5::PASSWORD_MAX;

#[derive(clap::Args)]
#[group(id = "ways")]
pub(crate) struct Flags {
    /// How pods of this node and of others reach each other: for all nodes of the cluster alike;
    /// `none`: not at all
    #[arg(long, value_name = "NAME", default_value = network::VXLAN, value_parser = network::path_named)]
    network: &'static str,
    /// Without a tunnel where no router is between; for all nodes of the cluster alike
    #[arg(long)]
    direct_routes: bool,
    /// With --network routed: the AS of the nodes
    #[arg(long, value_name = "N", default_value_t = network::AS_DEFAULT)]
    bgp_as: u32,
    /// With --network routed: a router that the node speaks BGP with, in place of the other nodes;
    /// may be given several times
    #[arg(long, value_name = "AS@IP", value_parser = parse_peer)]
    bgp_peer: Vec<(u32, IpAddr)>,
    /// With --network routed: file with the password of all sessions (TCP MD5)
    #[arg(long, value_name = "FILE")]
    bgp_password_file: Option<PathBuf>,
}

fn parse_peer(text: &str) -> Result<(u32, IpAddr), String> {
    let wrong = || format!("expected an AS and an address, such as 65001@192.0.2.1, not {text:?}");
    let (number, address) = text.split_once('@').ok_or_else(wrong)?;
    match (number.parse(), address.parse()) {
        (Ok(number @ 1..), Ok(address)) => Ok((number, address)),
        _ => Err(wrong()),
    }
}

impl Flags {
    /// Refuses what the chosen way has no use for.
    pub(crate) fn validate(&self) -> Result<()> {
        if self.direct_routes {
            let result = network::validate_direct_routes(self.network).map_err(anyhow::Error::msg);
            result.context("--direct-routes")?;
        }
        let is_default = self.bgp_as == network::AS_DEFAULT;
        let given = [
            ("--bgp-as", !is_default),
            ("--bgp-peer", !self.bgp_peer.is_empty()),
            ("--bgp-password-file", self.bgp_password_file.is_some()),
        ];
        let useless = given.iter().find(|(_, is_given)| *is_given);
        if let Some((flag, _)) = useless.filter(|_| self.network != network::ROUTED) {
            bail!("{flag}: --network {} speaks no BGP: {} does", self.network, network::ROUTED);
        }
        if self.bgp_as == 0 {
            bail!("--bgp-as: 0 is no AS");
        }
        self.bgp().map(drop)
    }

    pub(crate) fn set(&self, settings: node::Settings) -> Result<node::Settings> {
        Ok(node::Settings {
            network: self.network,
            has_direct_routes: self.direct_routes,
            bgp: self.bgp()?,
            ..settings
        })
    }

    fn bgp(&self) -> Result<Bgp> {
        let read = |it: &PathBuf| read_password(it).context("--bgp-password-file");
        Ok(Bgp {
            own_as: self.bgp_as,
            peers: self.bgp_peer.clone(),
            password: self.bgp_password_file.as_ref().map(read).transpose()?,
        })
    }
}

/// The line break at the end is no part of it.
fn read_password(path: &Path) -> Result<String> {
    let doing = || format!("reading {}", path.display());
    let file = std::fs::File::open(path).with_context(doing)?;
    let mut text = String::new();
    file.take(PASSWORD_MAX as u64 + 3).read_to_string(&mut text).with_context(doing)?;
    let password = text.trim_end_matches(['\n', '\r']);
    if password.is_empty() || password.len() > PASSWORD_MAX {
        bail!("{}: a password has 1 to {PASSWORD_MAX} bytes", path.display());
    }
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn check(words: &[&str], expected: Result<(), &str>) {
        let line = Line::try_parse_from([&["x"], words].concat());
        let outcome = match line {
            Ok(line) => line.flags.validate().map_err(|err| format!("{err:#}")),
            Err(err) => Err(err.to_string()),
        };
        match expected {
            Ok(()) => assert_eq!(outcome, Ok(()), "{words:?}"),
            Err(text) => assert!(outcome.clone().unwrap_err().contains(text), "{outcome:?}"),
        }
    }

    #[test]
    fn flags_of_ways_that_were_not_chosen_are_refused() {
        let routed = ["--network", "routed"];
        check(&[], Ok(()));
        check(
            &[&routed[..], &["--bgp-as", "65000", "--bgp-peer", "65001@fd00::1"]].concat(),
            Ok(()),
        );
        check(&["--bgp-as", "65000"], Err("--bgp-as: --network vxlan speaks no BGP: routed does"));
        check(&["--bgp-peer", "1@192.0.2.1"], Err("--bgp-peer: --network vxlan speaks no BGP"));
        check(&[&routed[..], &["--direct-routes"]].concat(), Err("--direct-routes"));
        check(&[&routed[..], &["--bgp-as", "0"]].concat(), Err("0 is no AS"));
        for wrong in ["192.0.2.1", "0@192.0.2.1", "1@router", "1@192.0.2.1:179"] {
            check(
                &[&routed[..], &["--bgp-peer", wrong]].concat(),
                Err("expected an AS and an address"),
            );
        }
    }

    #[test]
    fn a_password_is_what_a_file_says_but_for_its_last_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let check = |text: &str, expected: Option<&str>| {
            std::fs::write(&file, text).unwrap();
            assert_eq!(read_password(&file).ok().as_deref(), expected);
        };
        check("secret\n", Some("secret"));
        check(" with blanks ", Some(" with blanks "));
        check("\n", None);
        check(&"x".repeat(80), Some(&"x".repeat(80)));
        check(&"x".repeat(81), None);
    }
}
