//! ServiceAccounts: objects, their tokens, what pods get of them, and the authority's certificate.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::expect::{refused, same, shows};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-auth] ServiceAccounts should allow opting out of API token automount [Conformance]",
        mounts
    ),
    case!(
        "[sig-auth] ServiceAccounts should create a serviceAccountToken and ensure a successful TokenReview [Conformance]",
        tokens
    ),
    case!(
        "[sig-auth] ServiceAccounts should guarantee kube-root-ca.crt exist in any namespace [Conformance]",
        authority
    ),
    case!(
        "[sig-auth] ServiceAccounts should run through the lifecycle of a ServiceAccount [Conformance]",
        lifecycle
    ),
    case!("[sig-auth] ServiceAccounts should update a ServiceAccount [Conformance]", replace),
];

async fn lifecycle(scope: &Scope) -> Result<()> {
    let accounts = Operations {
        group_version: "v1",
        resource: "serviceaccounts",
        kind: "ServiceAccount",
        is_namespaced: true,
        object: json!({ "automountServiceAccountToken": true }),
        change: json!({ "automountServiceAccountToken": false }),
        status: None,
        names: None,
    };
    accounts.check(scope).await
}

async fn replace(scope: &Scope) -> Result<()> {
    let accounts = scope.own("v1", "serviceaccounts");
    let object = json!({ "metadata": { "name": "mine" }, "automountServiceAccountToken": false });
    shows(&accounts.create(&object).await?, &object)?;
    let automount = json!({ "automountServiceAccountToken": true });
    let replaced = accounts
        .change("mine", None, |it| it["automountServiceAccountToken"] = json!(true))
        .await?;
    shows(&replaced, &automount)?;
    shows(&accounts.get("mine").await?, &automount)
}

async fn mounts(scope: &Scope) -> Result<()> {
    let accounts = scope.own("v1", "serviceaccounts");
    for (name, automount) in [("mount", true), ("no-mount", false)] {
        let metadata = json!({ "name": name });
        let object = json!({ "metadata": metadata, "automountServiceAccountToken": automount });
        accounts.create(&object).await?;
    }
    // The account, what the pod says, and whether there is a token then: the pod has the last word.
    let table = [
        ("default", None, true),
        ("mount", None, true),
        ("no-mount", None, false),
        ("default", Some(true), true),
        ("mount", Some(true), true),
        ("no-mount", Some(true), true),
        ("default", Some(false), false),
        ("mount", Some(false), false),
        ("no-mount", Some(false), false),
    ];
    for (number, (account, says, expected)) in table.into_iter().enumerate() {
        let mut pod = pods::idle(&format!("pod-{number}"));
        pod["spec"]["serviceAccountName"] = json!(account);
        if let Some(says) = says {
            pod["spec"]["automountServiceAccountToken"] = json!(says);
        }
        let made = scope.own("v1", "pods").create(&pod).await?;
        let mounts = made["spec"]["containers"][0]["volumeMounts"].as_array();
        let is_token =
            |it: &Value| it["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount";
        let seen = mounts.is_some_and(|it| it.iter().any(is_token));
        same(&format!("a token with {account}, where the pod says {says:?}"), seen, expected)?;
    }
    Ok(())
}

async fn tokens(scope: &Scope) -> Result<()> {
    let accounts = scope.own("v1", "serviceaccounts");
    let account = accounts.create(&json!({ "metadata": { "name": "mine" } })).await?;
    let request =
        json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {} });
    let answer = accounts.create_part("mine", "token", &request).await?;
    let token = answer["status"]["token"].as_str().unwrap_or_default().to_owned();
    ensure!(!token.is_empty(), "expected a token, saw {answer}");
    ensure!(answer["status"]["expirationTimestamp"].is_string(), "saw {answer}");

    let reviews = scope.all("authentication.k8s.io/v1", "tokenreviews");
    let review = |token: &str| {
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token },
        })
    };
    let reviewed = reviews.create(&review(&token)).await?;
    let username = format!("system:serviceaccount:{}:mine", scope.namespace);
    let user = json!({ "username": username, "uid": account["metadata"]["uid"] });
    shows(&reviewed, &json!({ "status": { "authenticated": true, "user": user, "error": null } }))?;
    let spoiled = reviews.create(&review(&format!("{token}x"))).await?;
    same("a spoiled token", spoiled["status"]["authenticated"] == json!(true), false)?;

    // And it opens the door.
    let bearer = format!("Bearer {token}");
    let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = scope.send(Method::POST, path, &headers, body.to_string().into_bytes()).await?;
    same("code for whoever has the token", answer.code, 201)
}

async fn authority(scope: &Scope) -> Result<()> {
    let maps = scope.own("v1", "configmaps");
    let name = "kube-root-ca.crt";
    let until_there = async |what: &str, not: &Value| -> Result<Value> {
        scope
            .until(what, async || {
                let map = maps.get(name).await?;
                let text = map["data"]["ca.crt"].as_str().unwrap_or_default();
                ensure!(text.contains("BEGIN CERTIFICATE"), "ca.crt: saw {text:?}");
                ensure!(map["metadata"]["uid"] != *not, "still the same");
                Ok(map)
            })
            .await
    };
    let first = until_there("the certificate is there", &Value::Null).await?;
    maps.delete(name).await?;
    let second = until_there("it is made again", &first["metadata"]["uid"]).await?;
    same("data", &second["data"], &first["data"])?;
    let spoiled = json!({ "metadata": { "name": name }, "data": { "ca.crt": "" } });
    maps.replace(&spoiled).await?;
    let third = until_there("it is put right", &Value::Null).await?;
    same("data", &third["data"], &first["data"])?;
    refused("a map of that name", maps.create(&spoiled).await, 409).map(drop)
}
