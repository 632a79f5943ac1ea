//! Pods and a version in, what is told of one check out.

mod fields;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::{ALL, Subject, Violations, of};
use crate::plugins::pod_security::policy::{Level, Standard, Version};

fn standard(level: Level, version: &str) -> Standard {
    Standard { level, version: Version::parse(version).unwrap() }
}

fn spec(value: Value) -> PodSpec {
    serde_json::from_value(value).unwrap()
}

/// A container called `c`, and one of each other sort that is the same.
fn everywhere(fields: &Value) -> Value {
    let named = |name: &str| {
        let mut container = fields.clone();
        container["name"] = json!(name);
        json!([container])
    };
    json!({"initContainers": named("i"), "containers": named("c"), "ephemeralContainers": named("e")})
}

fn contexts(fields: &Value) -> Value {
    everywhere(&json!({"securityContext": fields}))
}

/// With a security context of the pod, too.
fn and_pod(mut spec: Value, fields: &Value) -> Value {
    spec["securityContext"] = fields.clone();
    spec
}

/// What the one check says in a version: `reason (detail)`, or nothing.
fn judge(id: &str, version: &str, value: Value) -> String {
    judge_annotated(id, version, value, &[])
}

fn judge_annotated(id: &str, version: &str, value: Value, annotations: &[(&str, &str)]) -> String {
    let owned = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let annotations: BTreeMap<String, String> = owned.collect();
    let spec = spec(value);
    let check = ALL.iter().find(|it| it.id == id).unwrap();
    let judge = check.judge_in(Version::parse(version).unwrap());
    let found = judge.and_then(|it| it(&Subject { annotations: Some(&annotations), spec: &spec }));
    Violations(found.into_iter().collect()).details()
}

#[test]
fn the_table_is_in_order() {
    let levels: Vec<(Level, &str)> = ALL.iter().map(|it| (it.level, it.id)).collect();
    let mut sorted = levels.clone();
    sorted.sort();
    assert_eq!(levels, sorted);
    for check in ALL {
        assert!(check.since.is_sorted_by(|a, b| a.0 < b.0), "{}", check.id);
        if let Some(other) = check.instead_of {
            let other = ALL.iter().find(|it| it.id == other).unwrap();
            assert!(other.level < check.level, "{}", check.id);
        }
    }
}

#[test]
fn versions_and_levels_have_their_checks() {
    let ids = |level: Level, version: &str| {
        let ids: Vec<&str> = of(standard(level, version)).map(|it| it.0).collect();
        ids.join(" ")
    };
    assert_eq!(ids(Level::Privileged, "latest"), "");
    let first = "appArmorProfile capabilities_baseline hostNamespaces hostPathVolumes hostPorts \
                 privileged procMount seLinuxOptions seccompProfile_baseline sysctls windowsHostProcess";
    assert_eq!(ids(Level::Baseline, "v1.0"), first);
    assert_eq!(ids(Level::Baseline, "v1.33"), first);
    let now = first.replace("privileged", "hostProbesAndHostLifecycle privileged");
    assert_eq!(ids(Level::Baseline, "v1.34"), now);
    assert_eq!(ids(Level::Baseline, "latest"), now);
    assert_eq!(
        ids(Level::Restricted, "v1.0"),
        format!("{} restrictedVolumes runAsNonRoot", first.replace(" hostPathVolumes", ""))
    );
    assert_eq!(
        ids(Level::Restricted, "v1.8"),
        format!(
            "{} allowPrivilegeEscalation restrictedVolumes runAsNonRoot",
            first.replace(" hostPathVolumes", "")
        )
    );
    let latest = "appArmorProfile hostNamespaces hostPorts hostProbesAndHostLifecycle privileged \
                  seLinuxOptions sysctls windowsHostProcess allowPrivilegeEscalation \
                  capabilities_restricted procMount_restricted restrictedVolumes runAsNonRoot \
                  runAsUser seccompProfile_restricted";
    assert_eq!(ids(Level::Restricted, "latest"), latest);
    // Versions to come are the latest.
    assert_eq!(ids(Level::Restricted, "v1.99"), latest);
    assert!(!ids(Level::Restricted, "v1.18").contains("seccompProfile_restricted"));
    assert!(ids(Level::Restricted, "v1.19").contains("seccompProfile_restricted"));
    assert!(!ids(Level::Restricted, "v1.21").contains("capabilities_restricted"));
    assert!(ids(Level::Restricted, "v1.22").contains("capabilities_restricted"));
    assert!(!ids(Level::Restricted, "v1.22").contains("runAsUser"));
    assert!(ids(Level::Restricted, "v1.23").contains("runAsUser"));
    assert!(ids(Level::Restricted, "v1.34").contains("procMount "));
    assert!(!ids(Level::Restricted, "v1.34").contains("procMount_restricted"));
}

#[test]
fn host_namespaces() {
    let check = |fields: Value, expected: &str| {
        assert_eq!(judge("hostNamespaces", "v1.0", fields), expected)
    };
    let none = json!({"containers": [], "hostNetwork": false, "hostPID": false, "hostIPC": false});
    check(none, "");
    check(
        json!({"containers": [], "hostNetwork": true, "hostPID": true, "hostIPC": true}),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    );
    check(json!({"containers": [], "hostIPC": true}), "host namespaces (hostIPC=true)");
}

#[test]
fn privileged() {
    let check = |is: bool, expected: &str| {
        assert_eq!(judge("privileged", "v1.0", contexts(&json!({"privileged": is}))), expected);
    };
    check(false, "");
    check(
        true,
        r#"privileged (containers "i", "c", "e" must not set securityContext.privileged=true)"#,
    );
    let one = json!({"containers": [{"name": "a", "securityContext": {"privileged": true}}]});
    assert_eq!(
        judge("privileged", "latest", one),
        r#"privileged (container "a" must not set securityContext.privileged=true)"#
    );
}

#[test]
fn host_path_volumes() {
    let volumes = json!([
        {"name": "a", "hostPath": {"path": "/"}},
        {"name": "b", "emptyDir": {}},
        {"name": "d", "hostPath": {"path": "/"}},
    ]);
    assert_eq!(
        judge("hostPathVolumes", "v1.0", json!({"containers": [], "volumes": volumes})),
        r#"hostPath volumes (volumes "a", "d")"#
    );
    let volumes = json!([{"name": "b", "emptyDir": {}}]);
    assert_eq!(judge("hostPathVolumes", "v1.0", json!({"containers": [], "volumes": volumes})), "");
}

#[test]
fn host_ports() {
    let ports = |ports: &[i32]| -> Value {
        ports.iter().map(|it| json!({"containerPort": 1, "hostPort": it})).collect()
    };
    let check =
        |fields: Value, expected: &str| assert_eq!(judge("hostPorts", "v1.0", fields), expected);
    check(everywhere(&json!({"ports": ports(&[0])})), "");
    check(
        everywhere(&json!({"ports": ports(&[80, 9, 0, 100])})),
        r#"hostPort (containers "i", "c", "e" use hostPorts 100, 80, 9)"#,
    );
    check(
        json!({"containers": [{"name": "c", "ports": ports(&[80])}]}),
        r#"hostPort (container "c" uses hostPort 80)"#,
    );
}

#[test]
fn host_probes_and_host_lifecycle() {
    let id = "hostProbesAndHostLifecycle";
    let http = |host: &str| json!({"httpGet": {"port": 1, "host": host}});
    let tcp = |host: &str| json!({"tcpSocket": {"port": 1, "host": host}});
    let all = json!({
        "livenessProbe": http("a"), "readinessProbe": tcp("b"), "startupProbe": http("c"),
        "lifecycle": {"postStart": http("d"), "preStop": tcp("e")},
    });
    assert_eq!(
        judge(id, "v1.34", everywhere(&all)),
        r#"probe or lifecycle host (containers "c", "e", "i" use probe or lifecycle hosts "a", "b", "c", "d", "e")"#
    );
    assert_eq!(judge(id, "v1.33", everywhere(&all)), "");
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        for probe in [http("127.0.0.1"), tcp("127.0.0.1")] {
            let one = json!({"containers": [{"name": "a", field: probe}]});
            assert_eq!(
                judge(id, "latest", one),
                r#"probe or lifecycle host (container "a" uses probe or lifecycle host "127.0.0.1")"#
            );
        }
    }
    assert_eq!(judge(id, "latest", everywhere(&json!({"livenessProbe": http("")}))), "");
}

#[test]
fn windows_host_process() {
    let options = |is: bool| json!({"windowsOptions": {"hostProcess": is}});
    let check = |fields: Value, expected: &str| {
        assert_eq!(judge("windowsHostProcess", "v1.0", fields), expected)
    };
    check(and_pod(contexts(&options(false)), &options(false)), "");
    let end = "must not set securityContext.windowsOptions.hostProcess=true)";
    check(and_pod(contexts(&json!({})), &options(true)), &format!("hostProcess (pod {end}"));
    check(
        and_pod(contexts(&options(true)), &options(true)),
        &format!(r#"hostProcess (pod and containers "i", "c", "e" {end}"#),
    );
}

#[test]
fn capabilities() {
    let added = |add: Value| contexts(&json!({"capabilities": {"add": add, "drop": ["ALL"]}}));
    let end = "in securityContext.capabilities.add";
    assert_eq!(judge("capabilities_baseline", "v1.0", added(json!(["CHOWN", "KILL"]))), "");
    assert_eq!(
        judge("capabilities_baseline", "v1.0", added(json!(["SYS_ADMIN", "CHOWN", "NET_RAW"]))),
        format!(
            r#"non-default capabilities (containers "i", "c", "e" must not include "NET_RAW", "SYS_ADMIN" {end})"#
        )
    );
    let check = |fields: Value, expected: &str| {
        assert_eq!(judge("capabilities_restricted", "v1.22", fields), expected);
    };
    check(added(json!(["NET_BIND_SERVICE"])), "");
    check(
        added(json!(["CHOWN"])),
        &format!(
            r#"unrestricted capabilities (containers "i", "c", "e" must not include "CHOWN" {end})"#
        ),
    );
    let drop = r#"must set securityContext.capabilities.drop=["ALL"]"#;
    let all = r#"containers "i", "c", "e""#;
    check(contexts(&json!({})), &format!("unrestricted capabilities ({all} {drop})"));
    check(everywhere(&json!({})), &format!("unrestricted capabilities ({all} {drop})"));
    check(
        contexts(&json!({"capabilities": {"add": ["CHOWN"], "drop": ["KILL"]}})),
        &format!(
            r#"unrestricted capabilities ({all} {drop}; {all} must not include "CHOWN" {end})"#
        ),
    );
}

#[test]
fn app_armor_profile() {
    let id = "appArmorProfile";
    let profile = |type_: &str| json!({"appArmorProfile": {"type": type_}});
    for type_ in ["RuntimeDefault", "Localhost"] {
        assert_eq!(judge(id, "v1.0", and_pod(contexts(&profile(type_)), &profile(type_))), "");
    }
    assert_eq!(
        judge(id, "v1.0", and_pod(contexts(&profile("Unconfined")), &profile("Unconfined"))),
        r#"forbidden AppArmor profile (pod and containers "i", "c", "e" must not set AppArmor profile type to "Unconfined")"#
    );
    let key = "container.apparmor.security.beta.kubernetes.io/a";
    let annotated = |value: &str, spec: Value| judge_annotated(id, "v1.0", spec, &[(key, value)]);
    for value in ["", "runtime/default", "localhost/mine"] {
        assert_eq!(annotated(value, everywhere(&json!({}))), "");
    }
    assert_eq!(
        annotated("unconfined", everywhere(&json!({}))),
        format!(
            r#"forbidden AppArmor profile (annotation must not set AppArmor profile type to "{key}="unconfined"")"#
        )
    );
    assert_eq!(
        annotated("unconfined", and_pod(everywhere(&json!({})), &profile("Unconfined"))),
        format!(
            r#"forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to "Unconfined", "{key}="unconfined"")"#
        )
    );
}

#[test]
fn se_linux_options() {
    let id = "seLinuxOptions";
    let options = |fields: Value| json!({"seLinuxOptions": fields});
    let of_type = |type_: &str| options(json!({"type": type_, "level": "s0"}));
    for type_ in ["", "container_t", "container_init_t", "container_kvm_t"] {
        assert_eq!(judge(id, "v1.0", and_pod(contexts(&of_type(type_)), &of_type(type_))), "");
    }
    let engine = || contexts(&of_type("container_engine_t"));
    assert_eq!(
        judge(id, "v1.30", engine()),
        r#"seLinuxOptions (containers "i", "c", "e" set forbidden securityContext.seLinuxOptions: type "container_engine_t")"#
    );
    assert_eq!(judge(id, "v1.31", engine()), "");
    let bad = options(json!({"type": "b", "user": "u", "role": "r"}));
    assert_eq!(
        judge(id, "latest", and_pod(contexts(&bad), &of_type("a"))),
        r#"seLinuxOptions (pod and containers "i", "c", "e" set forbidden securityContext.seLinuxOptions: types "a", "b"; user may not be set; role may not be set)"#
    );
    assert_eq!(
        judge(id, "latest", and_pod(contexts(&json!({})), &options(json!({"role": "r"})))),
        "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: role may not be set)"
    );
}

#[test]
fn proc_mount() {
    let unmasked = |is_host: Value| {
        let mut spec = contexts(&json!({"procMount": "Unmasked"}));
        spec["hostUsers"] = is_host;
        spec
    };
    let told = r#"procMount (containers "i", "c", "e" must not set securityContext.procMount to "Unmasked")"#;
    let check = |id: &str, version: &str, is_host: Value, is_refused: bool| {
        let expected = if is_refused { told } else { "" };
        assert_eq!(judge(id, version, unmasked(is_host)), expected, "{id} {version}");
    };
    check("procMount", "v1.34", json!(false), true);
    check("procMount", "v1.35", json!(false), false);
    check("procMount", "v1.35", json!(true), true);
    check("procMount", "v1.35", json!(null), true);
    check("procMount_restricted", "v1.34", json!(null), false);
    check("procMount_restricted", "v1.35", json!(false), true);
    assert_eq!(judge("procMount", "v1.0", contexts(&json!({"procMount": "Default"}))), "");
}

#[test]
fn seccomp_by_annotations() {
    let id = "seccompProfile_baseline";
    let check = |version: &str, annotations: &[(&str, &str)], expected: &str| {
        let spec = everywhere(&json!({}));
        assert_eq!(judge_annotated(id, version, spec, annotations), expected);
    };
    let pod = "seccomp.security.alpha.kubernetes.io/pod";
    let of_e = "container.seccomp.security.alpha.kubernetes.io/e";
    let stranger = "container.seccomp.security.alpha.kubernetes.io/stranger";
    check("v1.0", &[(pod, "runtime/default"), (of_e, "docker/default")], "");
    check("v1.0", &[(pod, "localhost/a"), (stranger, "unconfined")], "");
    check(
        "v1.18",
        &[(pod, "unconfined"), (of_e, "")],
        &format!(r#"seccompProfile (forbidden annotations {of_e}="", {pod}="unconfined")"#),
    );
    check("v1.19", &[(pod, "unconfined")], "");
}

#[test]
fn seccomp_by_fields() {
    let profile = |type_: &str| json!({"seccompProfile": {"type": type_}});
    let both = ["seccompProfile_baseline", "seccompProfile_restricted"];
    let told = r#"must not set securityContext.seccompProfile.type to "Unconfined")"#;
    for id in both {
        let good = and_pod(contexts(&profile("Localhost")), &profile("RuntimeDefault"));
        assert_eq!(judge(id, "v1.19", good), "");
        let bad = and_pod(contexts(&profile("Unconfined")), &profile("Unconfined"));
        let all = r#"pod and containers "i", "c", "e""#;
        assert_eq!(judge(id, "v1.19", bad), format!("seccompProfile ({all} {told}"));
        let overruled = and_pod(contexts(&profile("RuntimeDefault")), &profile("Unconfined"));
        assert_eq!(judge(id, "v1.19", overruled), format!("seccompProfile (pod {told}"));
        let inherited = and_pod(contexts(&json!({})), &profile("RuntimeDefault"));
        assert_eq!(judge(id, "v1.19", inherited), "");
    }
    let silent = || contexts(&json!({}));
    assert_eq!(judge(both[0], "latest", silent()), "");
    assert_eq!(
        judge(both[1], "latest", silent()),
        r#"seccompProfile (pod or containers "i", "c", "e" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#
    );
}

#[test]
fn sysctls() {
    let check = |version: &str, names: &[&str], expected: &str| {
        let sysctls: Value = names.iter().map(|it| json!({"name": it, "value": "1"})).collect();
        let spec = json!({"containers": [], "securityContext": {"sysctls": sysctls}});
        assert_eq!(judge("sysctls", version, spec), expected, "{version}");
    };
    let first = [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ];
    check("v1.0", &first, "");
    check("v1.0", &["b", "a"], "forbidden sysctls (b, a)");
    let added: [(u64, &[&str]); 3] = [
        (27, &["net.ipv4.ip_local_reserved_ports"]),
        (
            29,
            &[
                "net.ipv4.tcp_keepalive_time",
                "net.ipv4.tcp_fin_timeout",
                "net.ipv4.tcp_keepalive_intvl",
                "net.ipv4.tcp_keepalive_probes",
            ],
        ),
        (32, &["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]),
    ];
    for (minor, names) in added {
        check(&format!("v1.{minor}"), names, "");
        let before = format!("forbidden sysctls ({})", names.join(", "));
        check(&format!("v1.{}", minor - 1), names, &before);
    }
}

#[test]
fn allow_privilege_escalation() {
    let id = "allowPrivilegeEscalation";
    let check = |fields: Value, is_refused: bool| {
        let told = r#"allowPrivilegeEscalation != false (containers "i", "c", "e" must set securityContext.allowPrivilegeEscalation=false)"#;
        let expected = if is_refused { told } else { "" };
        assert_eq!(judge(id, "v1.8", fields), expected);
    };
    check(contexts(&json!({"allowPrivilegeEscalation": false})), false);
    check(contexts(&json!({"allowPrivilegeEscalation": true})), true);
    check(contexts(&json!({})), true);
    check(everywhere(&json!({})), true);
    let one = json!({"containers": [{"name": "c"}]});
    assert_eq!(
        judge(id, "latest", one),
        r#"allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)"#
    );
}

#[test]
fn windows_has_no_such_thing() {
    let mut spec = everywhere(&json!({}));
    spec["os"] = json!({"name": "windows"});
    let mut linux = spec.clone();
    linux["os"] = json!({"name": "linux"});
    for id in ["allowPrivilegeEscalation", "capabilities_restricted", "seccompProfile_restricted"] {
        assert_ne!(judge(id, "v1.24", spec.clone()), "", "{id}");
        assert_eq!(judge(id, "v1.25", spec.clone()), "", "{id}");
        assert_ne!(judge(id, "v1.25", linux.clone()), "", "{id}");
    }
    assert_ne!(judge("runAsNonRoot", "latest", spec), "");
}

#[test]
fn restricted_volumes() {
    let allowed = json!([
        {"name": "a", "configMap": {"name": "a"}},
        {"name": "b", "csi": {"driver": "d"}},
        {"name": "c", "downwardAPI": {}},
        {"name": "d", "emptyDir": {}},
        {"name": "e", "ephemeral": {}},
        {"name": "f", "image": {"reference": "i"}},
        {"name": "g", "persistentVolumeClaim": {"claimName": "p"}},
        {"name": "h", "projected": {}},
        {"name": "i", "secret": {"secretName": "s"}},
    ]);
    let check = |volumes: Value, expected: &str| {
        let spec = json!({"containers": [], "volumes": volumes});
        assert_eq!(judge("restrictedVolumes", "v1.0", spec), expected);
    };
    check(allowed, "");
    check(
        json!([{"name": "a", "nfs": {"server": "s", "path": "/"}}]),
        r#"restricted volume types (volume "a" uses restricted volume type "nfs")"#,
    );
    check(
        json!([{"name": "b", "hostPath": {"path": "/"}}, {"name": "a", "gitRepo": {"repository": "r"}}, {"name": "c"}]),
        r#"restricted volume types (volumes "b", "a", "c" use restricted volume types "gitRepo", "hostPath", "unknown")"#,
    );
}

#[test]
fn run_as_non_root() {
    let id = "runAsNonRoot";
    let says = |is: bool| json!({"runAsNonRoot": is});
    let check = |spec: Value, expected: &str| assert_eq!(judge(id, "v1.0", spec), expected);
    check(contexts(&says(true)), "");
    check(and_pod(contexts(&json!({})), &says(true)), "");
    check(
        and_pod(contexts(&says(true)), &says(false)),
        "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
    );
    check(
        and_pod(contexts(&says(false)), &says(true)),
        r#"runAsNonRoot != true (containers "i", "c", "e" must not set securityContext.runAsNonRoot=false)"#,
    );
    check(
        everywhere(&json!({})),
        r#"runAsNonRoot != true (pod or containers "i", "c", "e" must set securityContext.runAsNonRoot=true)"#,
    );
}

#[test]
fn run_as_user() {
    let id = "runAsUser";
    let user = |id: i64| json!({"runAsUser": id});
    assert_eq!(judge(id, "v1.23", and_pod(contexts(&user(1)), &user(2))), "");
    assert_eq!(judge(id, "v1.22", and_pod(contexts(&user(0)), &user(0))), "");
    assert_eq!(
        judge(id, "v1.23", and_pod(contexts(&user(0)), &user(0))),
        r#"runAsUser=0 (pod and containers "i", "c", "e" must not set runAsUser=0)"#
    );
}

#[test]
fn root_in_users_of_its_own_is_nobody() {
    for id in ["runAsNonRoot", "runAsUser"] {
        let mut spec = contexts(&json!({"runAsUser": 0}));
        spec["hostUsers"] = json!(false);
        assert_ne!(judge(id, "v1.34", spec.clone()), "", "{id}");
        assert_eq!(judge(id, "v1.35", spec.clone()), "", "{id}");
        spec["hostUsers"] = json!(true);
        assert_ne!(judge(id, "v1.35", spec), "", "{id}");
    }
}

#[test]
fn a_plain_pod_is_baseline_and_a_careful_one_restricted() {
    let plain = spec(json!({"containers": [{"name": "c", "image": "i"}]}));
    let subject = Subject { annotations: None, spec: &plain };
    assert!(Violations::of(standard(Level::Baseline, "latest"), &subject).is_empty());
    assert_eq!(
        Violations::of(standard(Level::Restricted, "latest"), &subject).details(),
        "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    let careful = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let of_pod = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    let careful = spec(and_pod(contexts(&careful), &of_pod));
    let subject = Subject { annotations: None, spec: &careful };
    for minor in 0..=36 {
        let standard = standard(Level::Restricted, &format!("v1.{minor}"));
        assert_eq!(Violations::of(standard, &subject).details(), "", "v1.{minor}");
    }
}
