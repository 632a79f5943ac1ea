//! Admission policies, as kubectl makes, shows and meets them.

use crate::cluster::Cluster;

const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: { name: few }
spec:
  matchConstraints:
    resourceRules:
    - { apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments] }
  variables:
  - { name: replicas, expression: object.spec.replicas }
  validations:
  - expression: variables.replicas <= 3
    messageExpression: "'at most 3, not ' + string(variables.replicas)"
  - expression: object.spec.replica != '1' || true
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: { name: everywhere }
spec: { policyName: few, validationActions: [Deny] }
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: { name: marked }
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - { apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps] }
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'made-by': request.userInfo.username.replace(':', '.')}}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: { name: marked }
spec: { policyName: marked }
"#;

#[test]
fn policies_refuse_change_and_are_checked() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["apply", "-f", &cluster.file("policies.yaml", POLICY)]);
    let create = ["create", "deployment", "web", "--image=xebec.local/toolbox"];
    let refusal = cluster.refused(&[&create[..], &["--replicas=5"]].concat());
    let expected = "ValidatingAdmissionPolicy 'few' with binding 'everywhere' denied request: \
                    at most 3, not 5";
    assert!(refusal.contains(expected), "{refusal}");
    cluster.ok(&[&create[..], &["--replicas=2"]].concat());
    // The status tells what does not fit the kind.
    let path = "jsonpath={.status.observedGeneration} {.status.typeChecking.expressionWarnings[*].fieldRef}";
    cluster.until(&["get", "validatingadmissionpolicy", "few", "-o", path], |it| {
        it == "1 spec.validations[1].expression"
    });

    cluster.ok(&["create", "configmap", "one"]);
    let labels = cluster.ok(&["get", "configmap", "one", "-o", "jsonpath={.metadata.labels}"]);
    assert!(labels.contains("made-by"), "{labels}");

    let broken = POLICY.replace("object.spec.replicas }", "object.spec. }");
    let refusal = cluster.refused(&["apply", "-f", &cluster.file("broken.yaml", &broken)]);
    assert!(refusal.contains("spec.variables[0].expression: Invalid value"), "{refusal}");
    assert!(refusal.contains("compilation failed: ERROR: <input>:1:"), "{refusal}");
}
