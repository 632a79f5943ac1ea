//! A container that has ended for good does not run again.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

/// A rule of restarts by which all containers of a pod begin anew.
const RESTART_ALL: &str = "RestartAllContainers";

/// `path` is that of the status. Problems are named by the places of the statuses that were there.
pub(super) fn validate(
    status: &PodStatus,
    old: &PodStatus,
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let init = spec.init_containers.as_deref().unwrap_or_default();
    if !restarts_all(spec, init) {
        let (new, before) = (&status.container_statuses, &old.container_statuses);
        let may_restart = restarts(&spec.containers, spec);
        validate_list(new, before, may_restart, &path.child("containerStatuses"), errors);
        let (new, before) = (&status.init_container_statuses, &old.init_container_statuses);
        let may_restart = restarts(init, spec);
        validate_list(new, before, may_restart, &path.child("initContainerStatuses"), errors);
    }
    let (new, old) = (&status.ephemeral_container_statuses, &old.ephemeral_container_statuses);
    validate_list(new, old, |_, _| false, &path.child("ephemeralContainerStatuses"), errors);
}

type Statuses = Option<Vec<ContainerStatus>>;

/// `may_restart` is asked with the name of a container and its exit code.
fn validate_list(
    new: &Statuses,
    old: &Statuses,
    may_restart: impl Fn(&str, i32) -> bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (index, before) in old.iter().flatten().enumerate() {
        let Some(ended) = before.state.as_ref().and_then(|it| it.terminated.as_ref()) else {
            continue;
        };
        let runs = |it: &ContainerStatus| {
            let has_ended = it.state.as_ref().is_some_and(|it| it.terminated.is_some());
            it.name == before.name && !has_ended
        };
        if new.iter().flatten().any(runs) && !may_restart(&before.name, ended.exit_code) {
            let detail = "may not be transitioned to non-terminated state";
            errors.forbidden(&path.index(index).child("state"), detail);
        }
    }
}

fn restarts_all(spec: &PodSpec, init: &[Container]) -> bool {
    let rules = init.iter().chain(&spec.containers).flat_map(|it| it.restart_policy_rules.iter());
    rules.flatten().any(|it| it.action == RESTART_ALL)
}

/// One that the spec does not have may not.
fn restarts(containers: &[Container], spec: &PodSpec) -> impl Fn(&str, i32) -> bool {
    move |name, exit_code| {
        let container = containers.iter().find(|it| it.name == name);
        container.is_some_and(|it| is_restarted(it, spec, exit_code))
    }
}

/// By the first rule about the exit code, else by the container's own policy, else by the pod's.
fn is_restarted(container: &Container, spec: &PodSpec, exit_code: i32) -> bool {
    let own = container.restart_policy.as_deref();
    let mut rules = container.restart_policy_rules.iter().flatten().filter(|_| own.is_some());
    let rule = rules.find(|it| {
        it.exit_codes.as_ref().is_some_and(|codes| {
            let is_named = codes.values.iter().flatten().any(|it| *it == exit_code);
            match codes.operator.as_str() {
                "In" => is_named,
                "NotIn" => !is_named,
                _ => false,
            }
        })
    });
    if rule.is_some_and(|it| it.action == "Restart" || it.action == RESTART_ALL) {
        return true;
    }
    match [own, spec.restart_policy.as_deref()].into_iter().flatten().find(|it| is_known(it)) {
        Some("OnFailure") => exit_code != 0,
        Some("Never") => false,
        _ => true,
    }
}

fn is_known(policy: &str) -> bool {
    ["Always", "OnFailure", "Never"].contains(&policy)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
    use serde_json::{Value, json};

    use apimachinery::FieldErrors;
    use apimachinery::field::Path;

    const LISTS: [(&str, &str); 3] = [
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    ];

    /// Which lists may not go from `exit_code` to running, of a pod with one container in each.
    fn refused(policy: &str, container: &Value, exit_code: i32) -> Vec<String> {
        let mut spec = json!({"restartPolicy": policy, "containers": []});
        let (mut old, mut new) = (json!({}), json!({}));
        let status = |state: Value| {
            json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": state}])
        };
        for (list, statuses) in LISTS {
            spec[list] = json!([container]);
            spec[list][0]["name"] = json!("c");
            old[statuses] = status(json!({"terminated": {"exitCode": exit_code}}));
            new[statuses] = status(json!({"running": {}}));
        }
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let status = |it: Value| serde_json::from_value::<PodStatus>(it).unwrap();
        let mut errors = FieldErrors::new();
        let path = Path::new("status");
        super::validate(&status(new), &status(old), &spec, &path, &mut errors);
        let problems = errors.iter().map(ToString::to_string);
        let suffix = "[0].state: Forbidden: may not be transitioned to non-terminated state";
        problems.map(|it| it.strip_suffix(suffix).unwrap().to_owned()).collect()
    }

    #[test]
    fn policies_say_who_runs_again() {
        let all = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
        let all = all.map(|it| format!("status.{it}"));
        let (every, ephemeral) = (&all[..], &all[2..]);
        for (policy, container, exit_code, expected) in [
            ("Always", json!({}), 0, ephemeral),
            ("OnFailure", json!({}), 1, ephemeral),
            ("OnFailure", json!({}), 0, every),
            ("Never", json!({}), 1, every),
            ("Never", json!({"restartPolicy": "Always"}), 0, ephemeral),
            ("Always", json!({"restartPolicy": "Never"}), 1, every),
        ] {
            assert_eq!(refused(policy, &container, exit_code), expected, "{policy} {container}");
        }
    }

    #[test]
    fn rules_come_before_policies() {
        let rules = |action: &str, operator: &str| {
            json!({"restartPolicy": "Never", "restartPolicyRules": [
                {"action": action, "exitCodes": {"operator": operator, "values": [3]}},
            ]})
        };
        let n_refused = |container: Value, code: i32| refused("Never", &container, code).len();
        assert_eq!(n_refused(rules("Restart", "In"), 3), 1);
        assert_eq!(n_refused(rules("Restart", "In"), 4), 3);
        assert_eq!(n_refused(rules("Restart", "NotIn"), 4), 1);
        // All begin anew, whatever this one ended with.
        assert_eq!(n_refused(rules("RestartAllContainers", "In"), 4), 1);
    }
}
