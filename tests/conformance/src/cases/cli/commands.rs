//! kubectl's commands that need no pod that runs.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::expect::{same, says, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-cli] Kubectl client Kubectl api-versions should check if v1 is in available api versions [Conformance]",
        api_versions
    ),
    case!(
        "[sig-cli] Kubectl client Kubectl cluster-info should check if Kubernetes control plane services is included in cluster-info [Conformance]",
        cluster_info
    ),
    case!(
        "[sig-cli] Kubectl client Kubectl diff should check if kubectl diff finds a difference for Deployments [Conformance]",
        diff
    ),
    case!(
        "[sig-cli] Kubectl client Kubectl run pod should create a pod from an image when restart is Never [Conformance]",
        run_once
    ),
    case!(
        "[sig-cli] Kubectl client Kubectl server-side dry-run should check if kubectl can dry-run update Pods [Conformance]",
        dry_run
    ),
    case!(
        "[sig-cli] Kubectl client Kubectl version should check is all data is printed [Conformance]",
        version
    ),
];

/// A scheduler that nobody runs: the pod stays where it is.
const NOWHERE: &str = r#"--overrides={"spec":{"schedulerName":"conformance-nobody"}}"#;

async fn api_versions(scope: &Scope) -> Result<()> {
    let versions = scope.kubectl()?.ok(&scope.namespace, &["api-versions"]).await?;
    for version in ["v1", "apps/v1"] {
        ensure!(versions.lines().any(|it| it == version), "expected {version}, saw {versions}");
    }
    Ok(())
}

async fn cluster_info(scope: &Scope) -> Result<()> {
    let info = scope.kubectl()?.ok(&scope.namespace, &["cluster-info"]).await?;
    says("kubectl cluster-info", &info, &["Kubernetes control plane", "is running at"])
}

async fn version(scope: &Scope) -> Result<()> {
    let text = scope.kubectl()?.ok(&scope.namespace, &["version"]).await?;
    for who in ["Client Version: v", "Server Version: v"] {
        let found = text.lines().find_map(|it| it.strip_prefix(who));
        let numbers: Vec<&str> = found.unwrap_or_default().splitn(3, '.').collect();
        let is_number = |it: &&str| it.bytes().next().is_some_and(|it| it.is_ascii_digit());
        let is_right = numbers.len() == 3 && numbers.iter().all(is_number);
        ensure!(is_right, "kubectl version: expected {who}N.N.N, saw {text}");
    }
    Ok(())
}

async fn diff(scope: &Scope) -> Result<()> {
    let kubectl = scope.kubectl()?;
    let deployment = |image: &str| {
        let labels = json!({ "app": "web" });
        let mut spec = pods::idle_spec();
        spec["containers"][0]["image"] = json!(image);
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
            "spec": { "replicas": 0, "selector": { "matchLabels": labels }, "template": {
                "metadata": { "labels": labels }, "spec": spec,
            } },
        });
        object.to_string()
    };
    let (old, new) = (deployment("example.com/image:old"), deployment("example.com/image:new"));
    kubectl.ok_with(&scope.namespace, &["create", "-f", "-"], Some(&old)).await?;
    let none = kubectl.run(&scope.namespace, &["diff", "-f", "-"], Some(&old)).await?;
    same("code of a diff without difference", none.code, Some(0))?;
    let ran = kubectl.run(&scope.namespace, &["diff", "-f", "-"], Some(&new)).await?;
    same("code of a diff", ran.code, Some(1))?;
    for (sign, image) in [('-', "example.com/image:old"), ('+', "example.com/image:new")] {
        let is_line = |it: &str| it.starts_with(sign) && it.contains(image);
        ensure!(ran.stdout.lines().any(is_line), "expected {sign} {image}, saw {}", ran.stdout);
    }
    Ok(())
}

async fn run_once(scope: &Scope) -> Result<()> {
    let arguments = ["run", "once", "--restart=Never", "--image=example.com/image:1", NOWHERE];
    scope.kubectl()?.ok(&scope.namespace, &arguments).await?;
    let pod = scope.own("v1", "pods").get("once").await?;
    let containers = json!([{ "image": "example.com/image:1" }]);
    shows(&pod, &json!({ "spec": { "restartPolicy": "Never", "containers": containers } }))
}

async fn dry_run(scope: &Scope) -> Result<()> {
    let kubectl = scope.kubectl()?;
    let space = &*scope.namespace;
    kubectl.ok(space, &["run", "web", "--image=example.com/image:1", NOWHERE]).await?;
    let patch = r#"{"spec":{"containers":[{"name":"web","image":"example.com/image:2"}]}}"#;
    let arguments = ["patch", "pod", "web", "-p", patch, "--dry-run=server", "-o", "yaml"];
    let shown = kubectl.ok(space, &arguments).await?;
    says("kubectl patch --dry-run=server", &shown, &["image: example.com/image:2"])?;
    let pod = scope.own("v1", "pods").get("web").await?;
    let containers = json!([{ "image": "example.com/image:1" }]);
    shows(&pod, &json!({ "spec": { "containers": containers } }))?;
    kubectl.ok(space, &["delete", "pod", "web"]).await.map(drop)
}
