//! A user has the rights that it was given, and no others. The other files start from here.

use crate::control_plane::Cluster;
use crate::user::User;

#[test]
fn rights_in_a_namespace_end_there() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "namespace", "mine"]);
    let rule = r#"{apiGroups: [""], resources: [configmaps], verbs: [create, list]}"#;
    let user = User::new(&cluster, "mine", "mallory", &[rule]);
    let list = |path: &str| user.curl(path, &[]).code;
    assert_eq!(list("/api/v1/namespaces/mine/configmaps"), 200);
    assert_eq!(list("/api/v1/namespaces/mine/secrets"), 403);
    assert_eq!(list("/api/v1/namespaces/default/configmaps"), 403);
    assert_eq!(list("/api/v1/configmaps"), 403);
    let post = |namespace: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let made = user.post(&path, r#"{"metadata": {"name": "made"}}"#);
        (made.code, made.body)
    };
    assert_eq!(post("mine").0, 201);
    let (code, body) = post("default");
    assert_eq!(code, 403, "{body}");
    assert!(body.contains("system:serviceaccount:mine:mallory"), "{body}");
}
