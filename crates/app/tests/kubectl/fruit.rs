//! The fruit walk-through: a custom resource from definition to deletion.

use crate::cluster::{Cluster, header, row};

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: fruits.example.org
spec:
  group: example.org
  scope: Namespaced
  names: { plural: fruits, singular: fruit, kind: Fruit }
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What the fruit is like.
            properties:
              comment: { type: string, description: What people say. }
              sweet: { type: boolean }
              weight: { type: integer }
    additionalPrinterColumns:
    - { name: Sweet, type: boolean, jsonPath: .spec.sweet }
    - { name: Weight, type: integer, jsonPath: .spec.weight }
    - { name: Comment, type: string, jsonPath: .spec.comment }
";

fn fruit(name: &str, spec: &str) -> String {
    format!("apiVersion: example.org/v1\nkind: Fruit\nmetadata:\n  name: {name}\nspec: {spec}\n")
}

#[test]
fn the_fruit_walk_through() {
    let Some(cluster) = Cluster::start(0) else { return };
    let definition = cluster.file("fruits.yaml", DEFINITION);
    cluster.ok(&["apply", "-f", &definition]);
    cluster.until_established("fruits.example.org");
    let apple = cluster.file(
        "apple.yaml",
        &fruit("apple", "{ sweet: true, weight: 150, comment: keeps the doctor away }"),
    );
    let banana = cluster
        .file("banana.yaml", &fruit("banana", "{ sweet: true, weight: 120, comment: bent }"));
    let created = cluster.run(&["create", "-v", "10", "-f", &apple]);
    assert!(created.is_ok, "{}", created.stderr);
    check_conversation(&created.stderr);
    cluster.ok(&["create", "-f", &banana]);

    let table = cluster.ok(&["get", "fruits"]);
    assert_eq!(header(&table), "NAME SWEET WEIGHT COMMENT");
    assert_eq!(row(&table, "apple"), "apple true 150 keeps the doctor away");
    let explained = cluster.ok(&["explain", "fruits.spec"]);
    for line in [
        "KIND:       Fruit",
        "comment\t<string>",
        "sweet\t<boolean>",
        "weight\t<integer>",
        "What people say.",
    ] {
        assert!(explained.contains(line), "{explained}");
    }

    cluster.ok(&["label", "fruit", "banana", "tastes-good=true"]);
    let names = |selector: &str| cluster.ok(&["get", "fruits", "-l", selector, "-o", "name"]);
    assert_eq!(names("tastes-good=true"), "fruit.example.org/banana\n");
    assert_eq!(names("!tastes-good"), "fruit.example.org/apple\n");
    cluster.ok(&["label", "fruit", "banana", "tastes-good-"]);
    assert_eq!(names("tastes-good=true"), "");

    let wrong = cluster.file("wrong.yaml", &fruit("plum", "{ weight: heavy }"));
    let refused = cluster.refused(&["create", "-f", &wrong]);
    assert!(
        refused.contains("spec.weight: Invalid value")
            && refused.contains("must be of type integer"),
        "{refused}"
    );
    let unknown = cluster.file("unknown.yaml", &fruit("plum", "{ colour: blue }"));
    let refused = cluster.refused(&["create", "-f", &unknown]);
    assert!(refused.contains(r#"unknown field "spec.colour""#), "{refused}");

    cluster.ok(&["delete", "fruit", "apple"]);
    assert!(
        cluster
            .refused(&["get", "fruit", "apple"])
            .contains(r#"fruits.example.org "apple" not found"#)
    );
    cluster.ok(&["delete", "crd", "fruits.example.org", "--timeout=30s"]);
    let gone = cluster.refused(&["get", "--raw", "/apis/example.org/v1/namespaces/default/fruits"]);
    assert!(gone.contains("the server could not find the requested resource"), "{gone}");
}

/// What goes over the wire, as `kubectl -v 10` shows it.
fn check_conversation(log: &str) {
    let post =
        log.lines().find(|it| it.contains("POST") && it.contains("/fruits?")).unwrap_or_default();
    assert!(
        post.contains("fieldManager=kubectl-create") && post.contains("fieldValidation=Strict"),
        "{log}"
    );
    for wanted in [
        "Audit-Id:",
        "X-Kubernetes-Pf-Flowschema-Uid:",
        "X-Kubernetes-Pf-Prioritylevel-Uid:",
        "managedFields",
    ] {
        assert!(log.contains(wanted), "no {wanted} in\n{log}");
    }
}
