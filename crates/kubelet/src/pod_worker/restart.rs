//! Whether a container that ended runs again, and when.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerRestartRule, PodSpec};
use node_api::containers::Exit;

use super::memory::Crash;
use super::view::{Role, Wanted};

/// Upstream's numbers (pkg/kubelet/kubelet.go): the first restart is at once, the next after these.
const DELAY_FIRST: Duration = Duration::from_secs(10);
const DELAY_MAX: Duration = Duration::from_secs(300);
/// A container that ran this long starts over.
const CALM: SignedDuration = SignedDuration::from_mins(10);

/// By the container's rules, its own policy, or the pod's.
pub(crate) fn restarts(spec: &PodSpec, wanted: &Wanted, exit: &Exit) -> bool {
    match wanted.role {
        Role::Ephemeral => return false,
        Role::Sidecar => return true,
        Role::Init if exit.code == 0 => return false,
        Role::Init | Role::Main => {}
    }
    let rules = wanted.container.restart_policy_rules.iter().flatten();
    if rules.into_iter().any(|it| it.action == "Restart" && matches_exit(it, exit.code)) {
        return true;
    }
    let own = wanted.container.restart_policy.as_deref();
    match own.or(spec.restart_policy.as_deref()) {
        Some("Never") => false,
        Some("OnFailure") => exit.code != 0,
        _ => true,
    }
}

fn matches_exit(rule: &ContainerRestartRule, code: i32) -> bool {
    let Some(codes) = &rule.exit_codes else { return false };
    let is_listed = codes.values.iter().flatten().any(|it| *it == code);
    match codes.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

/// When a container that exited then may start again, if not at once.
pub(crate) fn waits_until(crash: Option<&Crash>, exit: &Exit, now: Timestamp) -> Option<Timestamp> {
    let crash = crash.filter(|it| exit.finished.duration_since(it.at) <= CALM)?;
    let until = exit.finished.checked_add(crash.delay).unwrap_or(Timestamp::MAX);
    (until > now).then_some(until)
}

/// After a start that follows an exit.
pub(crate) fn next(crash: Option<&Crash>, now: Timestamp) -> Crash {
    let delay = match crash {
        Some(it) if now.duration_since(it.at) <= CALM => it.delay.saturating_mul(2).min(DELAY_MAX),
        _ => DELAY_FIRST,
    };
    Crash { delay, at: now }
}

/// As Go prints durations of whole seconds: `10s`, `2m40s`, `5m0s`.
pub(crate) fn render_duration(delay: Duration) -> String {
    let seconds = delay.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::{SignedDuration, Timestamp};
    use k8s_openapi::api::core::v1::{Container, PodSpec};
    use node_api::containers::Exit;
    use serde_json::json;

    use super::{next, render_duration, restarts, waits_until};
    use crate::pod_worker::view::{Role, Wanted};

    fn exit(code: i32, finished: Timestamp) -> Exit {
        Exit {
            code,
            signal: None,
            oom_killed: false,
            started: Some(finished),
            finished,
            message: None,
        }
    }

    fn check(policy: &str, role: Role, container: serde_json::Value, code: i32, expected: bool) {
        let spec = PodSpec { restart_policy: Some(policy.to_owned()), ..PodSpec::default() };
        let container: Container = serde_json::from_value(container).unwrap();
        let wanted = Wanted { role, container };
        let exit = exit(code, Timestamp::UNIX_EPOCH);
        assert_eq!(restarts(&spec, &wanted, &exit), expected, "{policy} {role:?} {code}");
    }

    #[test]
    fn the_policy_and_the_exit_code_decide() {
        let plain = || json!({ "name": "a" });
        check("Always", Role::Main, plain(), 0, true);
        check("OnFailure", Role::Main, plain(), 0, false);
        check("OnFailure", Role::Main, plain(), 1, true);
        check("Never", Role::Main, plain(), 1, false);
        check("Always", Role::Init, plain(), 0, false);
        check("Always", Role::Init, plain(), 1, true);
        check("Never", Role::Init, plain(), 1, false);
        check("Never", Role::Sidecar, plain(), 0, true);
        check("Always", Role::Ephemeral, plain(), 1, false);
    }

    #[test]
    fn a_containers_own_policy_and_rules_win() {
        let rules = |operator: &str| {
            json!({ "name": "a", "restartPolicy": "Never", "restartPolicyRules": [
                { "action": "Restart", "exitCodes": { "operator": operator, "values": [42] } }] })
        };
        check("Always", Role::Main, rules("In"), 42, true);
        check("Always", Role::Main, rules("In"), 1, false);
        check("Always", Role::Main, rules("NotIn"), 1, true);
        check("Always", Role::Main, rules("NotIn"), 42, false);
    }

    #[test]
    fn the_first_restart_is_at_once_and_then_delays_double_until_a_quiet_time() {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut crash = None;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let exit = exit(1, now);
            if let Some(until) = waits_until(crash.as_ref(), &exit, now) {
                waits.push(until.duration_since(now).as_secs());
                now = until;
            }
            crash = Some(next(crash.as_ref(), now));
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        now += SignedDuration::from_secs(601);
        assert_eq!(waits_until(crash.as_ref(), &exit(1, now), now), None);
        assert_eq!(next(crash.as_ref(), now).delay, Duration::from_secs(10));
    }

    #[test]
    fn durations_read_as_upstream_prints_them() {
        for (seconds, expected) in [(10, "10s"), (80, "1m20s"), (300, "5m0s"), (3600, "1h0m0s")] {
            assert_eq!(render_duration(Duration::from_secs(seconds)), expected);
        }
    }
}
