//! Pods in, what is said about them out.

use serde_json::{Value, json};

use crate::core::pod::Pod;
use crate::kind::{Part, Resource as _};
use crate::testing::{created, defaulted};

/// A pod whose spec has these fields besides one container, `web`.
fn pod(fields: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "web", "image": "web"}]});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"}, "spec": spec,
    })
}

fn check(fields: Value, expected: &[&str]) {
    assert_eq!(created::<Pod>(pod(fields)).warnings(), expected);
}

/// Of the only container.
fn container(fields: Value) -> Value {
    let mut container = json!({"name": "web", "image": "web"});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"containers": [container]})
}

#[test]
fn a_profile_by_annotation_is_told_of_before_it_is_in_the_field() {
    let key = "container.apparmor.security.beta.kubernetes.io/web";
    let said = format!(
        "metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
    );
    let check = |annotation: &str, fields: Value, expected: &[&str]| {
        let mut manifest = pod(fields);
        manifest["metadata"]["annotations"] = json!({ key: annotation });
        assert_eq!(defaulted::<Pod>(manifest.clone()).warnings_before(), expected);
        assert_eq!(created::<Pod>(manifest).warnings(), [""; 0]);
    };
    check("runtime/default", json!({}), &[&said]);
    check("no profile", json!({}), &[&said]);
    let profile = || json!({"appArmorProfile": {"type": "RuntimeDefault"}});
    check("runtime/default", json!({"securityContext": profile()}), &[]);
    check("unconfined", json!({"securityContext": profile()}), &[&said]);
    check("runtime/default", container(json!({"securityContext": profile()})), &[]);
    check("runtime/default", json!({"os": {"name": "windows"}}), &[]);
}

#[test]
fn labels_of_nodes_that_have_other_names_now() {
    let arch = "deprecated since v1.14; use \"kubernetes.io/arch\" instead";
    check(
        json!({"nodeSelector": {"beta.kubernetes.io/arch": "a"}}),
        &[&format!("spec.nodeSelector[beta.kubernetes.io/arch]: {arch}")],
    );
    let term = json!({"matchExpressions": [
        {"key": "kubernetes.io/os", "operator": "Exists"},
        {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["-a"]},
    ]});
    let preferred = json!({"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
    }}});
    let path = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[1]";
    check(
        preferred,
        &[
            &format!("{path}.key: beta.kubernetes.io/arch is {arch}"),
            &format!(
                "{path}.values[0]: -a is invalid, a valid label must be an empty string or \
                 consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
                 used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
        ],
    );
    let spread = json!({"maxSkew": 1, "topologyKey": "beta.kubernetes.io/arch",
                        "whenUnsatisfiable": "ScheduleAnyway"});
    check(
        json!({"topologySpreadConstraints": [spread]}),
        &[
            &format!(
                "spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/arch is {arch}"
            ),
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        ],
    );
}

#[test]
fn terms_that_match_no_pod() {
    let term = json!({"topologyKey": "k"});
    let both = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": term},
        ],
    });
    let why = "a null labelSelector results in matching no pod";
    let required = "requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector";
    let preferred =
        "preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector";
    let texts: Vec<String> = ["podAffinity", "podAntiAffinity"]
        .into_iter()
        .flat_map(|it| [required, preferred].map(|at| format!("spec.affinity.{it}.{at}: {why}")))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    check(json!({"affinity": {"podAffinity": both, "podAntiAffinity": both}}), &texts);
}

#[test]
fn annotations_that_do_nothing() {
    let mut manifest = pod(json!({}));
    manifest["metadata"]["annotations"] = json!({
        "scheduler.alpha.kubernetes.io/critical-pod": "",
        "security.alpha.kubernetes.io/unsafe-sysctls": "a=b",
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/web": "unconfined",
    });
    let none = created::<Pod>(manifest.clone()).warnings();
    let seccomp = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    assert_eq!(
        none,
        [
            "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \"priorityClassName\" field instead".to_owned(),
            "metadata.annotations[security.alpha.kubernetes.io/unsafe-sysctls]: non-functional in v1.11+; use the \"sysctls\" field instead".to_owned(),
            format!("metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: {seccomp}"),
            format!("metadata.annotations[container.seccomp.security.alpha.kubernetes.io/web]: {seccomp}"),
        ]
    );
    manifest["metadata"]["annotations"] =
        json!({"seccomp.security.alpha.kubernetes.io/pod": "unconfined"});
    manifest["spec"]["securityContext"] = json!({"seccompProfile": {"type": "Unconfined"}});
    assert_eq!(created::<Pod>(manifest).warnings(), Vec::<String>::new());
}

#[test]
fn volumes_of_plugins_that_are_gone() {
    let unsupported = "volumes of this type are not supported yet; the pod will not start";
    check(
        json!({"volumes": [
            {"name": "a", "gitRepo": {"repository": "r"}},
            {"name": "b", "rbd": {"monitors": ["m"], "image": "i"}},
            {"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}},
            }}}},
        ]}),
        &[
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "spec.volumes[1].rbd: deprecated in v1.28, non-functional in v1.31+",
            "spec.volumes[2].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            &format!("spec.volumes[0].gitRepo: {unsupported}"),
            &format!("spec.volumes[1].rbd: {unsupported}"),
            &format!("spec.volumes[2].ephemeral: {unsupported}"),
        ],
    );
}

#[test]
fn files_that_are_put_in_each_others_place() {
    let items = json!([
        {"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}, {"key": "c", "path": "xy"},
    ]);
    check(
        json!({"volumes": [
            {"name": "a", "configMap": {"name": "m", "items": items}},
            {"name": "b", "secret": {"secretName": "s", "items": items}},
            {"name": "c", "projected": {"sources": [
                {"secret": {"name": "s", "items": [{"key": "a", "path": "token"}]}},
                {"serviceAccountToken": {"path": "token"}},
                {"configMap": {"name": "all"}},
            ]}},
        ]}),
        &[
            "volume \"a\" (ConfigMap \"m\"): overlapping paths: \"x/y\" with \"x\"",
            "volume \"b\" (Secret \"s\"): overlapping paths: \"x/y\" with \"x\"",
            "volume \"c\" (Projected): overlapping paths: \"token\" (ServiceAccountToken) with \"token\" (Secret \"s\")",
        ],
    );
}

#[test]
fn names_that_are_there_twice_or_not_at_all() {
    check(
        json!({
            "hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}],
            "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {"name": ""}],
        }),
        &[
            "spec.hostAliases[1].ip: duplicate ip \"1.2.3.4\"",
            "spec.imagePullSecrets[1].name: duplicate name \"a\"",
            "spec.imagePullSecrets[2].name: invalid empty name \"\"",
        ],
    );
}

#[test]
fn parts_of_bytes() {
    let why = "is invalid, must be an integer";
    check(
        container(json!({"resources": {
            "limits": {"memory": "1500m", "ephemeral-storage": "2"},
            "requests": {"memory": "100m", "ephemeral-storage": "0.5", "cpu": "100m"},
        }})),
        &[
            &format!(
                "spec.containers[0].resources.limits[memory]: fractional byte value \"1500m\" {why}"
            ),
            &format!(
                "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" {why}"
            ),
            &format!(
                "spec.containers[0].resources.requests[ephemeral-storage]: fractional byte value \"500m\" {why}"
            ),
        ],
    );
}

#[test]
fn variables_that_hide_others() {
    let one = |value: &str| json!({"name": "A", "value": value});
    let said = "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply";
    check(container(json!({"env": [one("x"), one("$(A)y")]})), &[]);
    check(container(json!({"env": [one("x"), one("$(A)")]})), &[said]);
    check(container(json!({"env": [one("x"), one("y")]})), &[said]);
}

#[test]
fn ports_that_are_in_each_others_way() {
    let at = "spec.containers[0].ports";
    let check = |ports: Value, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|it| it.replace('@', at)).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(container(json!({ "ports": ports })), &expected);
    };
    let port = |host: i64, ip: &str| {
        let mut port = json!({"containerPort": 80});
        if host > 0 {
            port["hostPort"] = json!(host);
        }
        if !ip.is_empty() {
            port["hostIP"] = json!(ip);
        }
        port
    };
    check(json!([port(0, ""), port(0, "")]), &["@[1]: duplicate port definition with @[0]"]);
    check(json!([port(0, ""), port(8, "")]), &["@[1]: overlapping port definition with @[0]"]);
    check(
        json!([port(8, ""), port(8, "1.1.1.1")]),
        &["@[1]: dangerously ambiguous port definition with @[0]"],
    );
    check(json!([port(8, "1.1.1.2"), port(8, "1.1.1.1")]), &[]);
    check(json!([{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]), &[]);
    check(
        json!([port(0, "1.1.1.1")]),
        &[
            "@[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.1.1.1}",
        ],
    );
}

#[test]
fn ports_of_two_containers_with_one_name() {
    let one = |name: &str, port: i64| json!({"name": name, "image": "i", "ports": [{"name": "web", "containerPort": port}]});
    let init = one("first", 80);
    let mut sidecar = init.clone();
    sidecar["restartPolicy"] = json!("Always");
    check(
        json!({"initContainers": [sidecar], "containers": [one("then", 81)]}),
        &[
            "spec.containers[0].ports[0]: duplicate port name \"web\" with spec.initContainers[0].ports[0], services and probes that select ports by name will use spec.initContainers[0].ports[0]",
        ],
    );
}

#[test]
fn addresses_in_other_forms() {
    check(
        json!({
            "dnsConfig": {"nameservers": ["FD00::1"]},
            "hostAliases": [{"ip": "FD00::2"}],
        }),
        &[
            "spec.dnsConfig.nameservers[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")",
            "spec.hostAliases[0].ip: IPv6 address \"FD00::2\" should be in RFC 5952 canonical format (\"fd00::2\")",
        ],
    );
}

#[test]
fn a_pod_is_warned_of_when_it_is_new_and_of_the_addresses_in_its_status() {
    let mut manifest = pod(json!({}));
    manifest["metadata"]["name"] = json!("a.b");
    let dotted = created::<Pod>(manifest);
    assert_eq!(
        dotted.warnings()[0],
        "metadata.name: this is used in the Pod's hostname, which can result in surprising \
         behavior; a DNS label is recommended: [must not contain dots]"
    );
    assert_eq!(dotted.update_warnings(&dotted, Part::Main), Vec::<String>::new());
    let mut told = dotted.clone();
    let status = json!({"podIPs": [{"ip": "FD00::1"}], "hostIPs": [{"ip": "10.0.0.1"}]});
    told.status = Some(serde_json::from_value(status).unwrap());
    assert_eq!(
        told.update_warnings(&dotted, Part::Status),
        [
            "status.podIPs[0].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"
        ]
    );
}
