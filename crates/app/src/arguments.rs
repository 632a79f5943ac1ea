//! The command line as clap gets it: upstream's programs by their names, and their flags as Go's
//! programs take them, with `_` for `-`.

use std::ffi::OsString;
use std::path::Path;

/// Programs of upstream, and the commands that take their place.
const UPSTREAM: [(&str, &str); 2] =
    [("kube-controller-manager", "controller-manager"), ("kube-scheduler", "scheduler")];

pub(crate) fn of_process() -> Vec<OsString> {
    read(std::env::args_os())
}

fn read(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let called = arguments.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    if let Some((_, command)) = UPSTREAM.iter().find(|it| called == it.0) {
        arguments.insert(1, OsString::from(command));
    }
    let is_upstreams =
        arguments.get(1).is_some_and(|it| UPSTREAM.iter().any(|(_, command)| it == command));
    if is_upstreams {
        arguments.iter_mut().skip(2).for_each(dash);
    }
    arguments
}

/// `--leader_elect=true` is `--leader-elect=true`.
fn dash(argument: &mut OsString) {
    let Some(flag) = argument.to_str().and_then(|it| it.strip_prefix("--")) else { return };
    let (name, value) = flag.split_at(flag.find('=').unwrap_or(flag.len()));
    *argument = format!("--{}{value}", name.replace('_', "-")).into();
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::read;

    #[test]
    fn upstreams_programs_are_commands_and_their_flags_may_have_underscores() {
        let check = |given: &str, expected: &str| {
            let words = read(given.split(' ').map(OsString::from));
            let words: Vec<_> = words.iter().map(|it| it.to_str().unwrap()).collect();
            assert_eq!(words.join(" "), expected);
        };
        check("xebec up --simulate_x 3", "xebec up --simulate_x 3");
        check(
            "/usr/local/bin/kube-scheduler --leader_elect=a_b --v 2",
            "/usr/local/bin/kube-scheduler scheduler --leader-elect=a_b --v 2",
        );
        check("kube-controller-manager", "kube-controller-manager controller-manager");
        check(
            "xebec controller-manager --concurrent_rc_syncs=5 --kubeconfig a_b -v=2",
            "xebec controller-manager --concurrent-rc-syncs=5 --kubeconfig a_b -v=2",
        );
    }
}
