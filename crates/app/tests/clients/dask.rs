//! The operator of dask-kubernetes, as its package has it: definitions of half a megabyte, and a process
//! that makes Deployments and Services of one object.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::cluster::Cluster;
use crate::{kopf, python};

const PACKAGE: &str = "dask_kubernetes";
const DEFINITIONS: [&str; 4] = ["daskautoscaler", "daskcluster", "daskjob", "daskworkergroup"];

/// The folder of the package's definitions.
fn definitions(python: &std::ffi::OsStr) -> PathBuf {
    let script = format!("import {PACKAGE}; print({PACKAGE}.__path__[0])");
    let found = Command::new(python).args(["-c", &script]).output().unwrap();
    let folder = String::from_utf8(found.stdout).unwrap();
    Path::new(folder.trim()).join("operator/deployment/helm/dask-kubernetes-operator/crds")
}

fn dask_cluster(scheduler_port: &serde_json::Value) -> String {
    let container = |name: &str| json!({ "name": name, "image": "xebec.local/toolbox" });
    let ports = json!([{
        "name": "tcp-comm", "port": scheduler_port, "targetPort": "tcp-comm", "protocol": "TCP",
    }]);
    let cluster = json!({
        "apiVersion": "kubernetes.dask.org/v1", "kind": "DaskCluster",
        "metadata": { "name": "sums" },
        "spec": {
            "worker": { "replicas": 2, "spec": { "containers": [container("worker")] } },
            "scheduler": {
                "spec": { "containers": [container("scheduler")] },
                "service": {
                    "type": "ClusterIP", "ports": ports,
                    "selector": {
                        "dask.org/cluster-name": "sums", "dask.org/component": "scheduler",
                    },
                },
            },
        },
    });
    cluster.to_string()
}

#[test]
fn the_operator_of_dask_makes_a_scheduler_and_workers() {
    let Some(python) = python::with(PACKAGE) else { return };
    let Some(cluster) = Cluster::start(1) else { return };
    let folder = definitions(&python);
    for name in DEFINITIONS {
        let file = folder.join(format!("{name}.yaml")).display().to_string();
        // Too large for the annotation of a client that applies.
        cluster.ok(&["apply", "--server-side", "-f", &file]);
        cluster.until_established(&format!("{name}s.kubernetes.dask.org"));
    }
    let deep = "daskcluster.spec.worker.spec.containers.securityContext.capabilities.drop";
    let explained = cluster.ok(&["explain", deep]);
    assert!(explained.contains("FIELD: drop <[]string>"), "{explained}");

    let bad = cluster.file("bad.json", &dask_cluster(&json!({ "no": "port" })));
    let refused = cluster.refused(&["create", "--validate=false", "-f", &bad]);
    assert!(refused.contains("spec.scheduler.service.ports[0].port: Invalid value"), "{refused}");

    let _operator = kopf::start(
        &cluster,
        python,
        &["--all-namespaces", "-m", "dask_kubernetes.operator.controller"],
        &[],
    );
    let good = cluster.file("good.json", &dask_cluster(&json!(8786)));
    cluster.ok(&["create", "-f", &good]);
    let names =
        |kind: &'static str| ["get", kind, "-l", "dask.org/cluster-name=sums", "-o", "name"];
    cluster.until(&names("services"), |it| it.contains("service/sums-scheduler"));
    cluster.until(&names("deployments"), |it| {
        it.contains("deployment.apps/sums-scheduler") && it.matches("worker").count() == 2
    });
    cluster.ok(&["get", "daskworkergroup", "sums-default"]);

    // With their cluster they go, the finalizers of the operator first.
    cluster.ok(&["delete", "daskcluster", "sums"]);
    cluster.until(&names("deployments"), str::is_empty);
}
