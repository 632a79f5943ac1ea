//! Namespaces, settings and requests in, refusals, warnings and records out.

use std::path::Path;
use std::sync::{Arc, Mutex};

use api::ApiObject;
use api::apps::Deployment;
use api::core::{Namespace, Pod};
use apimachinery::User;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stdx::{Clock, SharedClock, SystemClock};
use telemetry::Registry;

use super::PodSecurity;
use super::policy::{Level, Policy, Version};
use crate::attributes::Operation;
use crate::chain::{Phase, Plugin as _};
use crate::configuration::{Configuration, Error};
use crate::plugins::fixture::{Case, Nobody, Objects, decode, now};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// `enforce=baseline warn-version=v1.20` as labels.
fn labels(text: &str) -> Value {
    let pairs = text.split_whitespace().filter_map(|it| it.split_once('='));
    let labels = pairs.map(|(key, value)| (format!("{PREFIX}{key}"), json!(value)));
    Value::Object(labels.collect())
}

fn namespace(text: &str) -> Value {
    json!({"metadata": {"name": "ns", "labels": labels(text)}})
}

fn pod(fields: Value) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    container.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    let metadata = json!({"name": "web", "namespace": "ns"});
    json!({"metadata": metadata, "spec": {"containers": [container]}})
}

fn privileged() -> Value {
    pod(json!({"securityContext": {"privileged": true}}))
}

/// What became of a request.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    refusal: String,
    warnings: Vec<String>,
    /// Without their prefix.
    annotations: Vec<String>,
}

struct Server {
    plugin: PodSecurity,
    metrics: Registry,
}

impl Server {
    fn new(settings: &str) -> Result<Self, Error> {
        Self::with_clock(settings, Arc::new(SystemClock))
    }

    fn with_clock(settings: &str, clock: SharedClock) -> Result<Self, Error> {
        let list = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n\
                    plugins: [{name: PodSecurity, path: p.yaml}]\n";
        let own = format!(
            "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n{settings}"
        );
        let files = Configuration::load(Path::new("a.yaml"), move |path| {
            Ok(if path == Path::new("a.yaml") { list.to_owned() } else { own.clone() })
        })?;
        let metrics = Registry::default();
        let plugin = PodSecurity::new(&files, &metrics, clock)?;
        Ok(Self { plugin, metrics })
    }

    fn run(
        &self,
        case: &Case<'_>,
        objects: &Objects,
        objects_of: (Option<&dyn ApiObject>, Option<&dyn ApiObject>),
    ) -> Outcome {
        case.with((objects, &Nobody), objects_of, |context| {
            let mut outcome = Outcome::default();
            if self.plugin.handles(Phase::Validate, &context.request)
                && let Err(err) = now(self.plugin.validate(context))
            {
                err.message().clone_into(&mut outcome.refusal);
            }
            outcome.warnings = context.notes().warnings();
            let annotations = context.notes().annotations();
            let shown = |(key, value): (&String, &String)| {
                format!("{}: {value}", key.strip_prefix(PREFIX).unwrap())
            };
            outcome.annotations = annotations.iter().map(shown).collect();
            outcome
        })
    }

    fn create_as(&self, user: &str, namespace_labels: &str, manifest: &Value) -> Outcome {
        let user = User::new(user, &[]);
        let objects = Objects::default().with("namespaces", &namespace(namespace_labels));
        let pod: Pod = decode(manifest);
        self.run(&Case::of(Operation::Create, "/pods", &user), &objects, (Some(&pod), None))
    }

    fn create(&self, namespace_labels: &str, manifest: &Value) -> Outcome {
        self.create_as("alice", namespace_labels, manifest)
    }

    /// A namespace from one set of labels to another, among `objects`.
    fn relabel(&self, objects: &Objects, old: Option<&str>, new: &str) -> Outcome {
        let user = User::new("alice", &[]);
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let case =
            Case { operation, resource: "/namespaces", namespace: "", name: "ns", user: &user };
        let new: Namespace = decode(&namespace(new));
        let old: Option<Namespace> = old.map(|it| decode(&namespace(it)));
        let old = old.as_ref().map(|it| it as &dyn ApiObject);
        self.run(&case, objects, (Some(&new), old))
    }
}

const TOLD: &str = r#"PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)"#;

#[test]
fn a_pod_that_is_not_as_its_namespace_asks_is_refused() {
    let server = Server::new("").unwrap();
    let outcome = server.create("enforce=baseline", &privileged());
    assert_eq!(outcome.refusal, format!("pods \"web\" is forbidden: violates {TOLD}"));
    assert_eq!(outcome.warnings, Vec::<String>::new(), "a refusal says it already");
    assert_eq!(outcome.annotations, ["enforce-policy: baseline:latest"]);
    assert_eq!(server.create("enforce=baseline", &pod(json!({}))).refusal, "");
    let outcome = server.create("", &privileged());
    assert_eq!(outcome.refusal, "");
    assert_eq!(outcome.annotations, ["enforce-policy: privileged:latest"]);
    let versioned = server.create("enforce=baseline enforce-version=v1.20", &privileged());
    assert!(versioned.refusal.contains("\"baseline:v1.20\""), "{versioned:?}");
}

#[test]
fn who_only_warns_or_records_refuses_nothing() {
    let server = Server::new("").unwrap();
    let outcome = server.create("warn=baseline audit=baseline", &privileged());
    assert_eq!(outcome.refusal, "");
    assert_eq!(outcome.warnings, [format!("would violate {TOLD}")]);
    assert_eq!(
        outcome.annotations,
        [
            format!("audit-violations: would violate {TOLD}"),
            "enforce-policy: privileged:latest".to_owned()
        ]
    );
    let outcome = server.create("warn=restricted enforce=baseline", &pod(json!({})));
    assert_eq!(outcome.refusal, "");
    assert_eq!(outcome.warnings.len(), 1);
    assert!(outcome.warnings[0].starts_with("would violate PodSecurity \"restricted:latest\""));
}

#[test]
fn what_makes_pods_is_warned_of() {
    let server = Server::new("").unwrap();
    let user = User::new("alice", &[]);
    let template = json!({"spec": privileged()["spec"]});
    let metadata = json!({"name": "web", "namespace": "ns"});
    let spec = json!({"selector": {}, "template": template});
    let deployment: Deployment = decode(&json!({"metadata": metadata, "spec": spec}));
    let run = |resource: &str, labels: &str| {
        let objects = Objects::default().with("namespaces", &namespace(labels));
        let case = Case::of(Operation::Create, resource, &user);
        server.run(&case, &objects, (Some(&deployment), None))
    };
    let outcome = run("apps/deployments", "enforce=baseline");
    assert_eq!(outcome.refusal, "");
    assert_eq!(outcome.warnings, [format!("would violate {TOLD}")], "as what is enforced");
    assert!(outcome.annotations.is_empty());
    let outcome = run("apps/deployments", "audit=baseline");
    assert_eq!(outcome.annotations, [format!("audit-violations: would violate {TOLD}")]);
    assert_eq!(run("apps/deployments/status", "enforce=baseline"), Outcome::default());
    assert_eq!(run("apps/deployments", ""), Outcome::default());
    // What is written is what its pods get: an enforced level that is warned of less is not told.
    assert_eq!(run("apps/deployments", "enforce=baseline warn=privileged"), Outcome::default());
}

#[test]
fn updates_count_when_they_change_what_runs() {
    let server = Server::new("").unwrap();
    let user = User::new("alice", &[]);
    let objects = Objects::default().with("namespaces", &namespace("enforce=baseline"));
    let run = |resource: &str, new: &Value, old: &Value| {
        let (new, old): (Pod, Pod) = (decode(new), decode(old));
        let case = Case::of(Operation::Update, resource, &user);
        let outcome = server.run(&case, &objects, (Some(&new), Some(&old)));
        !outcome.refusal.is_empty()
    };
    let old = privileged();
    let mut labeled = privileged();
    labeled["metadata"]["labels"] = json!({"a": "b"});
    assert!(!run("/pods", &labeled, &old));
    let mut other = privileged();
    other["spec"]["containers"][0]["image"] = json!("j");
    assert!(run("/pods", &other, &old));
    let mut debugged = privileged();
    debugged["spec"]["ephemeralContainers"] = json!([{"name": "d", "image": "i"}]);
    assert!(run("/pods/ephemeralcontainers", &debugged, &old));
    assert!(!run("/pods/ephemeralcontainers", &debugged, &debugged.clone()));
    let mut init = privileged();
    init["spec"]["initContainers"] = json!([{"name": "d", "image": "i"}]);
    assert!(run("/pods", &init, &old));
    assert!(!run("/pods/resize", &old, &old));
    assert!(run("/pods/resize", &other, &old));
    for subresource in super::HARMLESS_SUBRESOURCES {
        assert!(!run(&format!("/pods/{subresource}"), &other, &old), "{subresource}");
    }
}

#[test]
fn labels_that_say_nothing_are_refused() {
    let server = Server::new("").unwrap();
    let none = Objects::default();
    let bad = "enforce=strict warn-version=1.20";
    let refused = "Namespace \"ns\" is invalid: [\
        metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted, \
        metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"1.20\": must be \"latest\" or \"v1.x\"]";
    assert_eq!(server.relabel(&none, None, bad).refusal, refused);
    assert_eq!(server.relabel(&none, Some(""), bad).refusal, refused);
    assert_eq!(server.relabel(&none, Some(bad), bad).refusal, "", "they were there");
    assert_ne!(server.relabel(&none, Some("enforce=strict"), bad).refusal, "");
    // Pods in such a namespace are held to the strictest.
    let outcome = server.create(bad, &pod(json!({})));
    assert!(outcome.refusal.contains("violates PodSecurity \"restricted:latest\""), "{outcome:?}");
    assert!(
        outcome.annotations.iter().any(|it| it.starts_with("error: Failed to parse policy: ["))
    );
    assert!(server.metrics.render().contains(
        r#"pod_security_errors_total{fatal="false",request_operation="create",resource="pod",subresource=""} 1"#
    ));
}

fn pods(names: &[(&str, Value)]) -> Objects {
    names.iter().fold(Objects::default(), |objects, (name, fields)| {
        let mut manifest = fields.clone();
        manifest["metadata"]["name"] = json!(name);
        objects.with("pods", &manifest)
    })
}

#[test]
fn who_raises_a_level_is_told_what_is_there() {
    let server = Server::new("").unwrap();
    let objects = || {
        let mut host = pod(json!({}));
        host["spec"]["hostPID"] = json!(true);
        pods(&[
            ("a", privileged()),
            ("b", privileged()),
            ("d", privileged()),
            ("c", host),
            ("e", pod(json!({}))),
        ])
    };
    let outcome = server.relabel(&objects(), Some(""), "enforce=baseline");
    assert_eq!(outcome.refusal, "");
    assert_eq!(
        outcome.warnings,
        [
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 2 other pods): privileged",
            "c: host namespaces",
        ]
    );
    let silent = |old: &str, new: &str| {
        assert_eq!(
            server.relabel(&objects(), Some(old), new).warnings,
            Vec::<String>::new(),
            "{old} {new}"
        );
    };
    silent("enforce=baseline", "enforce=baseline");
    silent("enforce=restricted", "enforce=baseline");
    silent("enforce=restricted", "enforce=privileged enforce-version=v1.3");
    silent("", "warn=restricted");
    let other_version = server.relabel(
        &objects(),
        Some("enforce=baseline"),
        "enforce=baseline enforce-version=v1.3",
    );
    assert_eq!(other_version.warnings.len(), 3);
    assert_eq!(server.relabel(&objects(), None, "enforce=baseline"), Outcome::default());
}

/// Each look at it takes a tenth of a second.
struct Hasty(Mutex<Timestamp>);

impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        let mut now = self.0.lock().unwrap();
        *now += SignedDuration::from_millis(100);
        *now
    }
}

#[test]
fn a_namespace_is_looked_through_for_a_second() {
    let clock = Arc::new(Hasty(Mutex::new(Timestamp::UNIX_EPOCH)));
    let server = Server::with_clock("", clock).unwrap();
    let names: Vec<String> = (0..40).map(|it| format!("p{it:02}")).collect();
    let named: Vec<(&str, Value)> = names.iter().map(|it| (it.as_str(), privileged())).collect();
    let outcome = server.relabel(&pods(&named), Some(""), "enforce=baseline");
    assert_eq!(
        outcome.warnings,
        [
            "new PodSecurity enforce level only checked against the first 10 of 40 existing pods",
            "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "p00 (and 9 other pods): privileged",
        ]
    );
}

const EXEMPTIONS: &str =
    "exemptions:\n  usernames: [robot]\n  namespaces: [free]\n  runtimeClasses: [sandboxed]\n";

#[test]
fn whom_nothing_holds_for_is_let_in() {
    let server = Server::new(EXEMPTIONS).unwrap();
    let outcome = server.create_as("robot", "enforce=baseline", &privileged());
    assert_eq!(
        (outcome.refusal.as_str(), outcome.annotations),
        ("", vec!["exempt: user".to_owned()])
    );
    let mut sandboxed = privileged();
    sandboxed["spec"]["runtimeClassName"] = json!("sandboxed");
    let outcome = server.create("enforce=baseline", &sandboxed);
    assert_eq!(outcome.annotations, ["exempt: runtimeClass"]);
    let user = User::new("alice", &[]);
    let case = Case { namespace: "free", ..Case::of(Operation::Create, "/pods", &user) };
    let object: Pod = decode(&privileged());
    let outcome = server.run(&case, &Objects::default(), (Some(&object), None));
    assert_eq!(outcome.annotations, ["exempt: namespace"]);
    assert!(server.metrics.render().contains(
        r#"pod_security_exemptions_total{request_operation="create",resource="pod",subresource=""} 3"#
    ));
    assert_ne!(server.create("enforce=baseline", &privileged()).refusal, "");
    // Such pods are not spoken of, either.
    let objects = pods(&[("a", sandboxed)]);
    assert_eq!(server.relabel(&objects, Some(""), "enforce=baseline"), Outcome::default());
}

#[test]
fn labels_that_are_ignored_are_told() {
    let server = Server::new("exemptions: {namespaces: [ns]}").unwrap();
    let told = |policy: &str| {
        format!(
            "namespace \"ns\" is exempt from Pod Security, and the policy ({policy}) will be ignored"
        )
    };
    let warnings = |labels: &str| server.relabel(&Objects::default(), None, labels).warnings;
    assert_eq!(
        warnings("enforce=baseline audit=restricted audit-version=v1.2"),
        [told("enforce=baseline:latest, audit=restricted:v1.2")]
    );
    assert!(warnings("").is_empty() && warnings("enforce=privileged").is_empty());
}

#[test]
fn defaults_hold_where_a_namespace_says_nothing() {
    let server =
        Server::new("defaults: {enforce: baseline, enforce-version: v1.25, warn: restricted}\n")
            .unwrap();
    let outcome = server.create("", &privileged());
    assert!(outcome.refusal.contains("violates PodSecurity \"baseline:v1.25\""), "{outcome:?}");
    assert_eq!(server.create("", &pod(json!({}))).warnings.len(), 1);
    assert_eq!(server.create("enforce=privileged", &privileged()).refusal, "");
}

#[test]
fn settings_are_checked() {
    let check = |settings: &str, parts: &[&str]| {
        let err = stdx::error_chain(&Server::new(settings).err().unwrap()).to_string();
        for part in parts {
            assert!(err.contains(part), "{part:?} in: {err}");
        }
    };
    check(
        "defaults:\n  enforce: strict\n",
        &[
            "p.yaml, line 4, field \"enforce\"",
            "\"strict\": must be one of privileged, baseline, restricted",
        ],
    );
    check("defaults:\n  audit-version: \"1\"\n", &["line 4", "must be \"latest\" or \"v1.x\""]);
    check("exemptions:\n  namespaces: [a, a]\n", &["line 4", "Duplicate value: \"a\""]);
    check("exemptions:\n  namespaces: [a.b]\n", &["line 4", "Invalid value: \"a.b\""]);
    check("exemptions:\n  usernames: [\"\"]\n", &["username must not be empty"]);
    check("exemption: {}\n", &["line 3", "unknown field"]);
}

#[test]
fn what_is_judged_is_counted() {
    let server = Server::new("").unwrap();
    server.create("enforce=baseline audit=restricted enforce-version=v1.50", &privileged());
    server.create("", &privileged());
    let page = server.metrics.render();
    for line in [
        r#"pod_security_evaluations_total{decision="deny",mode="enforce",policy_level="baseline",policy_version="future",request_operation="create",resource="pod",subresource=""} 1"#,
        r#"pod_security_evaluations_total{decision="deny",mode="audit",policy_level="restricted",policy_version="latest",request_operation="create",resource="pod",subresource=""} 1"#,
        r#"pod_security_evaluations_total{decision="allow",mode="enforce",policy_level="privileged",policy_version="latest",request_operation="create",resource="pod",subresource=""} 1"#,
        r#"pod_security_evaluations_total{decision="allow",mode="enforce",policy_level="privileged",policy_version="latest",request_operation="update",resource="pod",subresource=""} 0"#,
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn levels_and_versions_are_read_strictly() {
    assert_eq!(Version::parse("v1.0"), Ok(Version::Minor(0)));
    assert_eq!(Version::parse("v1.25"), Ok(Version::Minor(25)));
    assert_eq!(Version::parse("latest"), Ok(Version::Latest));
    for text in
        ["", "v1", "v1.", "v1.01", "v1.+1", "v1.-1", "v2.1", "1.2", "v1.99999999999999999999"]
    {
        assert!(Version::parse(text).is_err(), "{text}");
    }
    assert!(Level::parse("Baseline").is_err());
    let read = |text: &str| {
        let labels = serde_json::from_value(labels(text)).unwrap();
        let policy = Policy::of(Some(&labels), &Policy::default()).0;
        policy.modes().map(|(_, it)| it.to_string()).join(" ")
    };
    assert_eq!(
        read("enforce=restricted enforce-version=v1.2"),
        "restricted:v1.2 privileged:latest restricted:v1.2"
    );
    assert_eq!(
        read("enforce=restricted enforce-version=v1.2 warn-version=v1.3"),
        "restricted:v1.2 privileged:latest restricted:v1.3"
    );
    assert_eq!(
        read("enforce=baseline warn=privileged"),
        "baseline:latest privileged:latest privileged:latest"
    );
    assert_eq!(
        read("enforce=x audit=x warn=x"),
        "restricted:latest privileged:latest privileged:latest"
    );
}
