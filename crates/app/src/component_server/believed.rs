//! Whose certificates to believe: what files say and, where they say nothing, what the cluster
//! publishes in the ConfigMap `extension-apiserver-authentication`, which is followed.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::core::ConfigMap;
use apimachinery::ApiError;
use arc_swap::ArcSwapOption;
use authn::RequestHeaders;
use authn::pki::{ChangingTrust, Trust};
use client::Client;
use informer::{EventHandler, Factory, Selection};

use super::Cluster;
use crate::request_headers::{self, Names};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Authorities, in PEM, as one source has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) clients: Option<String>,
    pub(super) proxies: Option<Proxies>,
}

/// Who may speak for others, and in which headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxies {
    pub(super) authority: String,
    pub(super) headers: RequestHeaders,
}

impl Told {
    /// What the cluster says. Without an authority nobody speaks for others, whatever else it says.
    fn parse(data: &BTreeMap<String, String>) -> Result<Self> {
        let some = |key: &str| data.get(key).filter(|it| !it.trim().is_empty()).cloned();
        let list = |key: &str| -> Result<Vec<String>> {
            let Some(text) = some(key) else { return Ok(Vec::new()) };
            serde_json::from_str(&text).with_context(|| format!("{key} is no list of names"))
        };
        let proxies = match some("requestheader-client-ca-file") {
            None => None,
            Some(authority) => {
                let headers = request_headers::read(
                    "requestheader-",
                    &Names {
                        allowed: &list("requestheader-allowed-names")?,
                        username: &list("requestheader-username-headers")?,
                        uid: &list("requestheader-uid-headers")?,
                        group: &list("requestheader-group-headers")?,
                        extra_prefix: &list("requestheader-extra-headers-prefix")?,
                    },
                )?;
                Some(Proxies { authority, headers })
            }
        };
        Ok(Self { clients: some("client-ca-file"), proxies })
    }

    /// What `self` says, and `other` of the rest.
    fn or(&self, other: Self) -> Self {
        Self {
            clients: self.clients.clone().or(other.clients),
            proxies: self.proxies.clone().or(other.proxies),
        }
    }

    fn trust(&self) -> Result<Trust> {
        let proxies = self.proxies.as_ref().map(|it| it.authority.as_str());
        Ok(Trust::of(self.clients.as_deref(), proxies)?)
    }
}

/// What holds now.
pub(super) struct Believed {
    files: Told,
    trust: Arc<ChangingTrust>,
    headers: ArcSwapOption<RequestHeaders>,
}

impl Believed {
    pub(super) fn new(files: Told) -> Result<Arc<Self>> {
        let trust = files.trust().context("reading the authorities of clients and proxies")?;
        let headers = files.proxies.as_ref().map(|it| Arc::new(it.headers.clone()));
        let headers = ArcSwapOption::new(headers);
        Ok(Arc::new(Self { files, trust: ChangingTrust::new(trust), headers }))
    }

    pub(super) fn trust(&self) -> Arc<ChangingTrust> {
        self.trust.clone()
    }

    pub(super) fn headers(&self) -> Option<Arc<RequestHeaders>> {
        self.headers.load_full()
    }

    /// A cluster that publishes nothing is one whose clients prove nothing by certificates.
    pub(super) async fn look_up(&self, client: &Client) -> Result<(), ApiError> {
        match client.api::<ConfigMap>().get(NAMESPACE, NAME).await {
            Ok(map) => self.take(&map),
            Err(err) if err.is_not_found() => {}
            Err(err) => return Err(err),
        }
        Ok(())
    }

    pub(super) fn follow(self: &Arc<Self>, client: &Client, cluster: &Cluster<'_>) {
        let tasks = cluster.tasks.child("whom-to-believe");
        let factory = Factory::new(client.clone(), cluster.world.clone(), &tasks);
        let selection = Selection {
            namespace: NAMESPACE.to_owned(),
            field_selector: format!("metadata.name={NAME}"),
        };
        factory.informer_of::<ConfigMap>(selection).add_event_handler(self.clone());
        factory.start();
    }

    /// What cannot be read changes nothing.
    fn take(&self, map: &ConfigMap) {
        let taken = Told::parse(map.data.as_ref().unwrap_or(&BTreeMap::new()))
            .and_then(|published| self.hold(&self.files.or(published)));
        if let Err(err) = taken {
            let error = format!("{err:#}");
            tracing::warn!(error, "what the cluster says of whom to believe cannot be used");
        }
    }

    fn hold(&self, told: &Told) -> Result<()> {
        self.trust.replace(told.trust()?);
        self.headers.store(told.proxies.as_ref().map(|it| Arc::new(it.headers.clone())));
        Ok(())
    }
}

impl EventHandler<ConfigMap> for Believed {
    fn on_add(&self, map: &Arc<ConfigMap>, _is_initial: bool) {
        self.take(map);
    }

    fn on_update(&self, _old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
        self.take(new);
    }

    /// What it said holds until it says something else.
    fn on_delete(&self, _last: &Arc<ConfigMap>) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::core::ConfigMap;
    use authn::RequestHeaders;
    use authn::pki::Authority;
    use jiff::Timestamp;
    use stdx::Random;

    use super::{Believed, Proxies, Told};

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn authority(name: &str) -> String {
        let authority = Authority::create(name, Timestamp::now(), &Random::from_seed(1)).unwrap();
        authority.certificate_pem().to_owned()
    }

    #[test]
    fn what_a_cluster_publishes_is_read() {
        let told = Told::parse(&map(&[
            ("client-ca-file", "CA"),
            ("requestheader-client-ca-file", "PROXY CA"),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ]));
        let proxies =
            Proxies { authority: "PROXY CA".to_owned(), headers: RequestHeaders::default() };
        let expected = Told { clients: Some("CA".to_owned()), proxies: Some(proxies) };
        assert_eq!(told.unwrap(), expected);
        let none = [("requestheader-username-headers", "[]"), ("client-ca-file", " ")];
        assert_eq!(Told::parse(&map(&none)).unwrap(), Told::default());
        let garbage =
            [("requestheader-client-ca-file", "CA"), ("requestheader-group-headers", "{}")];
        let said = format!("{:#}", Told::parse(&map(&garbage)).unwrap_err());
        assert!(said.starts_with("requestheader-group-headers is no list of names"), "{said}");
    }

    #[test]
    fn files_count_above_the_cluster_and_garbage_changes_nothing() {
        let (own, theirs) = (authority("own"), authority("theirs"));
        let files = Told { clients: Some(own.clone()), proxies: None };
        let believed = Believed::new(files.clone()).unwrap();
        assert!(believed.headers().is_none());
        let published = [("client-ca-file", &*theirs), ("requestheader-client-ca-file", &*theirs)];
        let told = files.or(Told::parse(&map(&published)).unwrap());
        assert_eq!(told.clients.as_deref(), Some(&*own));
        let take = |pairs: &[(&str, &str)]| {
            believed.take(&ConfigMap { data: Some(map(pairs)), ..ConfigMap::default() });
            believed.headers().map(|it| it.username.clone())
        };
        let with = |names| [published[1], ("requestheader-username-headers", names)];
        assert_eq!(take(&with(r#"["X-A"]"#)), Some(vec!["x-a".to_owned()]));
        assert_eq!(take(&with("garbage")), Some(vec!["x-a".to_owned()]));
        let no_authority = [("requestheader-client-ca-file", "garbage")];
        assert_eq!(take(&no_authority), Some(vec!["x-a".to_owned()]));
        assert_eq!(take(&[]), None);
    }
}
