//! Which flags of `xebec up` are about any node: its further nodes get them, too.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// By their long names.
const PASSED_ON: &[&str] = &[
    "allowed-unsafe-sysctls",
    "bgp-as",
    "bgp-password-file",
    "bgp-peer",
    "direct-routes",
    "feature-gates",
    "logging-format",
    "network",
    "proxy-mode",
    "v",
];
/// Whoever reads them elsewhere looks in another directory.
const PATHS: &[&str] = &["bgp-password-file"];

/// As they were given on the command line of `up`.
pub(crate) fn passed_on(up: &Command, matches: &ArgMatches) -> Vec<String> {
    let mut words = Vec::new();
    for argument in up.get_arguments() {
        let Some(name) = argument.get_long().filter(|it| PASSED_ON.contains(it)) else { continue };
        let id = argument.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        if !argument.get_action().takes_values() {
            words.push(format!("--{name}"));
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            let value = match PATHS.contains(&name) {
                true => std::path::absolute(value).map_or_else(|_| value.into(), Into::into),
                false => value.to_owned(),
            };
            words.extend([format!("--{name}"), value.to_string_lossy().into_owned()]);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;

    fn commands() -> Command {
        crate::Command::command()
    }

    #[test]
    fn flags_are_passed_on_as_they_were_given() {
        let check = |words: &[&str], expected: &[&str]| {
            let matches = commands().try_get_matches_from([&["xebec", "up"], words].concat());
            let matches = matches.unwrap();
            let command = commands();
            let up = command.find_subcommand("up").unwrap();
            assert_eq!(passed_on(up, matches.subcommand_matches("up").unwrap()), expected);
        };
        check(&["--nodes", "3", "--node-name", "a"], &[]);
        check(
            &["--network", "host-gw", "-v", "2", "--allowed-unsafe-sysctls", "net.a,net.b"],
            &[
                "--allowed-unsafe-sysctls",
                "net.a",
                "--allowed-unsafe-sysctls",
                "net.b",
                "--network",
                "host-gw",
                "--v",
                "2",
            ],
        );
        check(&["--direct-routes"], &["--direct-routes"]);
        check(
            &["--network", "routed", "--bgp-peer", "65001@192.0.2.1", "--bgp-password-file", "/p"],
            &["--network", "routed", "--bgp-peer", "65001@192.0.2.1", "--bgp-password-file", "/p"],
        );
    }

    /// Whoever gives both commands a flag says here whether it is one of any node.
    #[test]
    fn every_flag_that_a_node_has_is_passed_on_or_is_the_machines_own() {
        const OWN: &[&str] = &[
            "cgroup-root",
            "container-runtime-endpoint",
            "data-dir",
            "detach",
            "detached-child",
            "help",
            "kubelet-port",
            "name",
            "node-ip",
            "node-name",
        ];
        let command = commands();
        let of = |name: &str| -> BTreeSet<&str> {
            let command = command.find_subcommand(name).unwrap();
            command.get_arguments().filter_map(clap::Arg::get_long).collect()
        };
        let (up, join) = (of("up"), of("join"));
        let both: BTreeSet<&str> = up.intersection(&join).copied().collect();
        let known = OWN.iter().chain(PASSED_ON).copied().filter(|it| both.contains(it));
        assert_eq!(both, known.collect());
        assert!(PASSED_ON.iter().all(|it| both.contains(it)), "{both:?}");
    }
}
