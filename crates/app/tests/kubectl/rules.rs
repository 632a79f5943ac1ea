//! A custom resource with rules: what breaks them is refused with the author's words, and a
//! definition with a rule that makes no sense is refused itself.

use crate::cluster::Cluster;

fn definition(rule: &str) -> String {
    format!(
        r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: boats.example.org
spec:
  group: example.org
  scope: Namespaced
  names: {{ plural: boats, singular: boat, kind: Boat }}
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
            properties:
              seats: {{ type: integer }}
              crew: {{ type: integer }}
              harbour:
                type: string
                maxLength: 20
                x-kubernetes-validations:
                - {{ rule: self == oldSelf, message: a boat stays where it is }}
            x-kubernetes-validations:
            - {{ rule: {rule}, messageExpression: '"%d people on %d seats".format([self.crew, self.seats])' }}
"#
    )
}

fn boat(crew: usize, harbour: &str) -> String {
    format!(
        "apiVersion: example.org/v1\nkind: Boat\nmetadata: {{name: dinghy}}\n\
         spec: {{seats: 4, crew: {crew}, harbour: {harbour}}}\n"
    )
}

#[test]
fn rules_of_custom_resources_are_kept() {
    let Some(cluster) = Cluster::start(0) else { return };
    let wrong = cluster.file("wrong.yaml", &definition("self.sails > 0"));
    let refused = cluster.refused(&["apply", "-f", &wrong]);
    assert!(refused.contains("undefined field 'sails'"), "{refused}");

    let boats = cluster.file("boats.yaml", &definition("self.crew <= self.seats"));
    cluster.ok(&["apply", "-f", &boats]);
    cluster.until_established("boats.example.org");

    let full = cluster.file("full.yaml", &boat(5, "Kiel"));
    let refused = cluster.refused(&["apply", "-f", &full]);
    assert!(refused.contains("spec: Invalid value: 5 people on 4 seats"), "{refused}");

    let fit = cluster.file("fit.yaml", &boat(3, "Kiel"));
    cluster.ok(&["apply", "-f", &fit]);
    let refused = cluster.refused(&[
        "patch",
        "boat",
        "dinghy",
        "--type=merge",
        "-p",
        r#"{"spec":{"crew":9}}"#,
    ]);
    assert!(refused.contains("9 people on 4 seats"), "{refused}");
    let away = cluster.file("away.yaml", &boat(3, "Bergen"));
    let refused = cluster.refused(&["apply", "--server-side", "--force-conflicts", "-f", &away]);
    assert!(
        refused.contains(r#"spec.harbour: Invalid value: "Bergen": a boat stays where it is"#),
        "{refused}"
    );

    let document = cluster.ok(&["get", "--raw", "/openapi/v3/apis/example.org/v1"]);
    assert!(document.contains("a boat stays where it is"), "{document}");
}
