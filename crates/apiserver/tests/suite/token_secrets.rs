//! Tokens that are kept in Secrets, as clients use them.

use api::core::ServiceAccount;
use authn::legacy::Signer;
use authn::tokens::Reference;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::harness::wire::{ADMIN, Connection, Site};
use crate::subresources::create;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// An account, and a token of it in the Secret `kept`.
async fn keep(site: &Site, admin: &mut Connection) -> String {
    let account = create(admin, ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let uid = account["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let signer = Signer::new(&site.harness.key).expect("a signer");
    let account = Reference { name: "robot".to_owned(), uid };
    let token = signer.sign("default", &account, "kept").expect("a token");
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let secret = json!({
        "metadata": {"name": "kept", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": BASE64.encode(&token)},
    });
    create(admin, SECRETS, &secret).await;
    token
}

/// Who the token proves its user to be, and what is warned of.
async fn whoami(site: &Site, token: &str) -> (u16, Value, Vec<String>) {
    let mut connection = site.connect(None).await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let bearer = format!("Bearer {token}");
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let (head, body) = connection.send("POST", path, &headers, &json!({})).await;
    let warnings = head.headers.get_all("warning").iter();
    let warnings = warnings.filter_map(|it| it.to_str().ok().map(str::to_owned)).collect();
    let review: Value = serde_json::from_slice(&body).expect("JSON");
    (head.status.as_u16(), review["status"]["userInfo"].clone(), warnings)
}

async fn label(admin: &mut Connection, name: &str) -> Value {
    let (_, secret) = admin.call("GET", &format!("{SECRETS}/kept"), &Value::Null).await;
    secret["metadata"]["labels"][name].clone()
}

async fn metric(admin: &mut Connection, name: &str) -> String {
    let (_, page) = admin.call("GET", "/metrics", &Value::Null).await;
    let page = page.as_str().expect("a page").to_owned();
    let line = page.lines().find(|it| it.starts_with(name) && !it.starts_with('#'));
    line.and_then(|it| it.rsplit(' ').next()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_use_is_counted_and_its_day_is_written_down() {
    let site = Site::start().await;
    let mut admin = site.connect(ADMIN).await;
    let token = keep(&site, &mut admin).await;
    let (code, user, warnings) = whoami(&site, &token).await;
    assert_eq!((code, &user["username"]), (201, &json!("system:serviceaccount:default:robot")));
    assert_eq!(
        user["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    assert_eq!(warnings, Vec::<String>::new());
    let mut day = Value::Null;
    for _ in 0..10_000 {
        day = label(&mut admin, LAST_USED).await;
        if !day.is_null() {
            break;
        }
    }
    let today = site.harness.world.clock.now().to_string();
    assert_eq!(day.as_str(), today.get(..10));
    assert_eq!(metric(&mut admin, "serviceaccount_legacy_manual_token_uses_total").await, "1");
    assert_eq!(metric(&mut admin, "serviceaccount_legacy_tokens_total").await, "1");
}

#[tokio::test]
async fn a_token_that_was_made_for_its_account_is_warned_of_and_may_be_marked_invalid() {
    let site = Site::start().await;
    let mut admin = site.connect(ADMIN).await;
    let token = keep(&site, &mut admin).await;
    let accounts = site.harness.client.api::<ServiceAccount>();
    let mut account =
        ServiceAccount::clone(&accounts.get("default", "robot").await.expect("there"));
    let reference = json!([{"name": "kept"}]);
    account.secrets = serde_json::from_value(reference).expect("references");
    accounts.update(account).await.expect("updated");
    let (code, _, warnings) = whoami(&site, &token).await;
    assert_eq!(code, 201);
    assert_eq!(
        warnings,
        [
            "299 - \"Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.\""
        ]
    );
    let mark = json!({"metadata": {"labels": {INVALID_SINCE: "2026-01-01"}}});
    let path = format!("{SECRETS}/kept");
    assert_eq!(admin.call("PATCH", &path, &mark).await.0, 200);
    assert_eq!(whoami(&site, &token).await.0, 401);
    let invalid = metric(&mut admin, "serviceaccount_invalid_legacy_auto_token_uses_total").await;
    assert_eq!(invalid, "1");
    assert_eq!(admin.call("DELETE", &path, &Value::Null).await.0, 200);
    assert_eq!(whoami(&site, &token).await.0, 401);
}
