//! Reviews of what somebody may do agree with what happens when they do it.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;

use crate::cases::{Case, case};
use crate::expect::same;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[case!(
    "[sig-auth] SubjectReview should support SubjectReview API operations [Conformance]",
    reviews
)];

const GROUP: &str = "authorization.k8s.io/v1";

async fn reviews(scope: &Scope) -> Result<()> {
    let space = &*scope.namespace;
    let accounts = scope.own("v1", "serviceaccounts");
    let account = accounts.create(&json!({ "metadata": { "name": "mine" } })).await?;
    let uid = account["metadata"]["uid"].as_str().unwrap_or_default();
    let user = format!("system:serviceaccount:{space}:mine");
    let of_space = format!("system:serviceaccounts:{space}");
    let groups = ["system:authenticated", "system:serviceaccounts", &*of_space];

    let check = async |expected: bool| -> Result<()> {
        let attributes = json!({ "verb": "list", "resource": "configmaps", "version": "v1", "namespace": space });
        let spec =
            json!({ "resourceAttributes": attributes, "user": user, "groups": groups, "uid": uid });
        let review =
            |kind: &str| json!({ "apiVersion": GROUP, "kind": kind, "metadata": {}, "spec": spec });
        let everywhere = scope.all(GROUP, "subjectaccessreviews");
        let everywhere = everywhere.create(&review("SubjectAccessReview")).await?;
        let local = scope.own(GROUP, "localsubjectaccessreviews");
        let local = local.create(&review("LocalSubjectAccessReview")).await?;
        let mut headers = vec![("impersonate-user", &*user), ("impersonate-uid", uid)];
        headers.extend(groups.map(|it| ("impersonate-group", it)));
        let path = scope.own("v1", "configmaps").path;
        let answer = scope.send(Method::GET, &path, &headers, Vec::new()).await?;
        ensure!(
            [200, 403].contains(&answer.code),
            "as {user}: expected 200 or 403, saw {}",
            answer.code
        );
        for (what, review) in [("the review", everywhere), ("the local review", local)] {
            same(what, review["status"]["allowed"].as_bool(), Some(expected))?;
        }
        same("what happens", answer.code == 200, expected)
    };
    check(false).await?;
    let rule = json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"] });
    let metadata = json!({ "name": "reader" });
    let rbac = "rbac.authorization.k8s.io/v1";
    scope.own(rbac, "roles").create(&json!({ "metadata": metadata, "rules": [rule] })).await?;
    let binding = json!({
        "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [{ "kind": "ServiceAccount", "name": "mine", "namespace": space }],
    });
    scope.own(rbac, "rolebindings").create(&binding).await?;
    scope.until("the role counts", async || check(true).await).await
}
