//! Manifest in; problems, defaults and cells out.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Pod, bind, conditions};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

const NOW: &str = "2026-01-01T01:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn web() -> Value {
    pod(json!({"containers": [{"name": "web", "image": "nginx"}]}))
}

/// `manifest` with one value replaced.
fn with(mut manifest: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    manifest.pointer_mut(parent).unwrap()[key] = value;
    manifest
}

#[test]
fn a_minimal_pod_gets_every_default() {
    check_created::<Pod>(
        web(),
        "/spec",
        json!({
            "containers": [{
                "name": "web", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        }),
    );
    check_created::<Pod>(web(), "/status", json!({"phase": "Pending", "qosClass": "BestEffort"}));
}

#[test]
fn a_client_can_not_set_the_status_of_a_new_pod() {
    let manifest = with(web(), "/status", json!({"phase": "Running", "podIP": "10.0.0.1"}));
    check_created::<Pod>(
        manifest,
        "/status",
        json!({"phase": "Pending", "qosClass": "BestEffort"}),
    );
    // But for its class, which upstream believes.
    let manifest = with(web(), "/status", json!({"phase": "Running", "qosClass": "Guaranteed"}));
    let expected = json!({"phase": "Pending", "qosClass": "Guaranteed"});
    check_created::<Pod>(manifest, "/status", expected);
}

#[test]
fn a_gated_pod_says_so() {
    let manifest = with(web(), "/spec/schedulingGates", json!([{"name": "example.com/wait"}]));
    check_created::<Pod>(manifest.clone(), "/status/conditions/0/reason", json!("SchedulingGated"));
    check_created::<Pod>(manifest.clone(), "/status/conditions/0/status", json!("False"));
    let born = "2026-01-01T00:00:00Z";
    let manifest = with(manifest, "/metadata/creationTimestamp", json!(born));
    check_created::<Pod>(manifest, "/status/conditions/0/lastTransitionTime", json!(born));
}

#[test]
fn a_pod_needs_containers_with_name_and_image() {
    check::<Pod>(pod(json!({})), &["spec.containers: Required value"]);
    check::<Pod>(
        pod(json!({"containers": [{}]})),
        &["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
    );
    check::<Pod>(
        pod(
            json!({"containers": [{"name": "a", "image": "x"}], "initContainers": [{"name": "a", "image": "x"}]}),
        ),
        &["spec.initContainers[0].name: Duplicate value: \"a\""],
    );
}

#[test]
fn values_outside_a_fixed_set_are_refused_with_the_set() {
    check::<Pod>(
        with(web(), "/spec/restartPolicy", json!("Sometimes")),
        &[
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ],
    );
}

#[test]
fn what_is_asked_of_the_kernel_is_checked() {
    let context = |it: Value| with(web(), "/spec/securityContext", it);
    let own = |it: Value| with(web(), "/spec/containers/0/securityContext", it);
    let own_path = "spec.containers[0].securityContext";
    let sysctl = |name: &str| context(json!({"sysctls": [{"name": name, "value": "1"}]}));
    check::<Pod>(sysctl("kernel/sem"), &[]);
    for name in ["net..x", "../vm/swappiness", "net/../x", "/x", "A"] {
        let expected = format!(
            "spec.securityContext.sysctls[0].name: Invalid value: {name:?}: must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
        );
        check::<Pod>(sysctl(name), &[&expected]);
    }
    check::<Pod>(
        with(sysctl("net/ipv4/ip_forward"), "/spec/hostNetwork", json!(true)),
        &[
            "spec.securityContext.sysctls[0].name: Invalid value: \"net/ipv4/ip_forward\": may not be specified when 'hostNetwork' is true",
        ],
    );
    check::<Pod>(
        with(sysctl("fs.mqueue.msg_max"), "/spec/hostIPC", json!(true)),
        &[
            "spec.securityContext.sysctls[0].name: Invalid value: \"fs.mqueue.msg_max\": may not be specified when 'hostIPC' is true",
        ],
    );
    let unmasked = || own(json!({"procMount": "Unmasked"}));
    let expected = format!(
        "{own_path}.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`"
    );
    check::<Pod>(unmasked(), &[&expected]);
    check::<Pod>(with(unmasked(), "/spec/hostUsers", json!(true)), &[&expected]);
    check::<Pod>(with(unmasked(), "/spec/hostUsers", json!(false)), &[]);
    check::<Pod>(
        context(json!({"supplementalGroupsPolicy": "Loose", "seLinuxChangePolicy": ""})),
        &[
            "spec.securityContext.supplementalGroupsPolicy: Unsupported value: \"Loose\": supported values: \"Merge\", \"Strict\"",
            "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"\": supported values: \"Recursive\"",
        ],
    );
}

#[test]
fn profiles_are_named_as_their_type_wants_it() {
    let check = |field: &str, profile: Value, expected: &[&str]| {
        let path = format!("spec.containers[0].securityContext.{field}");
        let expected: Vec<String> = expected.iter().map(|it| format!("{path}.{it}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let manifest = with(web(), "/spec/containers/0/securityContext", json!({ field: profile }));
        check::<Pod>(manifest, &expected);
    };
    let localhost = |name: &str| json!({"type": "Localhost", "localhostProfile": name});
    let seccomp = "seccompProfile";
    check(seccomp, localhost("a/b.json"), &[]);
    check(seccomp, json!({"type": "RuntimeDefault"}), &[]);
    check(
        seccomp,
        json!({"type": ""}),
        &["type: Required value: type is required when seccompProfile is set"],
    );
    check(
        seccomp,
        json!({"type": "Localhost"}),
        &["localhostProfile: Required value: must be set when seccomp type is Localhost"],
    );
    check(
        seccomp,
        localhost("../../dev/zero"),
        &["localhostProfile: Invalid value: \"../../dev/zero\": must not contain '..'"],
    );
    check(
        seccomp,
        localhost("/dev/zero"),
        &["localhostProfile: Invalid value: \"/dev/zero\": must be a relative path"],
    );
    let armor = "appArmorProfile";
    check(armor, localhost("a"), &[]);
    check(
        armor,
        localhost(" a"),
        &["localhostProfile: Invalid value: \" a\": must not be padded with whitespace"],
    );
    check(
        armor,
        json!({"type": "Unconfined", "localhostProfile": "a"}),
        &[
            "localhostProfile: Invalid value: \"a\": can only be set when AppArmor type is Localhost",
        ],
    );
}

#[test]
fn mounts_spread_only_from_privileged_containers() {
    let mount = |fields: Value| {
        let mut mount = json!({"name": "v", "mountPath": "/v"});
        for (key, value) in fields.as_object().unwrap() {
            mount[key] = value.clone();
        }
        let manifest = with(web(), "/spec/volumes", json!([{"name": "v", "emptyDir": {}}]));
        with(manifest, "/spec/containers/0/volumeMounts", json!([mount]))
    };
    let both = || mount(json!({"mountPropagation": "Bidirectional"}));
    let path = "spec.containers[0].volumeMounts";
    let expected = format!(
        "{path}.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"
    );
    check::<Pod>(both(), &[&expected]);
    let privileged = json!({"privileged": true});
    check::<Pod>(with(both(), "/spec/containers/0/securityContext", privileged), &[]);
    check::<Pod>(mount(json!({"mountPropagation": "HostToContainer"})), &[]);
    let expected =
        format!("{path}.recursiveReadOnly: Forbidden: may only be specified when readOnly is true");
    check::<Pod>(mount(json!({"recursiveReadOnly": "Enabled"})), &[&expected]);
}

#[test]
fn mounts_refer_to_volumes() {
    check::<Pod>(
        with(web(), "/spec/containers/0/volumeMounts", json!([{"name": "x", "mountPath": "/x"}])),
        &["spec.containers[0].volumeMounts[0].name: Not found: \"x\""],
    );
}

#[test]
fn a_volume_has_one_source() {
    check::<Pod>(
        with(
            web(),
            "/spec/volumes",
            json!([{"name": "x", "emptyDir": {}, "hostPath": {"path": "/"}}]),
        ),
        &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    );
}

#[test]
fn an_image_volume_names_its_image_and_gets_a_policy() {
    let image = |image: Value| with(web(), "/spec/volumes", json!([{"name": "x", "image": image}]));
    check::<Pod>(image(json!({"reference": "a:1"})), &[]);
    check::<Pod>(image(json!({})), &["spec.volumes[0].image.reference: Required value"]);
    let unknown = "spec.volumes[0].image.pullPolicy: Unsupported value: \"Now\": supported values: \"Always\", \"IfNotPresent\", \"Never\"";
    check::<Pod>(image(json!({"reference": "a:1", "pullPolicy": "Now"})), &[unknown]);
    for (reference, policy) in [("a:1", "IfNotPresent"), ("a", "Always"), ("a:latest", "Always")] {
        let volumes =
            json!([{"name": "x", "image": {"reference": reference, "pullPolicy": policy}}]);
        check_created::<Pod>(image(json!({"reference": reference})), "/spec/volumes", volumes);
    }
    let none = Vec::<String>::new();
    assert_eq!(created::<Pod>(image(json!({"reference": "a:1"}))).warnings(), none);
}

#[test]
fn a_variable_from_a_file_names_a_key_a_path_and_an_empty_dir() {
    let pod = |source: Value, volume: Value| {
        let variable = json!([{"name": "A", "valueFrom": {"fileKeyRef": source}}]);
        let manifest = with(web(), "/spec/volumes", json!([volume]));
        with(manifest, "/spec/containers/0/env", variable)
    };
    let path = "spec.containers[0].env[0].valueFrom.fileKeyRef";
    let check = |source: Value, volume: Value, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|it| format!("{path}.{it}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check::<Pod>(pod(source, volume), &expected);
    };
    let source = || json!({"volumeName": "v", "path": "a/b", "key": "K"});
    let volume = || json!({"name": "v", "emptyDir": {}});
    check(source(), volume(), &[]);
    check_created::<Pod>(
        pod(source(), volume()),
        "/spec/containers/0/env/0/valueFrom/fileKeyRef/optional",
        json!(false),
    );
    check(
        json!({"volumeName": "v", "path": "", "key": ""}),
        volume(),
        &["key: Required value", "path: Required value"],
    );
    let up = json!({"volumeName": "v", "path": "a/../b", "key": "K"});
    check(up, volume(), &["path: Invalid value: \"a/../b\": must not contain '..'"]);
    check(source(), json!({"name": "w", "emptyDir": {}}), &["volumeName: Not found: \"v\""]);
    check(
        source(),
        json!({"name": "v", "hostPath": {"path": "/"}}),
        &["volumeName: Invalid value: \"v\": referenced volume must be of type emptyDir"],
    );
}

#[test]
fn sources_of_a_projected_volume_are_one_each_and_at_paths_of_their_own() {
    let check = |sources: Value, expected: &[&str]| {
        let volume = json!([{"name": "v", "projected": {"sources": sources}}]);
        let expected: Vec<String> =
            expected.iter().map(|it| format!("spec.volumes[0].projected{it}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check::<Pod>(with(web(), "/spec/volumes", volume), &expected);
    };
    let bundle = |fields: Value| {
        let mut bundle = json!({"path": "ca"});
        for (key, value) in fields.as_object().unwrap() {
            bundle[key] = value.clone();
        }
        json!([{"clusterTrustBundle": bundle}])
    };
    let at = ".sources[0].clusterTrustBundle";
    check(json!([{}]), &[]);
    check(bundle(json!({"name": "roots"})), &[]);
    check(bundle(json!({"name": "a.io:b:roots"})), &[]);
    check(bundle(json!({"signerName": "a.io/b", "labelSelector": {}})), &[]);
    check(
        bundle(json!({})),
        &[&format!("{at}: Required value: either name or signerName must be specified")],
    );
    check(
        bundle(json!({"name": "roots", "path": "..data"})),
        &[&format!("{at}.path: Invalid value: \"..data\": must not start with '..'")],
    );
    check(
        bundle(json!({"name": "roots", "labelSelector": {}})),
        &[&format!(
            "{at}.labelSelector: Invalid value: {{}}: labelSelector must be unset if name is specified"
        )],
    );
    let twice = json!([
        {"clusterTrustBundle": {"name": "a", "path": "x"}, "secret": {"name": "s"}},
        {"clusterTrustBundle": {"name": "b", "path": "x"}},
    ]);
    check(
        twice,
        &[
            ".sources[0]: Forbidden: may not specify more than 1 volume type per source",
            ": Invalid value: \"x\": conflicting duplicate paths",
        ],
    );
    let at = ".sources[0].podCertificate";
    check(
        json!([{"podCertificate": {"signerName": "a.io/b", "keyType": "RSA1", "maxExpirationSeconds": 60}}]),
        &[
            &format!(
                "{at}.keyType: Unsupported value: \"RSA1\": supported values: \"ECDSAP256\", \"ECDSAP384\", \"ECDSAP521\", \"ED25519\", \"RSA3072\", \"RSA4096\""
            ),
            &format!(
                "{at}.maxExpirationSeconds: Invalid value: 60: if provided, maxExpirationSeconds must be >= 3600"
            ),
            &format!(
                "{at}: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
            ),
        ],
    );
}

#[test]
fn requests_stay_within_limits() {
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    check::<Pod>(
        with(web(), "/spec/containers/0/resources", resources),
        &[
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ],
    );
}

#[test]
fn a_port_needs_a_number() {
    check::<Pod>(
        with(
            web(),
            "/spec/containers/0/ports",
            json!([{"containerPort": 0}, {"containerPort": 70000}]),
        ),
        &[
            "spec.containers[0].ports[0].containerPort: Required value",
            "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ],
    );
}

#[test]
fn probes_have_one_handler_and_liveness_succeeds_once() {
    check::<Pod>(
        with(web(), "/spec/containers/0/livenessProbe", json!({"successThreshold": 2})),
        &[
            "spec.containers[0].livenessProbe: Required value: must specify a handler type",
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    );
}

#[test]
fn a_toleration_without_key_matches_by_existence() {
    check::<Pod>(
        with(web(), "/spec/tolerations", json!([{"operator": "Equal"}])),
        &[
            "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        ],
    );
}

#[test]
fn an_update_may_change_images_and_add_tolerations() {
    let stored = created::<Pod>(web());
    let update = with(web(), "/spec/containers/0/image", json!("nginx:2"));
    // The pull policy was defaulted from the first image and a client sends it back.
    let update = with(update, "/spec/containers/0/imagePullPolicy", json!("Always"));
    let update = with(update, "/spec/tolerations", json!([{"operator": "Exists"}]));
    check_update(&stored, update, Part::Main, &[]);
}

#[test]
fn an_update_may_not_change_anything_else() {
    let stored = created::<Pod>(web());
    check_update(
        &stored,
        with(web(), "/spec/hostname", json!("other")),
        Part::Main,
        &[
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\nchanged: hostname",
        ],
    );
    let two = json!([{"name": "web", "image": "nginx"}, {"name": "b", "image": "b"}]);
    check_update(
        &stored,
        with(web(), "/spec/containers", two),
        Part::Main,
        &["spec.containers: Forbidden: pod updates may not add or remove containers"],
    );
}

#[test]
fn an_absent_list_equals_an_empty_one() {
    let stored = created::<Pod>(web());
    let update = with(web(), "/spec/imagePullSecrets", json!([]));
    check_update(&stored, with(update, "/spec/hostNetwork", json!(false)), Part::Main, &[]);
}

#[test]
fn each_part_writes_only_itself() {
    let stored = created::<Pod>(web());
    let mut main = defaulted::<Pod>(with(web(), "/status", json!({"phase": "Running"})));
    main.prepare_update(&stored, Part::Main);
    assert_eq!(main.status, stored.status);
    let changed = with(web(), "/spec/hostname", json!("other"));
    let mut status = defaulted::<Pod>(with(changed, "/status", json!({"phase": "Running"})));
    status.prepare_update(&stored, Part::Status);
    assert_eq!(status.spec, stored.spec);
    assert_eq!(super::phase(&status), "Running");
    assert_eq!(status.status.unwrap().qos_class.as_deref(), Some("BestEffort"));
}

#[test]
fn grace_is_for_pods_that_run() {
    let check = |manifest: Value, requested: Option<i64>, expected: i64| {
        assert_eq!(defaulted::<Pod>(manifest).grace_seconds(requested), Some(expected));
    };
    let placed = with(web(), "/spec/nodeName", json!("n1"));
    check(web(), None, 0);
    check(web(), Some(5), 0);
    check(placed.clone(), None, 30);
    check(placed.clone(), Some(5), 5);
    check(placed.clone(), Some(-1), 1);
    check(with(placed, "/status", json!({"phase": "Failed"})), None, 0);
}

#[test]
fn binding_places_a_pod_once() {
    let binding = crate::core::Binding::decode(
        br#"{"metadata": {"name": "web", "annotations": {"a": "1"}}, "target": {"name": "n1"}}"#,
    )
    .unwrap();
    let mut pod = created::<Pod>(web());
    bind(&mut pod, &binding, now()).unwrap();
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
    assert_eq!(pod.metadata.annotations.as_ref().unwrap()["a"], "1");
    let condition = conditions::get(&pod, "PodScheduled").unwrap();
    assert_eq!(condition.status, "True");
    assert_eq!(condition.last_transition_time.as_ref().unwrap().0, now());
    assert_eq!(
        bind(&mut pod, &binding, now()),
        Err("pod web is already assigned to node \"n1\"".to_owned())
    );
}

#[test]
fn a_transition_time_moves_only_with_the_status() {
    let mut pod = created::<Pod>(web());
    let ready = |status: &str, reason: &str| k8s_openapi::api::core::v1::PodCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        ..Default::default()
    };
    let later: Timestamp = "2026-01-01T02:00:00Z".parse().unwrap();
    let time = |pod: &Pod| conditions::get(pod, "Ready").unwrap().last_transition_time.clone();
    assert!(conditions::set(&mut pod, ready("False", "a"), now()));
    let first = time(&pod);
    assert!(!conditions::set(&mut pod, ready("False", "a"), later));
    assert!(conditions::set(&mut pod, ready("False", "b"), later));
    assert_eq!(time(&pod), first);
    assert!(conditions::set(&mut pod, ready("True", "b"), later));
    assert_ne!(time(&pod), first);
}

fn check_status(spec: Value, status: Value, expected: [&str; 3]) {
    let mut manifest = with(pod(spec), "/status", status);
    if manifest["status"]["deleted"] == json!(true) {
        manifest["metadata"]["deletionTimestamp"] = json!(NOW);
    }
    let row = defaulted::<Pod>(manifest).row(now());
    assert_eq!(row[1..4], expected.map(Value::from));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table of cases")]
fn the_status_column_says_what_matters_most() {
    let one = || json!({"containers": [{"name": "a", "image": "x"}]});
    let two = || json!({"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]});
    let init = || {
        json!({"containers": [{"name": "a", "image": "x"}],
               "initContainers": [{"name": "i", "image": "x"}, {"name": "j", "image": "x"}]})
    };
    let container = |name: &str, state: Value| {
        let is_running = state.get("running").is_some();
        json!({"name": name, "image": "x", "imageID": "", "ready": is_running, "restartCount": 0, "state": state})
    };
    let running = || json!({"running": {}});
    let exited =
        |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});

    check_status(one(), json!({"phase": "Pending"}), ["0/1", "Pending", "0"]);
    check_status(one(), json!({"phase": "Failed", "reason": "Evicted"}), ["0/1", "Evicted", "0"]);
    check_status(
        one(),
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
        ["0/1", "SchedulingGated", "0"],
    );
    check_status(
        one(),
        json!({"phase": "Running", "containerStatuses": [container("a", running())]}),
        ["1/1", "Running", "0"],
    );
    check_status(
        one(),
        json!({"phase": "Running", "deleted": true, "containerStatuses": [container("a", running())]}),
        ["1/1", "Terminating", "0"],
    );
    check_status(
        one(),
        json!({"phase": "Running", "deleted": true, "reason": "NodeLost"}),
        ["0/1", "Unknown", "0"],
    );
    check_status(
        two(),
        json!({"phase": "Pending", "containerStatuses": [container("a", waiting("ImagePullBackOff")), container("b", running())]}),
        ["1/2", "ImagePullBackOff", "0"],
    );
    check_status(
        one(),
        json!({"phase": "Succeeded", "containerStatuses": [container("a", exited(0, "Completed"))]}),
        ["0/1", "Completed", "0"],
    );
    check_status(
        one(),
        json!({"phase": "Failed", "containerStatuses": [container("a", json!({"terminated": {"exitCode": 3}}))]}),
        ["0/1", "ExitCode:3", "0"],
    );
    check_status(
        two(),
        json!({"phase": "Running", "containerStatuses": [container("a", exited(0, "Completed")), container("b", running())]}),
        ["1/2", "NotReady", "0"],
    );
    check_status(
        two(),
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
               "containerStatuses": [container("a", exited(0, "Completed")), container("b", running())]}),
        ["1/2", "Running", "0"],
    );
    check_status(
        init(),
        json!({"phase": "Pending", "initContainerStatuses": [container("i", exited(0, "Completed")), container("j", running())]}),
        ["0/1", "Init:1/2", "0"],
    );
    check_status(
        init(),
        json!({"phase": "Pending", "initContainerStatuses": [container("i", exited(1, "Error"))]}),
        ["0/1", "Init:Error", "0"],
    );
    check_status(
        init(),
        json!({"phase": "Pending", "initContainerStatuses": [container("i", json!({"terminated": {"exitCode": 1, "signal": 9}}))]}),
        ["0/1", "Init:Signal:9", "0"],
    );
    check_status(
        init(),
        json!({"phase": "Pending", "initContainerStatuses": [container("i", waiting("PodInitializing"))]}),
        ["0/1", "Init:0/2", "0"],
    );
}

#[test]
fn sidecars_count_as_ready() {
    let spec = json!({
        "containers": [{"name": "a", "image": "x"}],
        "initContainers": [{"name": "s", "image": "x", "restartPolicy": "Always"}],
    });
    let status = json!({
        "phase": "Running",
        "initContainerStatuses": [{"name": "s", "image": "x", "imageID": "", "ready": true, "started": true, "restartCount": 2, "state": {"running": {}}}],
        "containerStatuses": [{"name": "a", "image": "x", "imageID": "", "ready": true, "restartCount": 1, "state": {"running": {}}}],
    });
    check_status(spec, status, ["2/2", "Running", "3"]);
}

#[test]
fn a_row_has_every_cell() {
    check_row::<Pod>(
        json!({
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "nodeName": "n1", "containers": [{"name": "a", "image": "x"}],
                "readinessGates": [{"conditionType": "a/b"}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "containerStatuses": [{
                    "name": "a", "image": "x", "imageID": "", "ready": true, "restartCount": 4, "state": {"running": {}},
                    "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:55:00Z"}},
                }],
            },
        }),
        NOW,
        json!(["web", "1/1", "Running", "4 (5m ago)", "60m", "10.0.0.1", "n1", "<none>", "0/1"]),
    );
}

#[test]
fn finished_pods_are_marked_in_tables() {
    let done = defaulted::<Pod>(with(web(), "/status", json!({"phase": "Succeeded"})));
    assert_eq!(done.row_conditions()[0]["reason"], "Succeeded");
    assert!(defaulted::<Pod>(web()).row_conditions().is_empty());
}

#[test]
fn every_selectable_field_has_a_name() {
    let values = defaulted::<Pod>(web()).fields();
    for (name, _) in &values {
        assert!(Pod::field_names().contains(&(*name, *name)), "{name}");
    }
    assert!(values.contains(&("spec.restartPolicy", "Always".to_owned())));
}

#[test]
fn a_new_pod_has_no_ephemeral_containers_and_waits_at_its_gates() {
    check::<Pod>(
        with(web(), "/spec/ephemeralContainers", json!([{"name": "debug", "image": "x"}])),
        &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
    );
    let gated = with(web(), "/spec/schedulingGates", json!([{"name": "example.com/wait"}]));
    check::<Pod>(
        with(gated, "/spec/nodeName", json!("n1")),
        &["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    );
}

#[test]
fn existing_ephemeral_containers_stay() {
    let debug = |image: &str| json!([{"name": "debug", "image": image}]);
    let stored = defaulted::<Pod>(with(web(), "/spec/ephemeralContainers", debug("x:1")));
    let part = Part::Other("ephemeralcontainers");
    check_update(&stored, with(web(), "/spec/ephemeralContainers", debug("x:1")), part, &[]);
    check_update(
        &stored,
        web(),
        part,
        &[
            "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"debug\" may not be removed\n",
        ],
    );
}

#[test]
fn volumes_that_no_node_can_mount_say_so() {
    let warnings =
        |volumes: Value| created::<Pod>(with(web(), "/spec/volumes", volumes)).warnings();
    let claim = json!({"name": "a", "persistentVolumeClaim": {"claimName": "data"}});
    let nfs = json!({"name": "b", "nfs": {"server": "s", "path": "/"}});
    assert_eq!(
        warnings(json!([{"name": "c"}, claim, nfs])),
        [
            "spec.volumes[1].persistentVolumeClaim: volumes of this type are not supported yet; the pod will not start",
            "spec.volumes[2].nfs: volumes of this type are not supported yet; the pod will not start",
        ]
    );
    let none = Vec::<String>::new();
    let secret = json!({"name": "a", "secret": {"secretName": "b"}});
    assert_eq!(warnings(json!([secret, {"name": "b", "hostPath": {"path": "/"}}])), none);
}

#[test]
fn a_profile_that_an_annotation_names_is_in_the_field() {
    let key = "container.apparmor.security.beta.kubernetes.io/web";
    let check = |annotation: &str, expected: Value| {
        let mut manifest = web();
        manifest["metadata"]["annotations"] = json!({ key: annotation });
        let pointer = "/spec/containers/0/securityContext/appArmorProfile";
        check_created::<Pod>(manifest, pointer, expected);
    };
    check("unconfined", json!({"type": "Unconfined"}));
    check("runtime/default", json!({"type": "RuntimeDefault"}));
    check("localhost/mine", json!({"type": "Localhost", "localhostProfile": "mine"}));
    check("localhost/ mine", Value::Null);
    check("mine", Value::Null);
    let mut manifest = with(web(), "/spec/os", json!({"name": "windows"}));
    manifest["metadata"]["annotations"] = json!({ key: "unconfined" });
    check_created::<Pod>(manifest, "/spec/containers/0/securityContext", Value::Null);
}

#[test]
fn what_is_about_windows_is_checked() {
    let options = |it: Value| with(web(), "/spec/securityContext", json!({"windowsOptions": it}));
    let path = "spec.securityContext.windowsOptions";
    let refused = |it: Value, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|it| format!("{path}.{it}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check::<Pod>(options(it), &expected);
    };
    for user in ["user", r"domain\user", r"a.example.com\user", r".x\user"] {
        let expected = match user.starts_with('.') {
            true => vec![
                r#"runAsUserName: Invalid value: ".x\\user": runAsUserName's Domain doesn't match the NetBios nor the DNS format"#,
            ],
            false => Vec::new(),
        };
        refused(json!({"runAsUserName": user}), &expected);
    }
    refused(
        json!({"runAsUserName": "..", "gmsaCredentialSpecName": "A", "gmsaCredentialSpec": ""}),
        &[
            r#"gmsaCredentialSpecName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            r#"gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string"#,
            r#"runAsUserName: Invalid value: "..": runAsUserName's User cannot contain only periods or spaces"#,
        ],
    );
    refused(
        json!({"runAsUserName": ""}),
        &[r#"runAsUserName: Invalid value: "": runAsUserName cannot be an empty string"#],
    );
}

#[test]
fn processes_of_the_host_are_all_or_none() {
    let context = json!({"windowsOptions": {"hostProcess": true}});
    let on_host = || with(web(), "/spec/securityContext", context.clone());
    check::<Pod>(with(on_host(), "/spec/hostNetwork", json!(true)), &[]);
    check::<Pod>(
        on_host(),
        &[
            "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
        ],
    );
    let own = json!({"windowsOptions": {"hostProcess": false}});
    check::<Pod>(
        with(on_host(), "/spec/containers/0/securityContext", own),
        &[
            "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value must be identical if both are specified, was true",
        ],
    );
}

#[test]
fn a_pod_says_which_system_it_is_for_and_has_what_that_has() {
    let os = |name: &str| with(web(), "/spec/os", json!({"name": name}));
    check::<Pod>(os("linux"), &[]);
    check::<Pod>(os(""), &["spec.os.name: Required value"]);
    check::<Pod>(
        os("plan9"),
        &["spec.os: Unsupported value: \"plan9\": supported values: \"linux\", \"windows\""],
    );
    let own = json!({"runAsUser": 1, "procMount": "Default"});
    let mut windows = with(os("windows"), "/spec/containers/0/securityContext", own);
    windows["spec"]["hostPID"] = json!(true);
    check::<Pod>(
        windows,
        &[
            "spec.hostPID: Forbidden: cannot be set for a windows pod",
            "spec.containers[0].securityContext.procMount: Forbidden: cannot be set for a windows pod",
            "spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
        ],
    );
}

#[test]
fn a_token_is_that_of_an_account() {
    let sources = json!([{"secret": {"name": "s"}}, {"serviceAccountToken": {"path": "token"}}]);
    let volumes = json!([{"name": "v", "projected": {"sources": sources}}]);
    let manifest = with(web(), "/spec/volumes", volumes);
    check::<Pod>(
        manifest.clone(),
        &[
            "spec.volumes[0].projected.sources[1].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
        ],
    );
    check::<Pod>(with(manifest, "/spec/serviceAccountName", json!("default")), &[]);
}

#[test]
fn values_that_no_node_can_have_are_required_by_old_pods_alone() {
    let requiring = |value: &str| {
        let term = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": [value]}]});
        let rule = "requiredDuringSchedulingIgnoredDuringExecution";
        let affinity = json!({"nodeAffinity": {rule: {"nodeSelectorTerms": [term]}}});
        with(web(), "/spec/affinity", affinity)
    };
    check::<Pod>(requiring("b"), &[]);
    let problem = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    check::<Pod>(requiring("b c"), &[problem]);
    let old = created::<Pod>(requiring("b c"));
    check_update(&old, requiring("b c"), Part::Main, &[]);
}

#[test]
fn a_status_is_written_whatever_the_spec_is_like() {
    let broken = with(web(), "/spec/containers/0/image", json!(" nginx"));
    let stored = created::<Pod>(broken.clone());
    let update = with(broken, "/status", json!({"phase": "Running"}));
    check_update(&stored, update, Part::Status, &[]);
}

#[test]
fn generations_that_somebody_saw_are_not_taken_away() {
    let condition = |kind: &str, generation: i64| match generation {
        0 => json!({"type": kind, "status": "True"}),
        _ => json!({"type": kind, "status": "True", "observedGeneration": generation}),
    };
    let stored = json!({"observedGeneration": 3, "conditions": [
        condition("a", 1), condition("b", 2), condition("a", 3), condition("c", 4),
    ]});
    let stored = defaulted::<Pod>(with(web(), "/status", stored));
    let written = json!({"conditions": [
        condition("b", 0), condition("a", 5), condition("a", 0), condition("a", 0), condition("d", 0),
    ]});
    let mut pod = defaulted::<Pod>(with(web(), "/status", written));
    pod.prepare_update(&stored, Part::Status);
    let status = pod.status.unwrap();
    assert_eq!(status.observed_generation, Some(3));
    let kept: Vec<_> =
        status.conditions.iter().flatten().map(|it| it.observed_generation).collect();
    assert_eq!(kept, [Some(2), Some(5), Some(3), None, None]);
}

#[test]
fn a_nomination_is_for_pods_without_a_node() {
    let nominated = |manifest: Value, node: &str| {
        with(manifest, "/status", json!({"qosClass": "BestEffort", "nominatedNodeName": node}))
    };
    let placed = || with(web(), "/spec/nodeName", json!("n"));
    check_update(&created::<Pod>(web()), nominated(web(), "n"), Part::Status, &[]);
    check_update(
        &created::<Pod>(placed()),
        nominated(placed(), "n"),
        Part::Status,
        &[
            "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
        ],
    );
}

#[test]
fn a_static_pod_gets_no_ephemeral_containers() {
    let mut manifest = with(web(), "/spec/nodeName", json!("n"));
    manifest["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "a"});
    let stored = created::<Pod>(manifest.clone());
    let debugged =
        with(manifest, "/spec/ephemeralContainers", json!([{"name": "a", "image": "x"}]));
    check_update(
        &stored,
        debugged,
        Part::Other("ephemeralcontainers"),
        &["[]: Forbidden: static pods do not support ephemeral containers"],
    );
}
