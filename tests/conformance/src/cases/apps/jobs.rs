//! Jobs on nodes that run pods: how they end, what counts as a failure, and whose pods are whose.

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::running::{command, lasting, nodes, pods};
use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{count, name, refused, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] Job should adopt matching orphans and release non-matching pods [Conformance]",
        claims
    ),
    case!(
        "[sig-apps] Job should allow to use a pod failure policy to ignore failure matching on DisruptionTarget condition [Conformance]",
        ignores
    ),
    case!(
        "[sig-apps] Job should allow to use the pod failure policy on exit code to fail the job early [Conformance]",
        fails_early
    ),
    case!("[sig-apps] Job should apply changes to a job status [Conformance]", status),
    case!(
        "[sig-apps] Job should create pods for an Indexed job with completion indexes and specified hostname [Conformance]",
        indexes
    ),
    case!("[sig-apps] Job should delete a job [Conformance]", deletes),
    case!(
        "[sig-apps] Job should execute all indexes despite some failing when using backoffLimitPerIndex [Conformance]",
        per_index
    ),
    case!("[sig-apps] Job should manage the lifecycle of a job [Conformance]", lifecycle),
    case!(
        "[sig-apps] Job should mark indexes as failed when the FailIndex action is matched in podFailurePolicy [Conformance]",
        fail_index
    ),
    case!(
        "[sig-apps] Job should run a job to completion when tasks sometimes fail and are locally restarted [Conformance]",
        restarts
    ),
    case!(
        "[sig-apps] Job should terminate job execution when the number of failed indexes exceeds maxFailedIndexes [Conformance]",
        too_many_indexes
    ),
    case!(
        "[sig-apps] Job with successPolicy should succeeded when all indexes succeeded [Conformance]",
        policy_all
    ),
    case!(
        "[sig-apps] Job with successPolicy succeededCount rule should succeeded even when some indexes remain pending [Conformance]",
        policy_count
    ),
    case!(
        "[sig-apps] Job with successPolicy succeededIndexes rule should succeeded even when some indexes remain pending [Conformance]",
        policy_indexes
    ),
];

/// Odd completions fail.
const ODD: (&str, &str) = ("exit $((JOB_COMPLETION_INDEX % 2))", "odd=1");

async fn create<'a>(scope: &'a Scope, template: &Value, rest: &Value) -> Result<Collection<'a>> {
    nodes(scope).await?;
    let jobs = scope.own("batch/v1", "jobs");
    let mut spec = rest.clone();
    spec["template"] = template.clone();
    jobs.create(
        &json!({ "metadata": { "name": "work", "labels": { "app": "work" } }, "spec": spec }),
    )
    .await?;
    Ok(jobs)
}

/// A template that runs until its Job lets it go.
fn waiting() -> Value {
    let mut template = lasting(&json!({}));
    template["spec"]["restartPolicy"] = json!("Never");
    template
}

async fn until_active(scope: &Scope, jobs: &Collection<'_>, active: usize) -> Result<()> {
    let expected = json!({ "status": { "active": active, "ready": active } });
    scope.until("its pods run", async || shows(&jobs.get("work").await?, &expected)).await
}

/// Until the Job has ended so; its status.
async fn until_ended(scope: &Scope, jobs: &Collection<'_>, condition: &str) -> Result<Value> {
    scope
        .until(&format!("the Job is {condition}"), async || {
            let job = jobs.get("work").await?;
            find(&job["status"], condition)?;
            Ok(job["status"].clone())
        })
        .await
}

fn find<'a>(status: &'a Value, condition: &str) -> Result<&'a Value> {
    let conditions = status["conditions"].as_array().map_or(&[][..], |it| it);
    let found = conditions.iter().find(|it| it["type"] == condition && it["status"] == "True");
    found.ok_or_else(|| anyhow!("expected {condition}, saw {conditions:?}"))
}

async fn claims(scope: &Scope) -> Result<()> {
    let jobs = create(scope, &waiting(), &json!({ "parallelism": 2, "completions": 2 })).await?;
    until_active(scope, &jobs, 2).await?;
    let job = jobs.get("work").await?;
    let collection = scope.own("v1", "pods");
    let pod = pods(scope, "batch.kubernetes.io/job-name=work").await?.remove(0);
    let is_owned = async || {
        let read = collection.get(name(&pod)?).await?;
        let owners = read["metadata"]["ownerReferences"].as_array().map_or(&[][..], |it| it);
        Ok::<_, anyhow::Error>(owners.iter().any(|it| it["uid"] == job["metadata"]["uid"]))
    };
    let orphan = json!({ "metadata": { "ownerReferences": null } });
    collection.patch(name(&pod)?, Patch::Merge, &orphan).await?;
    scope
        .until("the orphan is adopted", async || {
            ensure!(is_owned().await?, "it has no owner");
            Ok(())
        })
        .await?;
    collection.patch(name(&pod)?, Patch::Merge, &json!({ "metadata": { "labels": null } })).await?;
    scope
        .until("what does not match is released", async || {
            ensure!(!is_owned().await?, "it has its owner");
            Ok(())
        })
        .await?;
    let options = json!({ "gracePeriodSeconds": 0 });
    collection.delete_with(name(&pod)?, &options).await.map(drop)
}

async fn ignores(scope: &Scope) -> Result<()> {
    let rule = json!({ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] });
    let rest = json!({ "backoffLimit": 0, "podFailurePolicy": { "rules": [rule] } });
    let jobs = create(scope, &waiting(), &rest).await?;
    until_active(scope, &jobs, 1).await?;
    let pod = pods(scope, "batch.kubernetes.io/job-name=work").await?.remove(0);
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name(&pod)? },
        "deleteOptions": { "gracePeriodSeconds": 0 },
    });
    scope.own("v1", "pods").create_part(name(&pod)?, "eviction", &eviction).await?;
    scope
        .until("another pod runs in its place", async || {
            let pods = pods(scope, "batch.kubernetes.io/job-name=work").await?;
            ensure!(pods.iter().any(|it| it["metadata"]["uid"] != pod["metadata"]["uid"]), "none");
            Ok(())
        })
        .await?;
    until_active(scope, &jobs, 1).await?;
    let job = jobs.get("work").await?;
    same("failed", job["status"]["failed"].as_i64().unwrap_or(0), 0)
}

async fn fails_early(scope: &Scope) -> Result<()> {
    let rule = json!({ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [7] } });
    let rest = json!({ "backoffLimit": 6, "podFailurePolicy": { "rules": [rule] } });
    let jobs = create(scope, &command("Never", "exit 7", "exit=7"), &rest).await?;
    let status = until_ended(scope, &jobs, "Failed").await?;
    same("failed", &status["failed"], &json!(1))?;
    shows(find(&status, "Failed")?, &json!({ "reason": "PodFailurePolicy" }))
}

async fn status(scope: &Scope) -> Result<()> {
    let jobs = create(scope, &waiting(), &json!({})).await?;
    until_active(scope, &jobs, 1).await?;
    shows(&jobs.get_part("work", "status").await?, &json!({ "status": { "active": 1 } }))?;
    let condition = json!({ "type": "CaseCondition", "status": "True", "reason": "Case", "message": "Set by a case" });
    let patch = json!({ "status": { "conditions": [condition] } });
    let patched = jobs.patch_part("work", "status", Patch::Merge, &patch).await?;
    shows(&patched, &patch)?;
    let updated = jobs
        .change("work", Some("status"), |it| {
            it["status"]["conditions"][0]["message"] = json!("again")
        })
        .await?;
    shows(&updated, &json!({ "status": { "conditions": [{ "message": "again" }] } }))
}

async fn indexes(scope: &Scope) -> Result<()> {
    let rest = json!({ "completions": 4, "parallelism": 2, "completionMode": "Indexed" });
    let jobs = create(scope, &command("Never", "true", "after=1"), &rest).await?;
    let status = until_ended(scope, &jobs, "Complete").await?;
    shows(&status, &json!({ "succeeded": 4, "completedIndexes": "0-3" }))?;
    let pods = pods(scope, "batch.kubernetes.io/job-name=work").await?;
    let mut seen = Vec::new();
    for pod in &pods {
        let key = "batch.kubernetes.io/job-completion-index";
        let index = pod["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned();
        shows(
            pod,
            &json!({ "spec": { "hostname": format!("work-{index}") }, "metadata": { "labels": { key: index } } }),
        )?;
        seen.push(index);
    }
    seen.sort();
    same("indexes", seen, ["0", "1", "2", "3"].map(str::to_owned).to_vec())
}

async fn deletes(scope: &Scope) -> Result<()> {
    let jobs = create(scope, &waiting(), &json!({ "parallelism": 2, "completions": 4 })).await?;
    until_active(scope, &jobs, 2).await?;
    jobs.delete_with("work", &json!({ "propagationPolicy": "Foreground" })).await?;
    scope
        .until("the Job is gone", async || {
            refused("reading it", jobs.get("work").await, 404).map(drop)
        })
        .await?;
    count("its pods", &scope.own("v1", "pods").list(&[]).await?, 0)
}

async fn per_index(scope: &Scope) -> Result<()> {
    let rest = json!({
        "completions": 4, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    });
    let jobs = create(scope, &command("Never", ODD.0, ODD.1), &rest).await?;
    let status = until_ended(scope, &jobs, "Failed").await?;
    let counts =
        json!({ "succeeded": 2, "failed": 4, "completedIndexes": "0,2", "failedIndexes": "1,3" });
    shows(&status, &counts)?;
    shows(find(&status, "Failed")?, &json!({ "reason": "FailedIndexes" }))
}

async fn fail_index(scope: &Scope) -> Result<()> {
    let rule = json!({ "action": "FailIndex", "onExitCodes": { "operator": "In", "values": [1] } });
    let rest = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 5,
        "podFailurePolicy": { "rules": [rule] },
    });
    let jobs = create(scope, &command("Never", ODD.0, ODD.1), &rest).await?;
    let status = until_ended(scope, &jobs, "Failed").await?;
    shows(
        &status,
        &json!({ "succeeded": 1, "failed": 1, "completedIndexes": "0", "failedIndexes": "1" }),
    )
}

async fn too_many_indexes(scope: &Scope) -> Result<()> {
    let rest = json!({
        "completions": 100, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 1,
    });
    let jobs = create(scope, &command("Never", ODD.0, ODD.1), &rest).await?;
    let status = until_ended(scope, &jobs, "Failed").await?;
    shows(find(&status, "Failed")?, &json!({ "reason": "MaxFailedIndexesExceeded" }))
}

async fn restarts(scope: &Scope) -> Result<()> {
    let once = "test -e /scratch/there || { touch /scratch/there; exit 1; }";
    let rest = json!({ "completions": 4, "parallelism": 2 });
    let jobs = create(scope, &command("OnFailure", once, "after=1 restarts=1"), &rest).await?;
    let status = until_ended(scope, &jobs, "Complete").await?;
    same("succeeded", &status["succeeded"], &json!(4))
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    let rest = json!({ "parallelism": 2, "completions": 2, "suspend": true });
    let jobs = create(scope, &command("Never", "sleep 1", "after=1"), &rest).await?;
    scope
        .until("the Job is suspended", async || {
            find(&jobs.get("work").await?["status"], "Suspended").map(drop)
        })
        .await?;
    count("pods", &scope.own("v1", "pods").list(&[]).await?, 0)?;
    let patch = json!({ "metadata": { "labels": { "patched": "true" } } });
    shows(&jobs.patch("work", Patch::Strategic, &patch).await?, &patch)?;
    let updated = jobs.change("work", None, |it| it["spec"]["suspend"] = json!(false)).await?;
    shows(&updated, &json!({ "spec": { "suspend": false } }))?;
    until_ended(scope, &jobs, "Complete").await?;
    count("Jobs", &jobs.labeled("patched=true").await?, 1)?;
    jobs.delete_all(&[("labelSelector", "patched=true")]).await?;
    scope.until("the Job is gone", async || count("Jobs", &jobs.list(&[]).await?, 0)).await
}

async fn policy(
    scope: &Scope,
    completions: usize,
    rules: &[Value],
    code: (&str, &str),
) -> Result<Value> {
    let mut rest = json!({
        "completions": completions, "parallelism": completions, "completionMode": "Indexed",
        "backoffLimit": 100, "successPolicy": { "rules": rules },
    });
    if rules.is_empty() {
        rest["successPolicy"] = Value::Null;
    }
    let jobs = create(scope, &command("Never", code.0, code.1), &rest).await?;
    let status = until_ended(scope, &jobs, "Complete").await?;
    find(&status, "SuccessCriteriaMet")?;
    Ok(status)
}

async fn policy_all(scope: &Scope) -> Result<()> {
    let rule = json!({ "succeededIndexes": "0-1" });
    let status = policy(scope, 2, &[rule], ("true", "after=1")).await?;
    shows(&status, &json!({ "completedIndexes": "0,1", "succeeded": 2 }))
        .or_else(|_| shows(&status, &json!({ "completedIndexes": "0-1", "succeeded": 2 })))
}

async fn policy_count(scope: &Scope) -> Result<()> {
    let rule = json!({ "succeededCount": 1 });
    let status = policy(scope, 2, &[rule], ODD).await?;
    shows(&status, &json!({ "completedIndexes": "0" }))
}

async fn policy_indexes(scope: &Scope) -> Result<()> {
    let rule = json!({ "succeededIndexes": "0" });
    let status = policy(scope, 2, &[rule], ODD).await?;
    shows(&status, &json!({ "completedIndexes": "0" }))
}
