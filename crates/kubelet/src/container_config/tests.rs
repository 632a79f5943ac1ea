//! Manifest in, configuration out.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use node_api::ImageId;
use node_api::containers::{Seccomp, SeccompFile, Security};
use node_api::images::{Image, ImageConfig};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{of_container, of_overhead, of_pod, of_sandbox, render, runs_as_root, sub_paths};
use crate::Pools;
use crate::pod_facts::{Allocatable, FileKey, Lookups, PodFacts, RunFacts};

pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn facts() -> PodFacts {
    let named = |kind: &str, value: Value| {
        let mut value = value;
        value["metadata"] = json!({"name": kind, "namespace": "shop"});
        value
    };
    let service = |namespace: &str, name: &str, address: &str, ports: Value| {
        Arc::new(object(json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"clusterIP": address, "ports": ports},
        })))
    };
    PodFacts {
        node_name: "n1".to_owned(),
        host_ips: vec!["192.168.1.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        pod_ips: vec!["10.244.0.5".parse().unwrap(), "fd01::5".parse().unwrap()],
        allocatable: NODE,
        lookups: Lookups {
            config_maps: BTreeMap::from([(
                "settings".to_owned(),
                Arc::new(object(named(
                    "settings",
                    json!({"data": {"color": "red", "log.level": "info"}, "binaryData": {"raw": "AAE="}}),
                ))),
            )]),
            secrets: BTreeMap::from([(
                "login".to_owned(),
                Arc::new(object(named("login", json!({"data": {"password": "czNjcmV0"}})))),
            )]),
            tokens: BTreeMap::new(),
            certificates: None,
            trust_bundles: None,
        },
        services: vec![
            service(
                "default",
                "kubernetes",
                "10.96.0.1",
                json!([{"name": "https", "port": 443, "protocol": "TCP"}]),
            ),
            service("shop", "my-db", "10.96.0.9", json!([{"port": 53, "protocol": "UDP"}])),
            service("shop", "headless", "None", json!([{"port": 80}])),
        ],
        volumes: BTreeMap::from([("data".to_owned(), "/vol/data".into())]),
        directory: "/var/lib/kubelet/pods/u1".into(),
        hosts_file: Some("/var/lib/kubelet/pods/u1/etc-hosts".into()),
        can_recursive_read_only: true,
        files: [("A", Some("1")), ("EMPTY", Some("")), ("BAD", None)]
            .map(|(key, value)| {
                let (volume, path) = ("data".to_owned(), "env/app".to_owned());
                (FileKey { volume, path, key: key.to_owned() }, value.map(str::to_owned))
            })
            .into(),
    }
}

const NODE: Allocatable = Allocatable {
    cpu_millis: 4000,
    memory: 8 << 30,
    ephemeral_storage: 1 << 30,
    huge_pages: Pools::NONE,
};

fn run() -> RunFacts {
    RunFacts {
        image: Image {
            id: ImageId::new("sha256:1"),
            tags: Vec::new(),
            digests: Vec::new(),
            size: 1,
            config: ImageConfig { user: "1000".to_owned(), ..ImageConfig::default() },
        },
        attempt: 2,
        log_path: "/log/2.log".into(),
        termination_log: "/var/lib/kubelet/pods/u1/containers/app/1".into(),
        sub_paths: BTreeMap::from([(1, "/sub/1".into())]),
        images: BTreeMap::from([("content".to_owned(), ImageId::new("sha256:2"))]),
        target: None,
    }
}

/// A pod of one container, with what is given on top.
pub(crate) fn pod(container: Value, spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": "web-0", "namespace": "shop", "uid": "u1",
            "labels": {"app": "web", "tier": "front \"end\""}, "annotations": {"note": "two\nlines"},
        },
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "app"}]},
    });
    merge(&mut pod["spec"]["containers"][0], container);
    merge(&mut pod["spec"], spec);
    object(pod)
}

fn merge(into: &mut Value, more: Value) {
    let Value::Object(more) = more else { return };
    for (key, value) in more {
        into[key] = value;
    }
}

fn first(pod: &Pod) -> &Container {
    &pod.spec.as_ref().unwrap().containers[0]
}

/// The environment without Services, or the error, as text.
fn env(container: Value) -> String {
    let pod = pod(container, json!({"enableServiceLinks": false}));
    match render(&pod, first(&pod), &facts(), &run()) {
        Err(err) => format!("error: {err}"),
        Ok(config) => {
            let own = config
                .env
                .iter()
                .filter(|(name, _)| !name.starts_with("KUBERNETES_") && name != "HOSTNAME");
            own.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn values_come_from_everywhere() {
    let check = |variables: Value, expected: &str| {
        assert_eq!(env(json!({"env": variables})), expected, "{variables}");
    };
    let field = |path: &str| json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}]);
    check(json!([{"name": "A", "value": "1"}, {"name": "B"}]), "A=1 B=");
    check(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}]), "A=1 B=1$(C)");
    check(json!([{"name": "A", "value": "$(KUBERNETES_SERVICE_HOST)"}]), "A=10.96.0.1");
    check(field("metadata.name"), "A=web-0");
    check(field("metadata.namespace"), "A=shop");
    check(field("metadata.uid"), "A=u1");
    check(field("metadata.labels['app']"), "A=web");
    check(field("metadata.labels['none']"), "A=");
    check(field("metadata.annotations['note']"), "A=two\nlines");
    check(field("spec.nodeName"), "A=n1");
    check(field("spec.serviceAccountName"), "A=robot");
    check(field("status.hostIP"), "A=192.168.1.1");
    check(field("status.hostIPs"), "A=192.168.1.1,fd00::1");
    check(field("status.podIP"), "A=10.244.0.5");
    check(field("status.podIPs"), "A=10.244.0.5,fd01::5");
    check(field("spec.hostname"), "error: unsupported fieldPath: spec.hostname");
    let key = |kind: &str, name: &str, key: &str, optional: bool| json!([{"name": "A", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]);
    check(key("configMapKeyRef", "settings", "color", false), "A=red");
    check(key("configMapKeyRef", "none", "color", true), "");
    check(key("configMapKeyRef", "none", "color", false), "error: configmap \"none\" not found");
    check(
        key("configMapKeyRef", "settings", "none", false),
        "error: couldn't find key none in ConfigMap shop/settings",
    );
    check(key("secretKeyRef", "login", "password", false), "A=s3cret");
    check(key("secretKeyRef", "login", "none", true), "");
    check(key("secretKeyRef", "none", "a", false), "error: secret \"none\" not found");
    check(
        key("secretKeyRef", "login", "none", false),
        "error: couldn't find key none in Secret shop/login",
    );
}

#[test]
fn whole_objects_become_variables() {
    let check = |container: Value, expected: &str| assert_eq!(env(container), expected);
    let of_map = json!({"configMapRef": {"name": "settings"}});
    check(json!({"envFrom": [of_map]}), "color=red log.level=info");
    check(
        json!({"envFrom": [{"prefix": "P_", "secretRef": {"name": "login"}}]}),
        "P_password=s3cret",
    );
    check(json!({"envFrom": [{"configMapRef": {"name": "none", "optional": true}}]}), "");
    check(
        json!({"envFrom": [{"secretRef": {"name": "none"}}]}),
        "error: secret \"none\" not found",
    );
    check(
        json!({"envFrom": [of_map], "env": [{"name": "color", "value": "not $(color)"}]}),
        "color=not red log.level=info",
    );
}

#[test]
fn resources_are_shown_in_the_unit_asked_for() {
    let check = |resource: &str, divisor: &str, expected: &str| {
        let reference = json!({"resource": resource, "divisor": divisor});
        let resources = json!({
            "requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "1500m"},
        });
        let variables = json!([{"name": "A", "valueFrom": {"resourceFieldRef": reference}}]);
        let actual = env(json!({"resources": resources, "env": variables}));
        assert_eq!(actual, expected, "{resource} / {divisor}");
    };
    check("limits.cpu", "0", "A=2");
    check("limits.cpu", "1m", "A=1500");
    check("requests.cpu", "1", "A=1");
    check("requests.memory", "1Mi", "A=64");
    check("requests.memory", "1", "A=67108864");
    check("requests.ephemeral-storage", "1", "A=0");
    // Without a limit, the node is the limit.
    check("limits.memory", "1Gi", "A=8");
    check("limits.ephemeral-storage", "1Mi", "A=1024");
    check("limits.gpu", "1", "error: unsupported container resource : limits.gpu");
}

#[test]
fn containers_are_told_of_services() {
    let links = |spec: Value| {
        let pod = pod(json!({}), spec);
        let config = render(&pod, first(&pod), &facts(), &run()).unwrap();
        let links = config.env.into_iter().filter(|(name, _)| name != "HOSTNAME");
        links.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    let kubernetes = [
        "KUBERNETES_PORT=tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
        "KUBERNETES_PORT_443_TCP_PORT=443",
        "KUBERNETES_PORT_443_TCP_PROTO=tcp",
        "KUBERNETES_SERVICE_HOST=10.96.0.1",
        "KUBERNETES_SERVICE_PORT=443",
        "KUBERNETES_SERVICE_PORT_HTTPS=443",
    ];
    let my_db = [
        "MY_DB_PORT=udp://10.96.0.9:53",
        "MY_DB_PORT_53_UDP=udp://10.96.0.9:53",
        "MY_DB_PORT_53_UDP_ADDR=10.96.0.9",
        "MY_DB_PORT_53_UDP_PORT=53",
        "MY_DB_PORT_53_UDP_PROTO=udp",
        "MY_DB_SERVICE_HOST=10.96.0.9",
        "MY_DB_SERVICE_PORT=53",
    ];
    assert_eq!(links(json!({"enableServiceLinks": false})), kubernetes);
    assert_eq!(links(json!({})), [&kubernetes[..], &my_db[..]].concat());
}

#[test]
fn commands_are_expanded() {
    let pod = pod(
        json!({
            "env": [{"name": "WHO", "value": "you"}],
            "command": ["echo", "$(WHO)"], "args": ["$$(WHO)", "$(NOBODY)", "$(HOSTNAME)"],
            "workingDir": "/w", "tty": true, "lifecycle": {"stopSignal": "SIGUSR1"},
        }),
        json!({}),
    );
    let config = render(&pod, first(&pod), &facts(), &run()).unwrap();
    assert_eq!(config.command, ["echo", "you"]);
    assert_eq!(config.args, ["$(WHO)", "$(NOBODY)", "web-0"]);
    assert_eq!((config.attempt, config.tty, config.stdin), (2, true, false));
    assert_eq!(config.working_dir.as_deref(), Some("/w"));
    assert_eq!(config.stop_signal.as_deref(), Some("SIGUSR1"));
}

#[test]
fn volumes_and_files_are_mounted() {
    let check = |container: Value, expected: &[&str]| {
        let pod = pod(container, json!({}));
        let mounts = match render(&pod, first(&pod), &facts(), &run()) {
            Ok(config) => config.mounts,
            Err(err) => return assert_eq!([err.to_string().as_str()], expected),
        };
        let text = |it: &node_api::containers::Mount| {
            let mode = if it.read_only { "ro" } else { "rw" };
            format!("{} {} {mode} {:?}", it.container_path, it.host_path.display(), it.propagation)
        };
        assert_eq!(mounts.iter().map(text).collect::<Vec<_>>(), expected);
    };
    let hosts = "/etc/hosts /var/lib/kubelet/pods/u1/etc-hosts rw Private";
    let mount = |more: Value| {
        let mut mount = json!({"name": "data", "mountPath": "/data"});
        merge(&mut mount, more);
        mount
    };
    check(json!({}), &[hosts]);
    check(
        json!({"terminationMessagePath": "/dev/termination-log"}),
        &[hosts, "/dev/termination-log /var/lib/kubelet/pods/u1/containers/app/1 rw Private"],
    );
    check(
        json!({"volumeMounts": [mount(json!({"readOnly": true, "mountPropagation": "HostToContainer"}))]}),
        &["/data /vol/data ro HostToContainer", hosts],
    );
    check(
        json!({"volumeMounts": [mount(json!({"mountPath": "/etc/hosts"}))]}),
        &["/etc/hosts /vol/data rw Private"],
    );
    check(
        json!({"volumeMounts": [mount(json!({})), mount(json!({"subPath": "a", "mountPath": "rel"}))]}),
        &["/data /vol/data rw Private", "/rel /sub/1 rw Private", hosts],
    );
    // Never the whole volume instead.
    check(
        json!({"volumeMounts": [mount(json!({"subPath": "a"}))]}),
        &["failed to prepare subPath for volumeMount \"data\" of container \"app\""],
    );
    check(
        json!({"volumeMounts": [mount(json!({"name": "none"}))]}),
        &["cannot find volume \"none\" to mount into container \"app\""],
    );
}

#[test]
fn what_is_mounted_below_is_read_only_where_that_is_asked_for_and_possible() {
    let check = |mount: Value, can: bool, expected: &str| {
        let mut whole = json!({"name": "data", "mountPath": "/data"});
        merge(&mut whole, mount);
        let pod = pod(json!({"volumeMounts": [whole]}), json!({}));
        let facts = PodFacts { can_recursive_read_only: can, ..facts() };
        let shown = match render(&pod, first(&pod), &facts, &run()) {
            Ok(config) => config.mounts[0].recursive_read_only.to_string(),
            Err(err) => err.to_string(),
        };
        let expected = expected.replace(
            "REFUSED",
            "failed to resolve recursive read-only mode: volume \"data\" requested recursive read-only mode, but",
        );
        assert_eq!(shown, expected);
    };
    let mode = |mode: &str| json!({"readOnly": true, "recursiveReadOnly": mode});
    check(json!({"readOnly": true}), true, "false");
    check(mode("Disabled"), true, "false");
    check(mode("IfPossible"), true, "true");
    check(mode("IfPossible"), false, "false");
    check(mode("Enabled"), true, "true");
    check(mode("Enabled"), false, "REFUSED it is not supported by the runtime");
    check(json!({"recursiveReadOnly": "Enabled"}), true, "REFUSED it is not read-only");
    let propagated = json!({
        "readOnly": true, "recursiveReadOnly": "IfPossible", "mountPropagation": "HostToContainer",
    });
    check(propagated, true, "REFUSED it is not compatible with propagation \"HostToContainer\"");
    let unknown =
        "failed to resolve recursive read-only mode: unknown recursive read-only mode \"Always\"";
    check(mode("Always"), true, unknown);
}

#[test]
fn images_are_mounted_as_volumes() {
    let check = |mount: Value, expected: &str| {
        let mut whole = json!({"name": "content", "mountPath": "/content"});
        merge(&mut whole, mount);
        let volumes = json!([
            {"name": "content", "image": {"reference": "a:1"}},
            {"name": "unpulled", "image": {"reference": "b:1"}},
        ]);
        let container = json!({
            "volumeMounts": [whole],
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        });
        let pod = pod(container, json!({"volumes": volumes}));
        // The node is not asked for a part of it.
        assert_eq!(sub_paths(&pod, first(&pod), &facts()).unwrap(), []);
        let shown = match render(&pod, first(&pod), &facts(), &run()) {
            Ok(config) => {
                let mount = config.mounts[0].clone();
                let image = mount.image.unwrap();
                assert_eq!(mount.host_path, std::path::PathBuf::new());
                let mode = if mount.read_only { "ro" } else { "rw" };
                format!("{} {}/{} {mode}", mount.container_path, image.image, image.sub_path)
            }
            Err(err) => err.to_string(),
        };
        assert_eq!(shown, expected);
    };
    check(json!({}), "/content sha256:2/ ro");
    check(json!({"subPath": "a/./b/"}), "/content sha256:2/a/b ro");
    check(json!({"subPathExpr": "$(POD)"}), "/content sha256:2/web-0 ro");
    check(
        json!({"name": "unpulled"}),
        "cannot find volume \"unpulled\" to mount into container \"app\"",
    );
}

#[test]
fn variables_come_from_files_in_volumes() {
    let check = |key: &str, more: Value, expected: &str| {
        let mut source = json!({"volumeName": "data", "path": "env/app", "key": key});
        merge(&mut source, more);
        let variable = json!({"name": "V", "valueFrom": {"fileKeyRef": source}});
        assert_eq!(env(json!({"env": [variable]})), expected);
    };
    check("A", json!({}), "V=1");
    let missing =
        "error: environment variable key \"EMPTY\" not found in file \"/vol/data/env/app\"";
    check("EMPTY", json!({}), missing);
    check("EMPTY", json!({"optional": true}), "");
    // A file that cannot be read is no missing key.
    check("BAD", json!({"optional": true}), "error: couldn't parse env file");
    check("A", json!({"path": "none"}), "error: couldn't parse env file");
    check(
        "A",
        json!({"volumeName": "none"}),
        "error: cannot find the volume \"none\" referenced by FileKeyRef",
    );
}

#[test]
fn a_pods_overhead_is_in_its_cgroup_and_apart_for_its_runtime() {
    let limits = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}});
    let overhead = json!({"cpu": "250m", "memory": "64Mi"});
    let with = pod(json!({"resources": limits}), json!({"overhead": overhead}));
    let shown = |it: node_api::containers::Resources| {
        let quota = it.cpu_quota.map(|it| it.quota.as_millis());
        (it.cpu_shares, quota, it.memory_limit.map(|it| it >> 20))
    };
    assert_eq!(shown(of_pod(&with)), (Some(768), Some(125), Some(1088)));
    let spec = with.spec.as_ref().unwrap();
    assert_eq!(shown(of_sandbox(spec)), (Some(512), Some(100), Some(1024)));
    assert_eq!(shown(of_overhead(spec)), (Some(256), Some(25), Some(64)));
    let without = pod(json!({}), json!({}));
    assert_eq!(shown(of_overhead(without.spec.as_ref().unwrap())), (None, None, None));
}

#[test]
fn objects_are_mounted_read_only() {
    let check = |source: Value, expected: bool| {
        let mut volume = source;
        volume["name"] = json!("data");
        let mounts = json!([{"name": "data", "mountPath": "/data"}]);
        let pod = pod(json!({"volumeMounts": mounts}), json!({"volumes": [volume]}));
        let config = render(&pod, first(&pod), &facts(), &run()).unwrap();
        assert_eq!(config.mounts[0].read_only, expected);
    };
    check(json!({"emptyDir": {}}), false);
    check(json!({"hostPath": {"path": "/srv"}}), false);
    check(json!({"configMap": {"name": "settings"}}), true);
    check(json!({"secret": {"secretName": "login"}}), true);
    check(json!({"downwardAPI": {}}), true);
    check(json!({"projected": {"sources": []}}), true);
}

#[test]
fn parts_of_volumes_are_asked_for() {
    let check = |mount: Value, expected: &str| {
        let mount = json!([{"name": "data", "mountPath": "/x"}, mount]);
        let container = json!({
            "volumeMounts": mount,
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        });
        let pod = pod(container, json!({}));
        let actual = match sub_paths(&pod, first(&pod), &facts()) {
            Ok(parts) => parts
                .iter()
                .map(|it| {
                    format!("{} {}/{} for {}", it.mount, it.root.display(), it.path, it.container)
                })
                .collect(),
            Err(err) => err.to_string(),
        };
        assert_eq!(actual, expected);
    };
    check(json!({"name": "data", "mountPath": "/y"}), "");
    check(json!({"name": "data", "mountPath": "/y", "subPath": "a/b"}), "1 /vol/data/a/b for app");
    check(
        json!({"name": "data", "mountPath": "/y", "subPathExpr": "logs/$(POD)"}),
        "1 /vol/data/logs/web-0 for app",
    );
    check(
        json!({"name": "data", "mountPath": "/y", "subPathExpr": "$(NONE)"}),
        "failed to expand subPathExpr \"$(NONE)\": missing value for \"NONE\"",
    );
}

#[test]
fn limits_become_numbers_of_the_kernel() {
    let check = |resources: Value, expected: &str| {
        let pod = pod(json!({"resources": resources}), json!({}));
        let own = of_container(&pod, first(&pod), &NODE);
        let whole = of_pod(&pod);
        let text = |it: &node_api::containers::Resources| {
            let quota = it.cpu_quota.map(|it| it.quota.as_micros());
            let [quota, memory] =
                [quota.map(|it| it.to_string()), it.memory_limit.map(|it| it.to_string())]
                    .map(|it| it.unwrap_or_else(|| "-".to_owned()));
            format!("{} {quota} {memory}", it.cpu_shares.unwrap())
        };
        let oom = own.oom_score_adj.unwrap();
        assert_eq!(
            format!("{} oom {oom}; pod {}", text(&own), text(&whole)),
            expected,
            "{resources}"
        );
    };
    check(json!({}), "2 - - oom 1000; pod 2 - -");
    check(json!({"requests": {"cpu": "1"}}), "1024 - - oom 999; pod 1024 - -");
    check(json!({"requests": {"cpu": "1m"}}), "2 - - oom 999; pod 2 - -");
    check(json!({"limits": {"cpu": "500m"}}), "512 50000 - oom 999; pod 2 50000 -");
    check(json!({"limits": {"cpu": "5m"}}), "5 1000 - oom 999; pod 2 1000 -");
    check(json!({"requests": {"memory": "2Gi"}}), "2 - - oom 750; pod 2 - -");
    check(json!({"requests": {"memory": "8Gi"}}), "2 - - oom 3; pod 2 - -");
    let both = json!({"cpu": "2", "memory": "1Gi"});
    check(
        json!({"requests": both, "limits": both}),
        "2048 200000 1073741824 oom -997; pod 2048 200000 1073741824",
    );
}

#[test]
fn a_pod_is_limited_only_if_all_of_it_is() {
    let limited = json!({"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}});
    let pod = |second: Value| {
        let containers = json!([
            {"name": "a", "resources": limited}, {"name": "b", "resources": second},
        ]);
        let init = json!([{"name": "i", "resources": {"limits": {"memory": "4Gi"}}}]);
        pod(json!({}), json!({"containers": containers, "initContainers": init}))
    };
    assert_eq!(of_pod(&pod(json!({}))).memory_limit, None);
    assert_eq!(of_pod(&pod(limited.clone())).memory_limit, Some(4 << 30));
}

#[test]
fn important_containers_are_killed_last() {
    let check = |spec: Value, index: usize, expected: i32| {
        let pod = pod(json!({}), spec);
        let spec = pod.spec.as_ref().unwrap();
        let all: Vec<&Container> =
            spec.init_containers.iter().flatten().chain(&spec.containers).collect();
        assert_eq!(of_container(&pod, all[index], &NODE).oom_score_adj, Some(expected));
    };
    check(json!({"priorityClassName": "system-node-critical"}), 0, -997);
    check(json!({"priorityClassName": "other"}), 0, 1000);
    let memory = |it: &str| json!({"requests": {"memory": it}});
    let spec = json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "resources": memory("4Gi")}],
    });
    // A sidecar that asked for nothing lives as long as what it serves.
    check(spec.clone(), 0, 500);
    check(spec, 1, 500);
}

#[test]
fn contexts_are_merged() {
    let check = |of_pod: Value, own: Value, expected: Security| {
        let pod = pod(json!({"securityContext": own}), json!({"securityContext": of_pod}));
        assert_eq!(render(&pod, first(&pod), &facts(), &run()).unwrap().security, expected);
    };
    let plain = Security::default;
    check(json!({}), json!({}), plain());
    check(
        json!({"runAsUser": 1, "runAsGroup": 2, "supplementalGroups": [3], "fsGroup": 4}),
        json!({"runAsUser": 9}),
        Security {
            run_as_user: Some(9),
            run_as_group: Some(2),
            supplemental_groups: vec![3, 4],
            ..plain()
        },
    );
    check(
        json!({"seccompProfile": {"type": "RuntimeDefault"}}),
        json!({
            "capabilities": {"add": ["NET_ADMIN", "CAP_SYS_TIME"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        }),
        Security {
            capabilities_add: vec!["NET_ADMIN".to_owned(), "SYS_TIME".to_owned()],
            capabilities_drop: vec!["ALL".to_owned()],
            read_only_root: true,
            no_new_privileges: true,
            seccomp: Seccomp::RuntimeDefault,
            ..plain()
        },
    );
    check(
        json!({"seccompProfile": {"type": "RuntimeDefault"}}),
        json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}}),
        Security {
            seccomp: Seccomp::Localhost(SeccompFile {
                directory: "/var/lib/kubelet/seccomp".into(),
                name: "a/b.json".into(),
            }),
            ..plain()
        },
    );
    check(
        json!({"seccompProfile": {"type": "RuntimeDefault"}}),
        json!({"privileged": true}),
        Security { privileged: true, unmasked_proc: true, ..plain() },
    );
}

#[test]
fn a_profile_that_cannot_be_had_is_refused() {
    let check = |profile: Value, expected: &str| {
        let own = json!({"securityContext": {"seccompProfile": profile}});
        let pod = pod(own, json!({}));
        let refused = render(&pod, first(&pod), &facts(), &run()).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    };
    let unnamed = "localhostProfile must be set if seccompProfile type is Localhost.";
    check(json!({"type": "Localhost"}), unnamed);
    check(json!({"type": "Localhost", "localhostProfile": ""}), unnamed);
    check(json!({"type": ""}), "unknown seccomp profile type \"\"");
    check(json!({"type": "localhost"}), "unknown seccomp profile type \"localhost\"");
    for name in ["../../dev/zero", "/dev/zero", "a/../../b", ".."] {
        let expected = format!("localhostProfile {name:?} must be a relative path without '..'");
        check(json!({"type": "Localhost", "localhostProfile": name}), &expected);
    }
}

#[test]
fn root_is_refused_where_it_must_not_be() {
    let check = |of_pod: Value, own: Value, image_user: &str, expected: &str| {
        let pod = pod(json!({"securityContext": own}), json!({"securityContext": of_pod}));
        let result = runs_as_root(&pod, first(&pod), image_user);
        let actual = result.map_or_else(|err| err.to_string(), |()| "runs".to_owned());
        assert_eq!(actual, expected);
    };
    let not_root = json!({"runAsNonRoot": true});
    check(json!({}), json!({}), "", "runs");
    check(not_root.clone(), json!({}), "1000:1000", "runs");
    check(not_root.clone(), json!({"runAsNonRoot": false}), "0", "runs");
    check(not_root.clone(), json!({"runAsUser": 5}), "root", "runs");
    let about = "(pod: \"web-0_shop(u1)\", container: app)";
    let image = format!("container has runAsNonRoot and image will run as root {about}");
    check(not_root.clone(), json!({}), "", &image);
    check(not_root.clone(), json!({}), "0:5", &image);
    check(
        json!({}),
        not_root.clone(),
        "nginx",
        &format!(
            "container has runAsNonRoot and image has non-numeric user (nginx), cannot verify user is \
             non-root {about}"
        ),
    );
    check(
        not_root,
        json!({"runAsUser": 0}),
        "1000",
        &format!("container's runAsUser breaks non-root policy {about}"),
    );
}
