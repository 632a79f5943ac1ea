//! A field selector stands in for a name where it selects, and nowhere else.

use crate::control_plane::Cluster;
use crate::user::User;

#[test]
fn a_right_to_one_name_reaches_no_other() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    cluster.ok(&["create", "configmap", "own", "-n", "mine"]);
    cluster.ok(&["create", "configmap", "other", "-n", "mine", "--from-literal=word=hidden"]);
    let rule = r#"{apiGroups: [""], resources: [configmaps], resourceNames: [own],
        verbs: [create, delete, deletecollection, get, list, patch, update, watch]}"#;
    let user = User::new(&cluster, "mine", "one", &[rule]);
    let maps = "/api/v1/namespaces/mine/configmaps";
    let selects = "fieldSelector=metadata.name=own";
    let ask = |path: &str, method: &str, kind: &str, body: &str| {
        user.curl(path, &["-X", method, "-H", &format!("Content-Type: {kind}"), "-d", body]).code
    };
    let (json, merge) = ("application/json", "application/merge-patch+json");
    let body = r#"{"metadata": {"name": "new"}}"#;
    assert_eq!(user.curl(&format!("{maps}/own"), &[]).code, 200);
    assert_eq!(user.curl(&format!("{maps}?{selects}"), &[]).code, 200);
    assert_eq!(user.curl(&format!("{maps}?{selects}&watch=true&timeoutSeconds=1"), &[]).code, 200);
    for path in
        ["/other?", "?", "?fieldSelector=metadata.name=other&", "?fieldSelector=metadata.name!=x&"]
    {
        let answer = user.curl(&format!("{maps}{path}"), &[]);
        assert_eq!(answer.code, 403, "{path}: {answer:?}");
        assert!(!answer.body.contains("hidden"), "{path}: {answer:?}");
    }
    // What does not select is not believed.
    assert_eq!(user.curl(&format!("{maps}/other?{selects}"), &[]).code, 403);
    assert_eq!(ask(&format!("{maps}?{selects}"), "POST", json, body), 403);
    assert_eq!(
        ask(&format!("{maps}/other?{selects}"), "PUT", json, r#"{"metadata": {"name": "other"}}"#),
        403
    );
    assert_eq!(
        ask(&format!("{maps}/other?{selects}"), "PATCH", merge, r#"{"data": {"a": "b"}}"#),
        403
    );
    assert_eq!(ask(&format!("{maps}/other?{selects}"), "DELETE", json, "{}"), 403);
    assert_eq!(ask(&format!("{maps}?{selects}"), "DELETE", json, "{}"), 403);
    assert_eq!(
        cluster.json(&["get", "configmap", "other", "-n", "mine"])["data"]["word"],
        "hidden"
    );
}
