//! What a Job says of failures that are not like others, and of successes that are enough. Pure.

use api::Identified as _;
use api::core::pod::{Exit, JobPart, PodView};
use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicyRule,
};

use super::indexes::Indexes;

/// What a failed pod means, by the first rule that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No rule matches: it counts.
    Unmatched,
    Count,
    Ignore,
    FailIndex,
    /// With the message of the condition.
    FailJob(String),
}

impl Verdict {
    pub(super) fn counts(&self) -> bool {
        *self != Self::Ignore
    }

    /// The action of the rule.
    pub(super) fn action(&self) -> Option<&'static str> {
        match self {
            Self::Unmatched => None,
            Self::Count => Some("Count"),
            Self::Ignore => Some("Ignore"),
            Self::FailIndex => Some("FailIndex"),
            Self::FailJob(_) => Some("FailJob"),
        }
    }
}

pub(super) fn judge(spec: &JobSpec, pod: &PodView) -> Verdict {
    let (Some(policy), Some(job)) = (&spec.pod_failure_policy, pod.job.as_deref()) else {
        return Verdict::Unmatched;
    };
    for (index, rule) in policy.rules.iter().enumerate() {
        let Some(what) = matched(rule, job, pod) else { continue };
        match rule.action.as_str() {
            "Count" => return Verdict::Count,
            "Ignore" => return Verdict::Ignore,
            "FailIndex" => return Verdict::FailIndex,
            "FailJob" => {
                return Verdict::FailJob(format!("{what} matching FailJob rule at index {index}"));
            }
            _ => {}
        }
    }
    Verdict::Unmatched
}

/// What of a pod matches a rule, in words.
fn matched(rule: &PodFailurePolicyRule, job: &JobPart, pod: &PodView) -> Option<String> {
    let key = pod.key();
    if let Some(codes) = &rule.on_exit_codes {
        let exit = job.exits.iter().find(|it| is_meant(codes, it))?;
        let (container, code) = (exit.container.as_str(), exit.code);
        return Some(format!("Container {container} for pod {key} failed with exit code {code}"));
    }
    let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
    let (type_, _) = job.conditions.iter().find(|(type_, status)| {
        let mut patterns = patterns.iter();
        patterns.any(|it| {
            let wanted = it.status.as_deref().unwrap_or("True");
            it.type_ == type_.as_str() && wanted == status.as_str()
        })
    })?;
    Some(format!("Pod {key} has condition {}", type_.as_str()))
}

fn is_meant(codes: &PodFailurePolicyOnExitCodesRequirement, exit: &Exit) -> bool {
    let is_named = codes.container_name.as_deref().is_none_or(|it| it == exit.container.as_str());
    let is_listed = codes.values.contains(&exit.code);
    is_named
        && match codes.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
}

/// Says which rule the indexes that succeeded are enough for.
pub(super) fn success(spec: &JobSpec, completions: i32, succeeded: &Indexes) -> Option<String> {
    let rules = &spec.success_policy.as_ref()?.rules;
    if succeeded.is_empty() {
        return None;
    }
    let met = rules.iter().position(|it| is_met(it, completions, succeeded))?;
    Some(format!("Matched rules at index {met}"))
}

fn is_met(rule: &SuccessPolicyRule, completions: i32, succeeded: &Indexes) -> bool {
    let is_enough = |found: i64| rule.succeeded_count.is_some_and(|it| found >= i64::from(it));
    let Some(wanted) = &rule.succeeded_indexes else {
        return is_enough(succeeded.len());
    };
    let wanted = Indexes::parse(wanted, completions);
    let found = wanted.overlap(succeeded);
    !wanted.is_empty() && (found == wanted.len() || is_enough(found))
}
