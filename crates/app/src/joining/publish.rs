//! What a cluster that takes nodes has for them: `kube-public/cluster-info`, readable by everybody, what
//! nodes have to know, and bootstrap tokens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::Resource;
use apimachinery::ApiError;
use authn::bootstrap::BootstrapToken;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::Client;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stdx::Random;

use super::Facts;

const PUBLIC: &str = "kube-public";
const CLUSTER_INFO: &str = "cluster-info";
/// Role and binding have one name.
const ROLE: &str = "xebec:bootstrap-signer-clusterinfo";
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// Makes, or brings up to date, what machines read before and while they join. `server` is where they
/// reach this cluster.
pub(crate) async fn publish(
    client: &Client,
    server: &str,
    ca_pem: &str,
    facts: &Facts,
) -> Result<()> {
    put_config_map(client, cluster_info(server, ca_pem))
        .await
        .context("publishing cluster-info")?;
    put_config_map(client, facts.config_map()?)
        .await
        .context("publishing what nodes have to know")?;
    let (role, binding) = everybody_reads_cluster_info();
    ensure(client, role).await.context("letting everybody read cluster-info")?;
    ensure(client, binding).await.context("letting everybody read cluster-info")
}

/// Data that others put there, such as signatures, stays until what was signed is another.
async fn put_config_map(client: &Client, wanted: ConfigMap) -> Result<(), ApiError> {
    let maps = client.api::<ConfigMap>();
    let namespace = wanted.metadata.namespace.clone().unwrap_or_default();
    let name = wanted.metadata.name.clone().unwrap_or_default();
    match maps.get(&namespace, &name).await {
        Ok(known) => {
            let mut changed = Arc::unwrap_or_clone(known.clone());
            let data = changed.data.get_or_insert_default();
            data.extend(wanted.data.unwrap_or_default());
            if changed != *known {
                maps.update(changed).await?;
            }
            Ok(())
        }
        Err(err) if err.is_not_found() => maps.create(wanted).await.map(|_| ()),
        Err(err) => Err(err),
    }
}

/// One that is there is somebody's, who may have changed it.
async fn ensure<T: Resource>(client: &Client, wanted: T) -> Result<(), ApiError> {
    match client.api::<T>().create(wanted).await {
        Err(err) if !err.is_already_exists() => Err(err),
        _ => Ok(()),
    }
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    }
}

/// A kubeconfig without a user: where the cluster is, and whom to believe.
fn cluster_info(server: &str, ca_pem: &str) -> ConfigMap {
    let ca = STANDARD.encode(ca_pem);
    let kubeconfig = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {ca}\n    server: {server}\n  name: \"\"\n\
         contexts: null\ncurrent-context: \"\"\nkind: Config\nusers: null\n"
    );
    ConfigMap {
        metadata: metadata(PUBLIC, CLUSTER_INFO),
        data: Some(BTreeMap::from([("kubeconfig".to_owned(), kubeconfig)])),
        ..ConfigMap::default()
    }
}

fn everybody_reads_cluster_info() -> (Role, RoleBinding) {
    let role = Role {
        metadata: metadata(PUBLIC, ROLE),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            resource_names: Some(vec![CLUSTER_INFO.to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        }]),
    };
    let group = "rbac.authorization.k8s.io";
    let binding = RoleBinding {
        metadata: metadata(PUBLIC, ROLE),
        role_ref: RoleRef {
            api_group: Some(group.to_owned()),
            kind: "Role".to_owned(),
            name: ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(group.to_owned()),
            kind: "User".to_owned(),
            name: "system:anonymous".to_owned(),
            namespace: None,
        }]),
    };
    (role, binding)
}

/// What a token is to be.
#[derive(Clone, Debug)]
pub(crate) struct NewToken {
    /// `None`: one that nobody can guess.
    pub(crate) token: Option<BootstrapToken>,
    /// `None`: it does not end.
    pub(crate) ttl: Option<Duration>,
    pub(crate) description: String,
    /// `signing`, `authentication`
    pub(crate) usages: Vec<String>,
    pub(crate) groups: Vec<String>,
}

impl NewToken {
    pub(crate) fn for_a_day(description: &str) -> Self {
        Self {
            token: None,
            ttl: Some(Duration::from_secs(24 * 3600)),
            description: description.to_owned(),
            usages: vec!["signing".to_owned(), "authentication".to_owned()],
            groups: Vec::new(),
        }
    }
}

pub(crate) async fn create_token(
    client: &Client,
    new: &NewToken,
    now: Timestamp,
    random: &Random,
) -> Result<BootstrapToken> {
    let token = match &new.token {
        Some(token) => token.clone(),
        None => BootstrapToken { id: letters(6, random), secret: letters(16, random) },
    };
    let key = token.key();
    let mut data = BTreeMap::from([
        ("token-id".to_owned(), token.id.clone()),
        ("token-secret".to_owned(), token.secret.clone()),
    ]);
    if let Some(ttl) = new.ttl {
        let ttl = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
        let end = now.checked_add(ttl).context("--ttl: that is too long")?;
        let end = Timestamp::from_second(end.as_second()).unwrap_or(end);
        data.insert("expiration".to_owned(), end.to_string());
    }
    if !new.description.is_empty() {
        data.insert("description".to_owned(), new.description.clone());
    }
    for usage in &new.usages {
        data.insert(format!("usage-bootstrap-{usage}"), "true".to_owned());
    }
    if !new.groups.is_empty() {
        data.insert("auth-extra-groups".to_owned(), new.groups.join(","));
    }
    let secret = Secret {
        metadata: metadata(&key.namespace, &key.name),
        type_: Some("bootstrap.kubernetes.io/token".to_owned()),
        string_data: Some(data),
        ..Secret::default()
    };
    let created = client.api::<Secret>().create(secret).await;
    created.with_context(|| format!("creating the token {}", token.id))?;
    Ok(token)
}

/// Each as likely as the others.
fn letters(count: usize, random: &Random) -> String {
    let letter = || usize::try_from(random.below(LETTERS.len() as u64)).unwrap_or_default();
    (0..count).map(|_| char::from(LETTERS[letter()])).collect()
}

#[cfg(test)]
mod tests {
    use authn::bootstrap::BootstrapToken;
    use stdx::Random;

    use super::letters;

    #[test]
    fn a_token_that_is_made_has_the_form_of_one() {
        let random = Random::from_seed(1);
        for _ in 0..100 {
            let text = format!("{}.{}", letters(6, &random), letters(16, &random));
            assert!(BootstrapToken::parse(&text).is_some(), "{text}");
        }
    }
}
