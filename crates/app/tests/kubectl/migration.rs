//! Objects brought to a new storage version, as a user asks for it.

use crate::cluster::{Cluster, header, row};

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: pears.example.com }
spec:
  group: example.com
  scope: Namespaced
  names: { plural: pears, kind: Pear }
  versions:
  - name: v1
    served: true
    storage: true
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
  - name: v2
    served: true
    storage: false
    schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
";

const PEARS: &str = r"
apiVersion: example.com/v1
kind: Pear
metadata: { name: green }
---
apiVersion: example.com/v1
kind: Pear
metadata: { name: yellow }
";

const MIGRATION: &str = r"
apiVersion: storagemigration.k8s.io/v1beta1
kind: StorageVersionMigration
metadata: { name: pears }
spec: { resource: { group: example.com, resource: pears } }
";

#[test]
fn an_old_version_can_be_removed_after_a_migration() {
    let flags = [
        "--feature-gates=StorageVersionMigrator=true",
        "--runtime-config=storagemigration.k8s.io/v1beta1=true",
    ];
    let Some(cluster) = Cluster::start_with(tempfile::tempdir().unwrap(), 0, &flags) else {
        return;
    };
    cluster.ok(&["apply", "-f", &cluster.file("definition.yaml", DEFINITION)]);
    cluster.until_established("pears.example.com");
    cluster.ok(&["apply", "-f", &cluster.file("pears.yaml", PEARS)]);
    let stored = r#"[{"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]"#;
    cluster.ok(&["patch", "crd", "pears.example.com", "--type=json", "-p", stored]);
    let versions = ["get", "crd", "pears.example.com", "-o", "jsonpath={.status.storedVersions}"];
    assert_eq!(cluster.ok(&versions), r#"["v1","v2"]"#);
    let removal = r#"[{"op": "remove", "path": "/spec/versions/0"}]"#;
    let remove = ["patch", "crd", "pears.example.com", "--type=json", "-p", removal];
    let refused = cluster.refused(&remove);
    assert!(refused.contains("status.storedVersions[0]"), "{refused}");

    let asked = cluster.run(&["apply", "-f", &cluster.file("migration.yaml", MIGRATION)]);
    assert!(asked.is_ok && asked.stderr.is_empty(), "{}", asked.stderr);
    cluster.ok(&["wait", "--for=condition=Succeeded", "storageversionmigration/pears"]);
    cluster.ok(&["wait", "--for=condition=StorageMigrating=false", "crd/pears.example.com"]);
    assert_eq!(cluster.ok(&versions), r#"["v2"]"#);
    let table = cluster.ok(&["get", "storageversionmigrations"]);
    assert_eq!(header(&table), "NAME RESOURCE STATUS");
    assert_eq!(row(&table, "pears"), "pears pears.example.com Succeeded");
    cluster.ok(&remove);
    let pears = cluster.ok(&["get", "pears", "-o", "jsonpath={.items[*].apiVersion}"]);
    assert_eq!(pears, "example.com/v2 example.com/v2");
}
