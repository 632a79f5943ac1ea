//! Jobs with real pods: they run to their end, each index once, what fails is tried again, and a
//! CronJob's template runs by hand.

use crate::cluster::Cluster;

fn job(name: &str, arguments: &str, spec: &str) -> String {
    format!(
        r#"
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
{spec}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 2
      containers:
      - name: main
        image: xebec.local/toolbox
        args: {arguments}
"#
    )
}

#[test]
fn a_job_runs_to_its_end_and_its_output_stays() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.ok(&["create", "job", "hello", "--image=xebec.local/toolbox", "--", "count", "--to=3"]);
    cluster.ok(&["wait", "--for=condition=complete", "job/hello", "--timeout=60s"]);
    assert_eq!(cluster.field(&["job", "hello"], ".status.succeeded"), "1");
    let log = cluster.ok(&["logs", "job/hello"]);
    assert!(log.lines().count() == 3, "{log}");
    let described = cluster.ok(&["describe", "job", "hello"]);
    for expected in ["SuccessfulCreate", "Created pod: hello-", "Completed", "Job completed"] {
        assert!(described.contains(expected), "{expected} in\n{described}");
    }
    // The pod is held by nobody.
    assert_eq!(
        cluster.field(&["pods", "-l", "job-name=hello"], ".items[*].metadata.finalizers"),
        ""
    );
    cluster.ok(&["delete", "job", "hello"]);
    cluster.until(&["get", "pods"], |it| it.contains("No resources found"));
}

#[test]
fn each_index_of_a_job_runs_once_and_knows_its_number() {
    let Some(cluster) = Cluster::start() else { return };
    let spec = "  completionMode: Indexed\n  completions: 3\n  parallelism: 2";
    cluster.apply("many.yaml", &job("many", "[env]", spec));
    cluster.ok(&["wait", "--for=condition=complete", "job/many", "--timeout=60s"]);
    assert_eq!(cluster.field(&["job", "many"], ".status.completedIndexes"), "0-2");
    for index in 0..3 {
        let selector = format!("batch.kubernetes.io/job-completion-index={index}");
        let name = cluster.field(&["pods", "-l", &selector], ".items[*].metadata.name");
        assert!(name.starts_with(&format!("many-{index}-")), "{name}");
        let log = cluster.ok(&["logs", &name]);
        assert!(log.contains(&format!("JOB_COMPLETION_INDEX={index}")), "{log}");
        assert!(log.contains(&format!("HOSTNAME=many-{index}")), "{log}");
    }
}

#[test]
fn a_job_that_fails_says_why_and_stops() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("bad.yaml", &job("bad", "[\"false\"]", "  backoffLimit: 0"));
    cluster.ok(&["wait", "--for=condition=failed", "job/bad", "--timeout=60s"]);
    assert_eq!(cluster.field(&["job", "bad"], ".status.failed"), "1");
    let reason = ".status.conditions[?(@.type=='Failed')].reason";
    assert_eq!(cluster.field(&["job", "bad"], reason), "BackoffLimitExceeded");
    let rule = "{action: FailJob, onExitCodes: {operator: In, values: [1]}}";
    let spec = format!("  podFailurePolicy: {{rules: [{rule}]}}");
    cluster.apply("judged.yaml", &job("judged", "[\"false\"]", &spec));
    cluster.ok(&["wait", "--for=condition=failed", "job/judged", "--timeout=60s"]);
    let message = ".status.conditions[?(@.type=='Failed')].message";
    let said = cluster.field(&["job", "judged"], message);
    assert!(said.ends_with("failed with exit code 1 matching FailJob rule at index 0"), "{said}");
}

#[test]
fn the_template_of_a_cron_job_runs_by_hand_and_by_the_clock() {
    let Some(cluster) = Cluster::start() else { return };
    let image = "--image=xebec.local/toolbox";
    cluster.ok(&["create", "cronjob", "tick", image, "--schedule=* * * * *", "--", "true"]);
    cluster.ok(&["create", "job", "now", "--from=cronjob/tick"]);
    cluster.ok(&["wait", "--for=condition=complete", "job/now", "--timeout=60s"]);
    let manual = cluster.field(&["job", "now"], ".metadata.annotations");
    assert!(manual.contains("\"cronjob.kubernetes.io/instantiate\":\"manual\""), "{manual}");
    // At most a minute away.
    cluster.until(&["get", "cronjob", "tick", "-o", "jsonpath={.status.lastScheduleTime}"], |it| {
        it.ends_with(":00Z")
    });
    cluster.until(&["get", "jobs"], |it| it.lines().any(|it| it.starts_with("tick-")));
    let described = cluster.ok(&["describe", "cronjob", "tick"]);
    assert!(
        described.contains("SuccessfulCreate") && described.contains("Created job tick-"),
        "{described}"
    );
}
