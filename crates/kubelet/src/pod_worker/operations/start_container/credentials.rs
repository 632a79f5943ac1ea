//! Registry credentials from a pod's imagePullSecrets. Pure.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Pod, Secret};
use node_api::images::Credentials;
use serde::Deserialize;

use crate::pod_facts::Lookups;

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    /// base64 of `user:password`; wins over both.
    #[serde(default)]
    auth: String,
}

/// In the order of the pod's secrets. What is missing or cannot be read is left out, and named.
pub(super) fn read(pod: &Pod, lookups: &Lookups) -> (Vec<Credentials>, Vec<String>) {
    let secrets = pod.spec.iter().flat_map(|it| &it.image_pull_secrets).flatten();
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for secret in secrets.filter(|it| !it.name.is_empty()) {
        match lookups.secrets.get(&secret.name) {
            Some(it) => found.extend(of_secret(it)),
            None => missing.push(secret.name.clone()),
        }
    }
    (found, missing)
}

fn of_secret(secret: &Secret) -> Vec<Credentials> {
    let content = |key: &str| secret.data.as_ref()?.get(key).map(|it| it.0.as_slice());
    let auths = if let Some(bytes) = content(".dockerconfigjson") {
        serde_json::from_slice::<DockerConfig>(bytes).map(|it| it.auths)
    } else if let Some(bytes) = content(".dockercfg") {
        serde_json::from_slice(bytes)
    } else {
        return Vec::new();
    };
    let auths: BTreeMap<String, Auth> = auths.unwrap_or_default();
    auths.into_iter().filter_map(|(registry, auth)| of_auth(&registry, auth)).collect()
}

fn of_auth(registry: &str, auth: Auth) -> Option<Credentials> {
    let (user, password) = if auth.auth.is_empty() {
        (auth.username, auth.password)
    } else {
        let decoded = String::from_utf8(STANDARD.decode(auth.auth.trim()).ok()?).ok()?;
        let (user, password) = decoded.split_once(':')?;
        (user.to_owned(), password.to_owned())
    };
    Some(Credentials { registry: Some(host(registry)), user, password })
}

/// Keys may be URLs, such as `https://index.docker.io/v1/`.
fn host(registry: &str) -> String {
    let rest = registry.strip_prefix("https://").or_else(|| registry.strip_prefix("http://"));
    let host = rest.unwrap_or(registry).split('/').next().unwrap_or_default();
    match host {
        "index.docker.io" => "docker.io".to_owned(),
        host => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::{Pod, Secret};
    use serde_json::json;

    use super::read;
    use crate::pod_facts::Lookups;

    fn check(key: &str, content: &str, expected: &[&str]) {
        let pod: Pod = serde_json::from_value(
            json!({ "spec": { "containers": [], "imagePullSecrets": [{ "name": "a" }, { "name": "b" }] } }),
        )
        .unwrap();
        let mut secret = Secret::default();
        let content = ByteString(content.as_bytes().to_vec());
        secret.data = Some([(key.to_owned(), content)].into());
        let lookups =
            Lookups { secrets: [("a".to_owned(), Arc::new(secret))].into(), ..Lookups::default() };
        let (found, missing) = read(&pod, &lookups);
        let found: Vec<String> = found
            .into_iter()
            .map(|it| format!("{}:{}@{}", it.user, it.password, it.registry.unwrap()))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(missing, ["b"]);
    }

    #[test]
    fn both_formats_are_read() {
        let auth = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"bWU6cGFzczp3b3Jk"}}}"#;
        check(".dockerconfigjson", auth, &["me:pass:word@docker.io"]);
        let plain = r#"{"localhost:5000":{"username":"u","password":"p"}}"#;
        check(".dockercfg", plain, &["u:p@localhost:5000"]);
        check(".dockerconfigjson", "no json", &[]);
        check("other", "{}", &[]);
    }
}
