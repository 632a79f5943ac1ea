//! Who tokens of service accounts come from, and what is told of that.

use std::sync::Arc;

use apiserver::Config;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::harness;
use crate::harness::wire::{ADMIN, Site};
use crate::subresources::create;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// A server whose tokens come from the first of these; what a new one says, whether it lets in, and
/// what the discovery documents say.
async fn observe(
    issuers: &[&str],
    jwks_uri: Option<&str>,
) -> (Value, u16, (u16, Value), (u16, Value)) {
    let issuers: Vec<String> = issuers.iter().map(|it| (*it).to_owned()).collect();
    let config = Config {
        audiences: issuers.clone(),
        issuers,
        jwks_uri: jwks_uri.map(str::to_owned),
        ..harness::everything()
    };
    let store = Arc::new(kvstore::memory::Memory::new());
    let site = Site::start_configured(store, Vec::new(), |_, _| config).await;
    let mut admin = site.connect(ADMIN).await;
    create(&mut admin, ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let path = format!("{ACCOUNTS}/robot/token");
    let (_, request) = admin.call("POST", &path, &json!({"spec": {}})).await;
    let token = request["status"]["token"].as_str().expect("a token");
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).expect("claims")).expect("base64");
    let claims: Value = serde_json::from_slice(&claims).expect("JSON");
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let bearer = format!("Bearer {token}");
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let mut robot = site.connect(None).await;
    let (head, _) = robot.send("POST", path, &headers, &json!({})).await;
    let configuration = admin.get("/.well-known/openid-configuration", "*/*").await;
    let keys = admin.get("/openid/v1/jwks", "*/*").await;
    let said = json!({"iss": claims["iss"], "aud": claims["aud"]});
    (said, head.status.as_u16(), configuration, keys)
}

#[tokio::test]
async fn tokens_come_from_the_first_issuer_and_their_keys_are_where_it_says() {
    let (first, second) = ("https://a.example.com", "https://b.example.com");
    let (said, code, configuration, keys) = observe(&[first, second], None).await;
    assert_eq!((said, code), (json!({"iss": first, "aud": [first, second]}), 201));
    assert_eq!((configuration.0, &configuration.1["issuer"]), (200, &json!(first)));
    let uri = configuration.1["jwks_uri"].as_str().expect("a URL");
    assert!(uri.ends_with("/openid/v1/jwks"), "{uri}");
    assert_eq!(keys.0, 200);

    let elsewhere = "https://c.example.com/keys";
    let (_, _, configuration, _) = observe(&[first], Some(elsewhere)).await;
    assert_eq!(configuration.1["jwks_uri"], elsewhere);
}

#[tokio::test]
async fn of_an_issuer_that_is_no_place_nothing_is_told() {
    for issuer in ["kubernetes", "http://a.example.com", "https://a.example.com?b=c"] {
        let (said, code, configuration, keys) = observe(&[issuer], None).await;
        assert_eq!((&said["iss"], code), (&json!(issuer), 201));
        assert_eq!((configuration.0, keys.0), (404, 404), "{issuer}");
    }
}
