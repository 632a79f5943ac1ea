//! Flow schemas: which requests are of which level, and whose among them share a queue.

use k8s_openapi::api::flowcontrol::v1::{
    FlowDistinguisherMethod, FlowSchema, FlowSchemaSpec, GroupSubject, NonResourcePolicyRule,
    PolicyRulesWithSubjects, PriorityLevelConfigurationReference, ResourcePolicyRule,
    ServiceAccountSubject, Subject, UserSubject,
};

use super::{Upkeep, named};
use crate::flowcontrol::{CATCH_ALL, EXEMPT};

const EVERYBODY: &[&str] = &["system:unauthenticated", "system:authenticated"];
const NODES: &[&str] = &["system:nodes"];
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const BY_USER: &str = "ByUser";
const BY_NAMESPACE: &str = "ByNamespace";

/// By precedence, within each sort.
pub(super) fn all() -> Vec<(Upkeep, FlowSchema)> {
    let mandatory = [exempt(), catch_all()].map(|it| (Upkeep::Mandatory, it));
    let suggested = [
        probes(),
        leader_election(),
        node_high(),
        anything("system-nodes", ("system", 500, BY_USER), groups(NODES)),
        anything(
            "kube-controller-manager",
            ("workload-high", 800, BY_NAMESPACE),
            vec![user(CONTROLLER_MANAGER)],
        ),
        anything("kube-scheduler", ("workload-high", 800, BY_NAMESPACE), vec![user(SCHEDULER)]),
        anything(
            "kube-system-service-accounts",
            ("workload-high", 900, BY_NAMESPACE),
            vec![system_service_accounts()],
        ),
        anything(
            "service-accounts",
            ("workload-low", 9000, BY_USER),
            groups(&["system:serviceaccounts"]),
        ),
        anything("global-default", ("global-default", 9900, BY_USER), groups(EVERYBODY)),
    ];
    let suggested = suggested.map(|it| (Upkeep::Suggested, it));
    mandatory.into_iter().chain(suggested).collect()
}

fn exempt() -> FlowSchema {
    schema(EXEMPT, (EXEMPT, 1, ""), everything(groups(&["system:masters"])))
}

fn catch_all() -> FlowSchema {
    schema(CATCH_ALL, (CATCH_ALL, 10_000, BY_USER), everything(groups(EVERYBODY)))
}

fn probes() -> FlowSchema {
    let rules = PolicyRulesWithSubjects {
        subjects: groups(EVERYBODY),
        non_resource_rules: Some(vec![paths(&["get"], &["/healthz", "/readyz", "/livez"])]),
        resource_rules: None,
    };
    schema("probes", (EXEMPT, 2, ""), rules)
}

fn leader_election() -> FlowSchema {
    let leases = resources(&["get", "create", "update"], "coordination.k8s.io", &["leases"], false);
    let rules = PolicyRulesWithSubjects {
        subjects: vec![user(CONTROLLER_MANAGER), user(SCHEDULER), system_service_accounts()],
        resource_rules: Some(vec![leases]),
        non_resource_rules: None,
    };
    schema("system-leader-election", ("leader-election", 100, BY_USER), rules)
}

fn node_high() -> FlowSchema {
    let nodes = resources(&["*"], "", &["nodes", "nodes/status"], true);
    let leases = resources(&["*"], "coordination.k8s.io", &["leases"], false);
    let rules = PolicyRulesWithSubjects {
        subjects: groups(NODES),
        resource_rules: Some(vec![nodes, leases]),
        non_resource_rules: None,
    };
    schema("system-node-high", ("node-high", 400, BY_USER), rules)
}

/// Of whatever these do.
fn anything(name: &str, at: (&str, i32, &str), subjects: Vec<Subject>) -> FlowSchema {
    schema(name, at, everything(subjects))
}

fn everything(subjects: Vec<Subject>) -> PolicyRulesWithSubjects {
    PolicyRulesWithSubjects {
        subjects,
        resource_rules: Some(vec![resources(&["*"], "*", &["*"], true)]),
        non_resource_rules: Some(vec![paths(&["*"], &["*"])]),
    }
}

/// With its level, its precedence, and by what its flows are told apart.
fn schema(
    name: &str,
    (level, precedence, distinguisher): (&str, i32, &str),
    rules: PolicyRulesWithSubjects,
) -> FlowSchema {
    let by = || FlowDistinguisherMethod { type_: distinguisher.to_owned() };
    let spec = FlowSchemaSpec {
        priority_level_configuration: PriorityLevelConfigurationReference {
            name: level.to_owned(),
        },
        matching_precedence: Some(precedence),
        distinguisher_method: (!distinguisher.is_empty()).then(by),
        rules: Some(vec![rules]),
    };
    FlowSchema { metadata: named(name), spec: Some(spec), status: None }
}

fn groups(names: &[&str]) -> Vec<Subject> {
    let subject = |name: &&str| Subject {
        kind: "Group".to_owned(),
        group: Some(GroupSubject { name: (*name).to_owned() }),
        ..Subject::default()
    };
    names.iter().map(subject).collect()
}

fn user(name: &str) -> Subject {
    Subject {
        kind: "User".to_owned(),
        user: Some(UserSubject { name: name.to_owned() }),
        ..Subject::default()
    }
}

fn system_service_accounts() -> Subject {
    let account =
        ServiceAccountSubject { namespace: "kube-system".to_owned(), name: "*".to_owned() };
    Subject {
        kind: "ServiceAccount".to_owned(),
        service_account: Some(account),
        ..Subject::default()
    }
}

/// In every namespace, and outside of them too if `cluster_scope`.
fn resources(
    verbs: &[&str],
    group: &str,
    names: &[&str],
    cluster_scope: bool,
) -> ResourcePolicyRule {
    ResourcePolicyRule {
        verbs: owned(verbs),
        api_groups: owned(&[group]),
        resources: owned(names),
        namespaces: Some(owned(&["*"])),
        cluster_scope: cluster_scope.then_some(true),
    }
}

fn paths(verbs: &[&str], urls: &[&str]) -> NonResourcePolicyRule {
    NonResourcePolicyRule { verbs: owned(verbs), non_resource_urls: owned(urls) }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|it| (*it).to_owned()).collect()
}
