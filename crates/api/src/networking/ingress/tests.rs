//! Manifest in; problems, defaults or cells out.

use serde_json::{Value, json};

use super::Ingress;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn ingress(spec: Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn service(name: &str) -> Value {
    json!({"service": {"name": name, "port": {"number": 80}}})
}

/// An Ingress with one rule of one path.
fn path(kind: &str, path: &str) -> Value {
    let path = json!({"path": path, "pathType": kind, "backend": service("web")});
    ingress(json!({"rules": [{"http": {"paths": [path]}}]}))
}

fn backend(backend: Value) -> Value {
    ingress(json!({"defaultBackend": backend}))
}

#[test]
fn requests_go_somewhere() {
    check::<Ingress>(backend(service("web")), &[]);
    check::<Ingress>(path("Prefix", "/"), &[]);
    check::<Ingress>(
        ingress(json!({})),
        &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    );
    check::<Ingress>(
        ingress(json!({"rules": [{"http": {"paths": []}}]})),
        &["spec.rules[0].http.paths: Required value"],
    );
}

#[test]
fn a_backend_is_a_port_of_a_service_or_one_object() {
    let at = "spec.defaultBackend";
    check::<Ingress>(
        backend(json!({})),
        &[&format!("{at}: Invalid value: \"\": resource or service backend is required")],
    );
    let bucket = json!({"apiGroup": "example.org", "kind": "Bucket", "name": "static"});
    check::<Ingress>(backend(json!({"resource": bucket})), &[]);
    check::<Ingress>(
        backend(json!({"resource": bucket, "service": {"name": "web", "port": {"number": 80}}})),
        &[&format!("{at}: Invalid value: \"\": cannot set both resource and service backends")],
    );
    check::<Ingress>(
        backend(json!({"resource": {"apiGroup": "A", "kind": "", "name": "a/b"}})),
        &[
            &format!(
                "{at}.resource.apiGroup: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ),
            &format!("{at}.resource.kind: Required value"),
            &format!("{at}.resource.name: Invalid value: \"a/b\": may not contain '/'"),
        ],
    );
    // A digit first, as Services may have it.
    check::<Ingress>(backend(json!({"service": {"name": "1-web", "port": {"name": "http"}}})), &[]);
    check::<Ingress>(
        backend(json!({"service": {"name": ""}})),
        &[
            &format!("{at}.service.name: Required value"),
            &format!("{at}: Required value: port name or number is required"),
        ],
    );
    check::<Ingress>(
        backend(json!({"service": {"name": "web", "port": {"name": "http", "number": 80}}})),
        &[&format!("{at}: Invalid value: \"\": cannot set both port name & port number")],
    );
    check::<Ingress>(
        backend(json!({"service": {"name": "web", "port": {"number": 70_000}}})),
        &[&format!(
            "{at}.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive"
        )],
    );
}

#[test]
fn a_path_is_absolute_and_has_no_steps_back() {
    let at = "spec.rules[0].http.paths[0]";
    check::<Ingress>(path("ImplementationSpecific", ""), &[]);
    check::<Ingress>(path("ImplementationSpecific", "/a/../b"), &[]);
    check::<Ingress>(
        path("ImplementationSpecific", "a"),
        &[&format!("{at}.path: Invalid value: \"a\": must be an absolute path")],
    );
    check::<Ingress>(
        path("Exact", ""),
        &[&format!("{at}.path: Invalid value: \"\": must be an absolute path")],
    );
    check::<Ingress>(
        path("Prefix", "/a//b/./%2f/.."),
        &[
            &format!("{at}.path: Invalid value: \"/a//b/./%2f/..\": must not contain '//'"),
            &format!("{at}.path: Invalid value: \"/a//b/./%2f/..\": must not contain '/./'"),
            &format!("{at}.path: Invalid value: \"/a//b/./%2f/..\": must not contain '%2f'"),
            &format!("{at}.path: Invalid value: \"/a//b/./%2f/..\": cannot end with '/..'"),
        ],
    );
    check::<Ingress>(
        path("Regex", "/"),
        &[&format!(
            "{at}.pathType: Unsupported value: \"Regex\": supported values: \"Exact\", \"ImplementationSpecific\", \"Prefix\""
        )],
    );
    let untyped = json!({"path": "/", "backend": service("web")});
    check::<Ingress>(
        ingress(json!({"rules": [{"http": {"paths": [untyped]}}]})),
        &[&format!("{at}.pathType: Required value: pathType must be specified")],
    );
}

#[test]
fn a_host_is_a_name() {
    let of = |host: &str| ingress(json!({"rules": [{"host": host}]}));
    for host in ["web.example.org", "*.example.org"] {
        check::<Ingress>(of(host), &[]);
    }
    check::<Ingress>(
        of("10.0.0.1"),
        &["spec.rules[0].host: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address"],
    );
    let mut errors = apimachinery::FieldErrors::new();
    created::<Ingress>(of("a.*.org")).validate_create(&mut errors);
    let problem = errors.iter().next().map(ToString::to_string).unwrap_or_default();
    let expected =
        "spec.rules[0].host: Invalid value: \"a.*.org\": a wildcard DNS-1123 subdomain must start";
    assert!(problem.starts_with(expected), "{problem}");
}

#[test]
fn certificates_are_of_names_and_in_secrets() {
    let of = |secret: &str| {
        let tls = json!([{"hosts": ["web.example.org", "*.example.org"], "secretName": secret}]);
        ingress(json!({"defaultBackend": service("web"), "tls": tls}))
    };
    check::<Ingress>(of("web-tls"), &[]);
    check::<Ingress>(of(""), &[]);
    let stored = created::<Ingress>(of("Not A Name"));
    let mut errors = apimachinery::FieldErrors::new();
    stored.validate_create(&mut errors);
    let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("spec.tls[0].secretName: Invalid value: \"Not A Name\": "));
    // What is there already may stay.
    check_update(&stored, of("Not A Name"), Part::Main, &[]);
}

#[test]
fn rules_of_wildcards_that_were_never_checked_may_stay() {
    let of = |host: &str| ingress(json!({"rules": [{"host": host, "http": {"paths": []}}]}));
    let stored = created::<Ingress>(of("*.example.org"));
    check_update(&stored, of("*.example.org"), Part::Main, &[]);
    check_update(
        &stored,
        of("web.example.org"),
        Part::Main,
        &["spec.rules[0].http.paths: Required value"],
    );
}

#[test]
fn a_class_is_named_once() {
    let of = |annotated: &str, class: Option<&str>| {
        json!({
            "metadata": {"name": "web", "annotations": {"kubernetes.io/ingress.class": annotated}},
            "spec": {"defaultBackend": service("web"), "ingressClassName": class},
        })
    };
    check::<Ingress>(of("edge", Some("edge")), &[]);
    check::<Ingress>(
        of("other", Some("edge")),
        &[
            "annotations.kubernetes.io/ingress.class: Invalid value: \"other\": must match `ingressClassName` when both are specified",
        ],
    );
    let stored = created::<Ingress>(of("edge", Some("edge")));
    check_update(&stored, of("other", Some("edge")), Part::Main, &[]);
    let deprecated = "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead";
    let old = created::<Ingress>(of("edge", None));
    assert_eq!(old.warnings(), [deprecated]);
    assert!(old.update_warnings(&old, Part::Main).is_empty());
    assert!(stored.warnings().is_empty());
}

#[test]
fn addresses_are_the_controllers() {
    let manifest = json!({
        "spec": {"defaultBackend": service("web")},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
    });
    check_created::<Ingress>(manifest.clone(), "/status", json!({"loadBalancer": {}}));
    let stored = created::<Ingress>(manifest.clone());
    let mut written = defaulted::<Ingress>(manifest);
    written.prepare_update(&stored, Part::Status);
    assert_eq!(super::entry_points(&written).len(), 1);
    assert!(!written.is_new_generation(&stored));

    let status = |points: Value| json!({"status": {"loadBalancer": {"ingress": points}}});
    check_update(
        &stored,
        status(json!([{"ip": "010.0.0.1"}, {"hostname": "10.0.0.1"}, {"hostname": "lb.org"}])),
        Part::Status,
        &[
            "status.loadBalancer.ingress[0].ip: Invalid value: \"010.0.0.1\": must not have leading 0s",
            "status.loadBalancer.ingress[1].hostname: Invalid value: \"10.0.0.1\": must be a DNS name, not an IP address",
        ],
    );
    let odd = defaulted::<Ingress>(status(json!([{"ip": "FD00::1"}])));
    assert_eq!(
        odd.update_warnings(&stored, Part::Status),
        [
            "status.loadBalancer.ingress[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"
        ]
    );
}

#[test]
fn columns_show_hosts_and_addresses() {
    let rules: Vec<Value> =
        ["a.org", "", "b.org", "c.org", "d.org"].iter().map(|it| json!({"host": it})).collect();
    check_row::<Ingress>(
        json!({
            "metadata": {"name": "web", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "spec": {"rules": rules, "tls": [{}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "lb.org"}, {"ip": "1.1.1.1"}]}},
        }),
        "2024-01-02T03:05:05Z",
        json!([
            "web",
            "<none>",
            "a.org,b.org,c.org + 2 more...",
            "1.1.1.1,2.2.2.2,lb.org",
            "80, 443",
            "60s"
        ]),
    );
    check_row::<Ingress>(
        json!({
            "metadata": {"name": "web", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "spec": {"ingressClassName": "edge", "defaultBackend": service("web")},
        }),
        "2024-01-02T03:05:05Z",
        json!(["web", "edge", "*", "", "80", "60s"]),
    );
}
