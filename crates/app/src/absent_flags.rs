//! Flags of upstream's components about what is not here, in tables. Each is taken with what
//! upstream's default means, and refused, with the reason, where it asks for something else; those
//! that would change nothing take any value of their kind.

use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use jiff::SignedDuration;

use crate::switch;

pub(crate) struct Absent {
    pub(crate) flag: &'static str,
    pub(crate) default: &'static str,
    pub(crate) takes: Takes,
    /// For the help, and for whoever asks for something else.
    pub(crate) why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// What the default means, and nothing else.
    Default,
    /// Whatever is of the default's kind.
    Any,
}

/// What a value means: defaults are of one of these kinds.
#[derive(Debug, PartialEq)]
enum Meaning {
    Switch(bool),
    Number(i64),
    Duration(SignedDuration),
    Text(String),
}

impl Meaning {
    /// As a value of the same kind as `like`.
    fn parse(text: &str, like: &str) -> Option<Self> {
        let number = |it: &str| it.parse().ok().map(Self::Number);
        let duration = |it: &str| it.parse().ok().map(Self::Duration);
        if matches!(like, "true" | "false") {
            return switch::parse(text).ok().map(Self::Switch);
        }
        if number(like).is_some() {
            return number(text);
        }
        if duration(like).is_some() {
            return duration(if text == "0" { "0s" } else { text });
        }
        Some(Self::Text(text.to_owned()))
    }
}

impl Absent {
    const fn new(flag: &'static str, default: &'static str, why: &'static str) -> Self {
        Self { flag, default, takes: Takes::Default, why }
    }

    /// `None`: not of its kind.
    fn takes(&self, text: &str) -> Option<bool> {
        let meant = Meaning::parse(text, self.default)?;
        Some(self.takes == Takes::Any || Some(meant) == Meaning::parse(self.default, self.default))
    }

    fn check(&self, text: &str) -> Result<String, String> {
        match self.takes(text) {
            Some(true) => Ok(text.to_owned()),
            Some(false) => Err(format!("{text:?} is not supported: {}", self.why)),
            None => Err(format!("{text:?} is not such a value as {:?}", self.default)),
        }
    }

    fn arg(&'static self) -> Arg {
        let help = match self.takes {
            Takes::Default => format!("Taken as it is by default alone: {}", self.why),
            Takes::Any => format!("Accepted, and does nothing: {}", self.why),
        };
        let arg = Arg::new(self.flag)
            .long(self.flag)
            .help(help)
            .default_value(self.default)
            .hide_default_value(self.default.is_empty())
            .value_parser(move |text: &str| self.check(text));
        match Meaning::parse(self.default, self.default) {
            Some(Meaning::Switch(_)) => arg
                .value_name("BOOL")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => arg.value_name("VALUE"),
        }
    }
}

/// The flags of one component.
pub(crate) trait Table {
    const FLAGS: &'static [Absent];
}

/// They leave nothing behind: whoever got here asked for nothing that is not there.
pub(crate) struct AbsentFlags<T>(PhantomData<T>);

impl<T: Table> Args for AbsentFlags<T> {
    fn augment_args(command: Command) -> Command {
        T::FLAGS.iter().fold(command, |command, it| command.arg(it.arg()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Table> FromArgMatches for AbsentFlags<T> {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(PhantomData))
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}

/// Of every component that runs alone.
pub(crate) struct OfAll;

const METRICS: &str = "every metric is shown, with the labels that are bounded where it is counted";
const PROFILES: &str = "there are no profiles, and no /debug/pprof";
const VERSION: &str = "this is v1.36, and nothing else";
const LINES: &str = "lines are written whole and at once, to stderr";

impl Table for OfAll {
    const FLAGS: &'static [Absent] = &[
        Absent::new("allow-metric-labels", "", METRICS),
        Absent::new("allow-metric-labels-manifest", "", METRICS),
        Absent::new("contention-profiling", "false", PROFILES),
        Absent::new("disabled-metrics", "", METRICS),
        Absent::new("emulated-version", "", VERSION),
        Absent::new("emulation-forward-compatible", "false", VERSION),
        Absent { takes: Takes::Any, ..Absent::new("log-flush-frequency", "5s", LINES) },
        Absent::new("log-json-info-buffer-size", "0", LINES),
        Absent::new("log-json-split-stream", "false", LINES),
        Absent::new("log-text-info-buffer-size", "0", LINES),
        Absent::new("log-text-split-stream", "false", LINES),
        Absent::new("min-compatibility-version", "", VERSION),
        Absent::new("profiling", "false", PROFILES),
        Absent::new("show-hidden-metrics-for-version", "", METRICS),
        Absent::new("tls-sni-cert-key", "", "--tls-cert-file is for every name"),
        Absent::new("vmodule", "", "-v is for all"),
    ];
}

/// Of the controller manager.
pub(crate) struct OfControllerManager;

const ATTACHING: &str = "persistentvolume-attach-detach-controller does not run here";
const BINDING: &str = "persistentvolume-binder-controller does not run here";
const CLOUDS: &str = "clouds have controller managers of their own";

impl Table for OfControllerManager {
    const FLAGS: &'static [Absent] = &[
        Absent { takes: Takes::Any, ..Absent::new("allow-untagged-cloud", "false", CLOUDS) },
        Absent::new("attach-detach-reconcile-sync-period", "1m0s", ATTACHING),
        Absent::new("cidr-allocator-type", "RangeAllocator", CLOUDS),
        Absent::new("cloud-config", "", CLOUDS),
        Absent::new(
            "concurrent-ephemeralvolume-syncs",
            "5",
            "ephemeral-volume-controller does not run here",
        ),
        Absent::new(
            "concurrent-service-syncs",
            "1",
            "what one Service lets go another may wait for",
        ),
        Absent { takes: Takes::Any, ..Absent::new("configure-cloud-routes", "true", CLOUDS) },
        Absent::new("disable-attach-detach-reconcile-sync", "false", ATTACHING),
        Absent::new("disable-force-detach-on-timeout", "false", ATTACHING),
        Absent::new("enable-dynamic-provisioning", "true", BINDING),
        Absent::new("enable-hostpath-provisioner", "false", BINDING),
        Absent::new("enable-leader-migration", "false", CLOUDS),
        Absent::new("external-cloud-volume-plugin", "", CLOUDS),
        Absent::new(
            "flex-volume-plugin-dir",
            "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
            BINDING,
        ),
        Absent::new("leader-migration-config", "", CLOUDS),
        Absent {
            takes: Takes::Any,
            ..Absent::new("node-sync-period", "0s", "nodes are looked at when they change")
        },
        Absent::new("pv-recycler-increment-timeout-nfs", "30", BINDING),
        Absent::new("pv-recycler-minimum-timeout-hostpath", "60", BINDING),
        Absent::new("pv-recycler-minimum-timeout-nfs", "300", BINDING),
        Absent::new("pv-recycler-pod-template-filepath-hostpath", "", BINDING),
        Absent::new("pv-recycler-pod-template-filepath-nfs", "", BINDING),
        Absent::new("pv-recycler-timeout-increment-hostpath", "30", BINDING),
        Absent::new("pvclaimbinder-sync-period", "15s", BINDING),
        Absent { takes: Takes::Any, ..Absent::new("route-reconciliation-period", "10s", CLOUDS) },
    ];
}

/// Of the scheduler.
pub(crate) struct OfScheduler;

impl Table for OfScheduler {
    const FLAGS: &'static [Absent] = &[Absent::new(
        "pod-max-in-unschedulable-pods-duration",
        "5m0s",
        "pods are tried again after five minutes, as upstream's",
    )];
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command};

    use super::{Absent, AbsentFlags, OfAll, OfControllerManager, OfScheduler, Table};

    fn parse<T: Table>(flags: &[&str]) -> Result<(), String> {
        let command = AbsentFlags::<T>::augment_args(Command::new("test").no_binary_name(true));
        command.try_get_matches_from(flags).map(drop).map_err(|err| err.to_string())
    }

    #[test]
    fn defaults_are_taken_and_what_asks_for_more_is_refused_with_the_reason() {
        let check = |flag: &str, expected: &str| {
            let said = parse::<OfControllerManager>(&[flag]).err().unwrap_or_default();
            assert!(said.contains(expected), "{flag}: {said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{flag}: {said}");
        };
        check("--pvclaimbinder-sync-period=15s", "");
        check("--pvclaimbinder-sync-period=0m15s", "");
        check("--pvclaimbinder-sync-period=16s", "persistentvolume-binder-controller does not run");
        check("--pvclaimbinder-sync-period=soon", "not such a value as \"15s\"");
        check("--enable-dynamic-provisioning", "");
        check("--enable-dynamic-provisioning=T", "");
        check("--enable-dynamic-provisioning=0", "is not supported");
        check("--concurrent-ephemeralvolume-syncs=5", "");
        check("--concurrent-ephemeralvolume-syncs=6", "ephemeral-volume-controller does not run");
        check("--cloud-config=", "");
        check("--cloud-config=/etc/cloud", "clouds have controller managers of their own");
        check("--configure-cloud-routes=false", "");
        check("--configure-cloud-routes=maybe", "not such a value");
        check("--node-sync-period=0", "");
        assert!(parse::<OfAll>(&["--profiling=false", "--vmodule="]).is_ok());
        let said = parse::<OfAll>(&["--profiling"]).unwrap_err();
        assert!(said.contains("there are no profiles"), "{said}");
    }

    #[test]
    fn every_default_is_taken_and_flags_are_in_order() {
        for table in [OfAll::FLAGS, OfControllerManager::FLAGS, OfScheduler::FLAGS] {
            assert!(table.iter().all(|it: &Absent| it.takes(it.default) == Some(true)));
            assert!(table.is_sorted_by_key(|it| it.flag));
        }
    }
}
