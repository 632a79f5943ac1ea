//! kubectl's commands about ReplicationControllers and their pods.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::apps::running::{fields, lasting, nodes, pods, until_ready};
use crate::cases::{Case, case, toolbox};
use crate::expect::{items, name, same, says, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-cli] Kubectl client Kubectl describe should check if kubectl describe prints relevant information for rc and pods [Conformance]",
        describe
    ),
    case!(
        "[sig-cli] Kubectl client Kubectl expose should create services for rc [Conformance]",
        expose
    ),
    case!(
        "[sig-cli] Kubectl client Kubectl patch should add annotations for pods in rc [Conformance]",
        patch
    ),
    case!(
        "[sig-cli] Kubectl client Update Demo should create and stop a replication controller [Conformance]",
        create_and_stop
    ),
    case!(
        "[sig-cli] Kubectl client Update Demo should scale a replication controller [Conformance]",
        scale
    ),
];

const PODS: &str = "app=web";

/// A ReplicationController of kubectl's making.
async fn create(scope: &Scope, replicas: usize, template: &Value) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": { "name": "web", "labels": { "app": "web" } },
        "spec": { "replicas": replicas, "selector": { "app": "web" }, "template": template },
    });
    let input = object.to_string();
    let arguments = ["create", "-f", "-"];
    scope.kubectl()?.ok_with(&scope.namespace, &arguments, Some(&input)).await.map(drop)
}

async fn run(scope: &Scope, replicas: usize) -> Result<Vec<Value>> {
    nodes(scope).await?;
    create(scope, replicas, &lasting(&json!({ "app": "web" }))).await?;
    until_ready(scope, PODS, replicas).await
}

/// Each of these is the beginning of a line, or its rest after blanks.
async fn prints(scope: &Scope, arguments: &[&str], lines: &[&[&str]]) -> Result<()> {
    let text = scope.kubectl()?.ok(&scope.namespace, arguments).await?;
    for words in lines {
        let is_line = |it: &str| {
            let mut rest = it;
            words.iter().all(|word| match rest.find(word) {
                Some(at) => {
                    rest = &rest[at + word.len()..];
                    true
                }
                None => false,
            })
        };
        ensure!(text.lines().any(is_line), "kubectl {arguments:?}: no line {words:?} in {text}");
    }
    Ok(())
}

async fn describe(scope: &Scope) -> Result<()> {
    let pods = run(scope, 1).await?;
    let (pod, space) = (name(&pods[0])?, &*scope.namespace);
    let node = pods[0]["spec"]["nodeName"].as_str().unwrap_or_default();
    let service = json!({ "metadata": { "name": "web" }, "spec": {
        "selector": { "app": "web" }, "ports": [{ "port": 6379, "targetPort": 6379 }],
    } });
    scope.own("v1", "services").create(&service).await?;
    let ip = pods[0]["status"]["podIP"].as_str().unwrap_or_default();
    prints(
        scope,
        &["describe", "pod", pod],
        &[
            &["Name:", pod],
            &["Namespace:", space],
            &["Node:", node],
            &["Labels:", "app=web"],
            &["Status:", "Running"],
            &["IP:", ip],
            &["Controlled By:", "ReplicationController/web"],
            &["Image:", "pause"],
            &["State:", "Running"],
            &["QoS Class:", "BestEffort"],
        ],
    )
    .await?;
    prints(
        scope,
        &["describe", "rc", "web"],
        &[
            &["Name:", "web"],
            &["Namespace:", space],
            &["Selector:", "app=web"],
            &["Labels:", "app=web"],
            &["Annotations:"],
            &["Replicas:", "1 current", "1 desired"],
            &["Pods Status:", "1 Running", "0 Waiting", "0 Succeeded", "0 Failed"],
            &["Pod Template:"],
            &["Image:", "pause"],
            &["Events:"],
        ],
    )
    .await?;
    describe_surroundings(scope, node, ip).await
}

/// The Service of the pod, its node and its namespace.
async fn describe_surroundings(scope: &Scope, node: &str, ip: &str) -> Result<()> {
    let space = &*scope.namespace;
    scope
        .until("the Service has the pod", async || {
            prints(
                scope,
                &["describe", "service", "web"],
                &[
                    &["Name:", "web"],
                    &["Namespace:", space],
                    &["Selector:", "app=web"],
                    &["Type:", "ClusterIP"],
                    &["IP:"],
                    &["Port:", "<unset>", "6379/TCP"],
                    &["Endpoints:", ip, ":6379"],
                    &["Session Affinity:", "None"],
                ],
            )
            .await
        })
        .await?;
    prints(
        scope,
        &["describe", "node", node],
        &[
            &["Name:", node],
            &["Labels:"],
            &["Annotations:"],
            &["CreationTimestamp:"],
            &["Conditions:"],
            &["Type", "Status", "LastHeartbeatTime", "LastTransitionTime", "Reason"],
            &["Addresses:"],
            &["Capacity:"],
            &["Version:"],
            &["Kubelet Version:"],
            &["Pods:"],
        ],
    )
    .await?;
    prints(
        scope,
        &["describe", "namespace", space],
        &[&["Name:", space], &["Labels:"], &["Annotations:"], &["Status:", "Active"]],
    )
    .await
}

/// The Service has this port, and the pods behind it.
async fn is_served(scope: &Scope, service: &str, port: u16, target: u16) -> Result<()> {
    let read = scope.own("v1", "services").get(service).await?;
    let ports = json!([{ "port": port, "targetPort": target, "protocol": "TCP" }]);
    shows(&read, &json!({ "spec": { "ports": ports, "selector": { "app": "web" } } }))?;
    let slices = scope.own("discovery.k8s.io/v1", "endpointslices");
    let selector = format!("kubernetes.io/service-name={service}");
    scope
        .until("the Service has its pod", async || {
            let list = slices.labeled(&selector).await?;
            let slice = items(&list)?.first().unwrap_or(&Value::Null);
            same("number of endpoints", slice["endpoints"].as_array().map_or(0, Vec::len), 1)?;
            shows(slice, &json!({ "ports": [{ "port": target }] }))
        })
        .await
}

async fn expose(scope: &Scope) -> Result<()> {
    run(scope, 1).await?;
    let (kubectl, space) = (scope.kubectl()?, &*scope.namespace);
    let first = ["expose", "rc", "web", "--name=rm2", "--port=1234", "--target-port=6379"];
    kubectl.ok(space, &first).await?;
    is_served(scope, "rm2", 1_234, 6_379).await?;
    let second = ["expose", "service", "rm2", "--name=rm3", "--port=2345", "--target-port=6379"];
    kubectl.ok(space, &second).await?;
    is_served(scope, "rm3", 2_345, 6_379).await
}

async fn patch(scope: &Scope) -> Result<()> {
    for pod in run(scope, 1).await? {
        let patch = r#"{"metadata":{"annotations":{"x":"y"}}}"#;
        let arguments = ["patch", "pod", name(&pod)?, "-p", patch];
        let said = scope.kubectl()?.ok(&scope.namespace, &arguments).await?;
        says("kubectl patch", &said, &["patched"])?;
    }
    let annotations = fields(&pods(scope, PODS).await?, "/metadata/annotations/x");
    same("annotations", annotations, vec!["y".to_owned()])
}

async fn start(scope: &Scope) -> Result<()> {
    toolbox::needs_real_nodes(scope).await?;
    create(scope, 2, &toolbox::web_server(&json!({ "app": "web" }))).await?;
    toolbox::each_answers_its_name(scope, PODS, 2).await
}

async fn create_and_stop(scope: &Scope) -> Result<()> {
    start(scope).await?;
    let (kubectl, space) = (scope.kubectl()?, &*scope.namespace);
    let arguments = ["delete", "rc", "web", "--grace-period=0", "--force"];
    kubectl.ok(space, &arguments).await?;
    scope
        .until("nothing of it is left", async || {
            let left = kubectl.ok(space, &["get", "rc,pods", "-l", PODS, "--no-headers"]).await?;
            same("what is left", left.trim(), "")
        })
        .await
}

async fn scale(scope: &Scope) -> Result<()> {
    start(scope).await?;
    for replicas in [1, 2] {
        let size = format!("--replicas={replicas}");
        let arguments = ["scale", "rc", "web", &size, "--timeout=2m"];
        let said = scope.kubectl()?.ok(&scope.namespace, &arguments).await?;
        says("kubectl scale", &said, &["scaled"])?;
        toolbox::each_answers_its_name(scope, PODS, replicas).await?;
    }
    Ok(())
}
