//! The Pod Security Standards: one file per check, and a table of which level has which since when.
//! Pure functions of a pod's spec and annotations, whatever the pod is part of.

mod allow_privilege_escalation;
mod app_armor_profile;
mod capabilities_baseline;
mod capabilities_restricted;
mod host_namespaces;
mod host_path_volumes;
mod host_ports;
mod host_probes_and_host_lifecycle;
mod privileged;
mod proc_mount;
mod restricted_volumes;
mod run_as_non_root;
mod run_as_user;
mod se_linux_options;
mod seccomp_profile_baseline;
mod seccomp_profile_restricted;
mod subject;
mod sysctls;
#[cfg(test)]
mod tests;
mod text;
mod windows_host_process;

use super::policy::{Level, Standard, Version};

pub(super) use self::subject::Subject;
use self::text::Violation;

type Judge = fn(&Subject<'_>) -> Option<Violation>;

struct Check {
    /// Upstream's name; refusals are told in its order.
    id: &'static str,
    level: Level,
    /// From which minor version on it is judged how, older ones first.
    since: &'static [(u64, Judge)],
    /// The check of the level below that says less, and is left out where this one is made.
    instead_of: Option<&'static str>,
}

const fn baseline(id: &'static str, since: &'static [(u64, Judge)]) -> Check {
    Check { id, level: Level::Baseline, since, instead_of: None }
}

const fn restricted(id: &'static str, since: &'static [(u64, Judge)]) -> Check {
    Check { id, level: Level::Restricted, since, instead_of: None }
}

const fn instead(instead_of: &'static str, check: Check) -> Check {
    Check { instead_of: Some(instead_of), ..check }
}

/// In the order in which violations are told: by level, then by name.
const ALL: &[Check] = &[
    baseline("appArmorProfile", &[(0, app_armor_profile::judge)]),
    baseline("capabilities_baseline", &[(0, capabilities_baseline::judge)]),
    baseline("hostNamespaces", &[(0, host_namespaces::judge)]),
    baseline("hostPathVolumes", &[(0, host_path_volumes::judge)]),
    baseline("hostPorts", &[(0, host_ports::judge)]),
    baseline("hostProbesAndHostLifecycle", &[(34, host_probes_and_host_lifecycle::judge)]),
    baseline("privileged", &[(0, privileged::judge)]),
    baseline(
        "procMount",
        &[(0, proc_mount::judge), (35, |pod| pod.unless_own_users(proc_mount::judge))],
    ),
    baseline(
        "seLinuxOptions",
        &[(0, se_linux_options::judge), (31, se_linux_options::judge_since_31)],
    ),
    baseline(
        "seccompProfile_baseline",
        &[(0, seccomp_profile_baseline::judge_annotations), (19, seccomp_profile_baseline::judge)],
    ),
    baseline(
        "sysctls",
        &[
            (0, sysctls::judge),
            (27, sysctls::judge_since_27),
            (29, sysctls::judge_since_29),
            (32, sysctls::judge_since_32),
        ],
    ),
    baseline("windowsHostProcess", &[(0, windows_host_process::judge)]),
    restricted(
        "allowPrivilegeEscalation",
        &[
            (8, allow_privilege_escalation::judge),
            (25, |pod| pod.unless_windows(allow_privilege_escalation::judge)),
        ],
    ),
    instead(
        "capabilities_baseline",
        restricted(
            "capabilities_restricted",
            &[
                (22, capabilities_restricted::judge),
                (25, |pod| pod.unless_windows(capabilities_restricted::judge)),
            ],
        ),
    ),
    instead("procMount", restricted("procMount_restricted", &[(35, proc_mount::judge)])),
    instead("hostPathVolumes", restricted("restrictedVolumes", &[(0, restricted_volumes::judge)])),
    restricted(
        "runAsNonRoot",
        &[(0, run_as_non_root::judge), (35, |pod| pod.unless_own_users(run_as_non_root::judge))],
    ),
    restricted(
        "runAsUser",
        &[(23, run_as_user::judge), (35, |pod| pod.unless_own_users(run_as_user::judge))],
    ),
    instead(
        "seccompProfile_baseline",
        restricted(
            "seccompProfile_restricted",
            &[
                (19, seccomp_profile_restricted::judge),
                (25, |pod| pod.unless_windows(seccomp_profile_restricted::judge)),
            ],
        ),
    ),
];

impl Check {
    /// How it is judged in a version; not at all in those before the first.
    fn judge_in(&self, version: Version) -> Option<Judge> {
        let is_due = |since: u64| match version {
            Version::Latest => true,
            Version::Minor(minor) => since <= minor,
        };
        self.since.iter().rev().find(|it| is_due(it.0)).map(|it| it.1)
    }
}

/// The checks of a standard, in order, with their names. Versions to come are the latest.
fn of(standard: Standard) -> impl Iterator<Item = (&'static str, Judge)> {
    let made = move |check: &&'static Check| check.level <= standard.level;
    let active = move |check: &'static Check| {
        Some((check, check.judge_in(standard.version)?)).filter(|(it, _)| made(it))
    };
    let replaced = move |id: &str| {
        let stricter = ALL.iter().filter(|it| it.instead_of == Some(id));
        stricter.filter_map(active).next().is_some()
    };
    ALL.iter()
        .filter_map(active)
        .filter(move |(check, _)| !replaced(check.id))
        .map(|(check, judge)| (check.id, judge))
}

/// What of a pod a standard does not allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Violations(Vec<Violation>);

impl Violations {
    pub(super) fn of(standard: Standard, pod: &Subject<'_>) -> Self {
        Self(of(standard).filter_map(|(_, judge)| judge(pod)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `host namespaces, privileged`
    pub(super) fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.iter().map(|it| it.reason).collect();
        reasons.join(", ")
    }

    /// `host namespaces (hostPID=true), privileged (container "a" must not ...)`
    pub(super) fn details(&self) -> String {
        let shown = self.0.iter().map(|it| match it.detail.as_str() {
            "" => it.reason.to_owned(),
            detail => format!("{} ({detail})", it.reason),
        });
        shown.collect::<Vec<String>>().join(", ")
    }
}
