//! Who may do what, and who is who: reviews, tokens, impersonation, and the rule that nobody grants
//! more than they hold.

use serde_json::{Value, json};

use super::subresources::{connect, create};
use crate::harness::wire::{Connection, Site, Who};

const EVE: Who<'static> = Some(("eve", &["staff"]));
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";

/// eve may read config maps in default, and write roles and bindings there.
async fn connect_with_eve() -> (Site, Connection, Connection) {
    let (site, mut admin) = connect().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "update", "patch", "get"]},
    ]);
    create(&mut admin, &roles, &json!({"metadata": {"name": "eve"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "eve"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "eve"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}],
    });
    create(&mut admin, &format!("{RBAC}/namespaces/default/rolebindings"), &binding).await;
    let eve = site.connect(EVE).await;
    (site, admin, eve)
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_have() {
    let (_site, _admin, mut eve) = connect_with_eve().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let role = |name: &str, resource: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}],
        })
    };
    let binding = |kind: &str, role: &str| {
        json!({
            "metadata": {"name": format!("to-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
        })
    };
    let apply = format!("{roles}/applied?fieldManager=eve");
    for (method, path, body, expected) in [
        ("POST", roles.as_str(), role("fine", "configmaps"), 201),
        ("POST", &roles, role("secrets", "secrets"), 403),
        ("PUT", &format!("{roles}/fine"), role("fine", "secrets"), 403),
        ("PUT", &format!("{roles}/created"), role("created", "secrets"), 403),
        ("PATCH", &format!("{roles}/fine"), json!({"rules": role("", "secrets")["rules"]}), 403),
        ("PATCH", &format!("{roles}/fine"), json!({"metadata": {"labels": {"a": "b"}}}), 200),
        ("POST", &bindings, binding("Role", "fine"), 201),
        ("POST", &bindings, binding("ClusterRole", "cluster-admin"), 403),
    ] {
        let (code, answer) = eve.call(method, path, &body).await;
        assert_eq!(code, expected, "{method} {path}: {answer}");
        if code == 403 {
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(
                message.contains("is attempting to grant RBAC permissions not currently held"),
                "{message}"
            );
        }
    }
    let headers = [("content-type", "application/apply-patch+yaml")];
    let (head, body) = eve.send("PATCH", &apply, &headers, &role("applied", "secrets")).await;
    assert_eq!(head.status, 403, "{body:?}");
}

#[tokio::test]
async fn access_reviews_answer_for_others_and_for_oneself() {
    let (_site, mut admin, mut eve) = connect_with_eve().await;
    let attributes =
        |verb: &str| json!({"verb": verb, "resource": "configmaps", "namespace": "default"});
    for (verb, expected) in [("get", true), ("delete", false)] {
        let review = json!({"spec": {"user": "eve", "resourceAttributes": attributes(verb)}});
        for path in ["subjectaccessreviews", "namespaces/default/localsubjectaccessreviews"] {
            let (code, answer) =
                admin.call("POST", &format!("{AUTHORIZATION}/{path}"), &review).await;
            assert_eq!(
                (code, &answer["status"]["allowed"]),
                (201, &json!(expected)),
                "{path} {verb}: {answer}"
            );
        }
        let review = json!({"spec": {"resourceAttributes": attributes(verb)}});
        let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
        let (code, answer) = eve.call("POST", &path, &review).await;
        assert_eq!(
            (code, &answer["status"]["allowed"]),
            (201, &json!(expected)),
            "{verb}: {answer}"
        );
    }
    let path = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/version"}}});
    let (_, answer) =
        eve.call("POST", &format!("{AUTHORIZATION}/selfsubjectaccessreviews"), &path).await;
    assert_eq!(answer["status"]["allowed"], json!(true), "{answer}");
    // Others are none of eve's business.
    let review = json!({"spec": {"user": "bob", "resourceAttributes": attributes("get")}});
    assert_eq!(
        eve.call("POST", &format!("{AUTHORIZATION}/subjectaccessreviews"), &review).await.0,
        403
    );

    let rules = json!({"spec": {"namespace": "default"}});
    let (code, answer) =
        eve.call("POST", &format!("{AUTHORIZATION}/selfsubjectrulesreviews"), &rules).await;
    let resources = answer["status"]["resourceRules"].as_array().expect("rules");
    let has = resources.iter().any(|it| {
        it["resources"] == json!(["configmaps"]) && it["verbs"] == json!(["get", "list"])
    });
    assert_eq!((code, has), (201, true), "{answer}");
}

#[tokio::test]
async fn a_token_is_issued_reviewed_and_accepted() {
    let (site, mut admin) = connect().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    for (seconds, expected) in [(json!(3600), 201), (json!(null), 201), (json!(10), 422)] {
        let request = json!({"spec": {"expirationSeconds": seconds, "audiences": []}});
        assert_eq!(admin.call("POST", path, &request).await.0, expected, "{seconds}");
    }
    let missing = "/api/v1/namespaces/default/serviceaccounts/none/token";
    assert_eq!(admin.call("POST", missing, &json!({"spec": {"audiences": []}})).await.0, 404);
    let (_, issued) = admin.call("POST", path, &json!({"spec": {"audiences": []}})).await;
    let token = issued["status"]["token"].as_str().expect("a token").to_owned();
    let name = json!("system:serviceaccount:default:default");
    for (token, expected) in [(token.as_str(), true), ("nonsense", false)] {
        let review = json!({"spec": {"token": token}});
        let (code, answer) =
            admin.call("POST", &format!("{AUTHENTICATION}/tokenreviews"), &review).await;
        let authenticated = answer["status"]["authenticated"].as_bool().unwrap_or_default();
        assert_eq!((code, authenticated), (201, expected), "{answer}");
        if expected {
            assert_eq!(answer["status"]["user"]["username"], name);
        }
    }
    let mut nobody = site.connect(None).await;
    let bearer = format!("Bearer {token}");
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let (head, body) = nobody.send("POST", &path, &[("authorization", &bearer)], &json!({})).await;
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((head.status.as_u16(), &answer["status"]["userInfo"]["username"]), (201, &name));
    let (head, _) =
        nobody.send("GET", "/api/v1/pods", &[("authorization", "Bearer x")], &Value::Null).await;
    assert_eq!(head.status, 401);
    assert_eq!(nobody.call("GET", "/api/v1/pods", &Value::Null).await.0, 403);
    assert_eq!(nobody.call("GET", "/version", &Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_question_that_is_none_is_not_answered() {
    let (_site, mut admin) = connect().await;
    for (path, expected) in [
        (
            format!("{AUTHENTICATION}/tokenreviews"),
            "token is required for TokenReview in authentication",
        ),
        (format!("{AUTHORIZATION}/selfsubjectrulesreviews"), "no namespace on request"),
    ] {
        let (code, answer) = admin.call("POST", &path, &json!({})).await;
        assert_eq!((code, &answer["message"]), (400, &json!(expected)));
    }
    let rules = json!({"spec": {"namespace": "default"}});
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let (_, answer) = admin.call("POST", &path, &rules).await;
    assert_eq!(answer["spec"], json!({}));
}

#[tokio::test]
async fn the_admin_acts_as_others_and_others_do_not() {
    let (_site, mut admin, mut eve) = connect_with_eve().await;
    let path = format!("{AUTHENTICATION}/selfsubjectreviews");
    let headers = [
        ("impersonate-user", "bob"),
        ("impersonate-group", "readers"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-scopes", "all"),
    ];
    let (head, body) = admin.send("POST", &path, &headers, &json!({})).await;
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    let user = &answer["status"]["userInfo"];
    assert_eq!(
        (head.status.as_u16(), &user["username"], &user["uid"]),
        (201, &json!("bob"), &json!("7")),
        "{answer}"
    );
    assert_eq!(user["groups"], json!(["readers", "system:authenticated"]), "{answer}");
    assert_eq!(user["extra"], json!({"scopes": ["all"]}), "{answer}");
    let maps = "/api/v1/namespaces/default/configmaps";
    for (user, expected) in [("eve", 200), ("bob", 403)] {
        let (head, _) = admin.send("GET", maps, &[("impersonate-user", user)], &Value::Null).await;
        assert_eq!(head.status, expected, "{user}");
    }
    let (head, body) = eve.send("GET", maps, &[("impersonate-user", "bob")], &Value::Null).await;
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (head.status.as_u16(), &answer["message"]),
        (
            403,
            &json!(
                "users \"bob\" is forbidden: User \"eve\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
            )
        )
    );
}

#[tokio::test]
async fn questions_that_say_too_little_or_too_much_are_refused() {
    let (_site, mut admin) = connect().await;
    let access = format!("{AUTHORIZATION}/subjectaccessreviews");
    let local = format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews");
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    for (path, body, expected) in [
        (&access, json!({"spec": {"user": "u", "resourceAttributes": attributes}}), ""),
        (&access, json!({"spec": {"user": "u"}}), "exactly one of nonResourceAttributes or"),
        (
            &access,
            json!({"metadata": {"name": "x"}, "spec": {"user": "u", "resourceAttributes": {}}}),
            "must be empty",
        ),
        (&local, json!({"spec": {"user": "u", "resourceAttributes": attributes}}), ""),
        (
            &local,
            json!({"spec": {"user": "u", "resourceAttributes": {"namespace": "other"}}}),
            "must match metadata.namespace",
        ),
    ] {
        let (code, answer) = admin.call("POST", path, &body).await;
        let text = answer["message"].as_str().unwrap_or_default();
        let is_refused = !expected.is_empty();
        assert_eq!(code, if is_refused { 422 } else { 201 }, "{answer}");
        let start = ".authorization.k8s.io \"\" is invalid: ";
        assert!(!is_refused || (text.starts_with(start) && text.contains(expected)), "{text}");
    }
}
