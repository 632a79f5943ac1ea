//! The ConfigMap from which servers that serve parts of the API learn whom to believe: authorities
//! of users, and proxies that speak for them. Servers over one store may have different ones: each
//! adds its own, and leaves those of others.

use std::collections::BTreeMap;
use std::time::Duration;

use api::Lookup;
use api::core::ConfigMap;
use apimachinery::{ApiError, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lifecycle::Shutdown;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::Notify;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::config::FrontProxy;
use crate::own_calls;
use crate::pipeline::Core;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// Before what could not be written is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

pub(super) fn is_it(key: &ObjectKey) -> bool {
    key.name == NAME && key.namespace == NAMESPACE
}

pub(super) async fn run(core: &Core, changed: &Notify, shutdown: Shutdown) {
    loop {
        let settled = settle(core).await;
        let is_settled = settled.is_ok();
        if let Err(err) = settled
            && !err.is_conflict()
            && !err.is_already_exists()
        {
            let error = stdx::error_chain(&err);
            tracing::warn!(error, "whom to believe is not published");
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = changed.notified() => {}
            () = tokio::time::sleep(RETRY_AFTER), if !is_settled => {}
        }
    }
}

async fn settle(core: &Core) -> Result<(), ApiError> {
    let lookup: &dyn Lookup = core.cache.as_ref();
    let found = lookup.get::<ConfigMap>(&ObjectKey::new(NAMESPACE, NAME));
    let now = core.world.clock.now();
    let data =
        wanted(found.as_ref().and_then(|it| it.data.as_ref()), &core.config.front_proxy, now);
    match found {
        None if data.is_empty() => Ok(()),
        None => {
            let metadata = ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            };
            let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            own_calls::create(core, map).await
        }
        Some(found) if found.data.as_ref() == Some(&data) => Ok(()),
        Some(found) => {
            let map = ConfigMap { data: Some(data), ..ConfigMap::clone(&found) };
            own_calls::update(core, map, None).await
        }
    }
}

type Data = BTreeMap<String, String>;

/// What it should say. What this server knows nothing of stays.
fn wanted(found: Option<&Data>, own: &FrontProxy, now: Timestamp) -> Data {
    let mut data = found.cloned().unwrap_or_default();
    if !own.client_ca_pem.is_empty() {
        add_authorities(&mut data, "client-ca-file", &own.client_ca_pem, now);
    }
    let Some(headers) = own.headers.as_ref().filter(|_| !own.proxy_ca_pem.is_empty()) else {
        return data;
    };
    add_authorities(&mut data, "requestheader-client-ca-file", &own.proxy_ca_pem, now);
    let titled = |all: &[String]| -> Vec<String> { all.iter().map(|it| title(it)).collect() };
    for (key, own) in [
        ("requestheader-allowed-names", headers.allowed_names.clone()),
        ("requestheader-username-headers", titled(&headers.username)),
        ("requestheader-uid-headers", titled(&headers.uid)),
        ("requestheader-group-headers", titled(&headers.group)),
        ("requestheader-extra-headers-prefix", titled(&headers.extra_prefix)),
    ] {
        add_names(&mut data, key, own);
    }
    data
}

/// `x-remote-user` as people write it.
fn title(name: &str) -> String {
    let words = name.split('-').map(|it| {
        let mut letters = it.chars();
        letters.next().map(|it| it.to_ascii_uppercase()).into_iter().chain(letters).collect()
    });
    words.collect::<Vec<String>>().join("-")
}

/// A list in JSON.
fn add_names(data: &mut Data, key: &str, own: Vec<String>) {
    let found = data.get(key).and_then(|it| serde_json::from_str::<Vec<String>>(it).ok());
    let mut all = found.unwrap_or_default();
    for name in own {
        if !all.iter().any(|it| it.eq_ignore_ascii_case(&name)) {
            all.push(name);
        }
    }
    data.insert(key.to_owned(), serde_json::to_string(&all).unwrap_or_default());
}

/// Each certificate once; those of others until they end.
fn add_authorities(data: &mut Data, key: &str, own: &str, now: Timestamp) {
    let mut all = blocks(own);
    let own = certificates(own);
    for block in data.get(key).map(|it| blocks(it)).unwrap_or_default() {
        let der = certificates(&block);
        let is_new = der.first().is_some_and(|it| !own.contains(it) && is_current(it, now));
        if is_new && !all.contains(&block) {
            all.push(block);
        }
    }
    data.insert(key.to_owned(), all.concat());
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect()
}

/// The PEM of each certificate.
fn blocks(pem: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let blocks = pem.split_inclusive(END).filter(|it| it.contains(END));
    blocks.map(|it| format!("{}\n", it.trim())).collect()
}

fn is_current(der: &CertificateDer<'_>, now: Timestamp) -> bool {
    X509Certificate::from_der(der)
        .is_ok_and(|(_, it)| it.validity().not_after.timestamp() >= now.as_second())
}

#[cfg(test)]
mod tests {
    use authn::RequestHeaders;
    use authn::pki::Authority;
    use stdx::Random;

    use super::*;

    fn authority(at: &str) -> String {
        let random = Random::from_seed(1);
        let authority = Authority::create("test", at.parse().unwrap(), &random).unwrap();
        authority.certificate_pem().to_owned()
    }

    #[test]
    fn each_server_adds_its_own_and_keeps_what_others_still_need() {
        let (clients, proxies) =
            (authority("2026-01-01T00:00:00Z"), authority("2026-01-02T00:00:00Z"));
        let own = FrontProxy {
            headers: Some(RequestHeaders::default()),
            client_ca_pem: clients.clone(),
            proxy_ca_pem: proxies.clone(),
            ..FrontProxy::default()
        };
        let now = "2026-06-01T00:00:00Z".parse().unwrap();
        let data = wanted(None, &own, now);
        assert_eq!(data["client-ca-file"].trim(), clients.trim());
        assert_eq!(data["requestheader-client-ca-file"].trim(), proxies.trim());
        for (key, expected) in [
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ] {
            assert_eq!(data[key], expected, "{key}");
        }
        assert_eq!(wanted(Some(&data), &own, now), data, "nothing is added twice");

        let (other, old) = (authority("2026-03-01T00:00:00Z"), authority("2010-01-01T00:00:00Z"));
        let mut theirs = Data::new();
        theirs.insert("client-ca-file".to_owned(), format!("{old}{other}"));
        theirs.insert("requestheader-allowed-names".to_owned(), r#"["theirs"]"#.to_owned());
        theirs.insert("requestheader-group-headers".to_owned(), "garbage".to_owned());
        theirs.insert("more".to_owned(), "kept".to_owned());
        let data = wanted(Some(&theirs), &own, now);
        let authorities = &data["client-ca-file"];
        let has = |it: &str| authorities.contains(it.trim());
        assert_eq!((has(&clients), has(&other), has(&old)), (true, true, false));
        assert_eq!(data["requestheader-allowed-names"], r#"["theirs","front-proxy-client"]"#);
        assert_eq!(data["requestheader-group-headers"], r#"["X-Remote-Group"]"#);
        assert_eq!(data["more"], "kept");
        assert_eq!(wanted(Some(&data), &own, now), data);
    }

    #[test]
    fn who_has_nothing_to_say_says_nothing() {
        assert!(wanted(None, &FrontProxy::default(), Timestamp::UNIX_EPOCH).is_empty());
    }
}
