//! Whom a machine believes that knows nobody yet: it asks whoever answers for `cluster-info`, and takes
//! of it what the token signed and the pin names; only then it believes the authority.

use std::collections::BTreeMap;
use std::time::Duration;

use authn::{cluster_info, pki};
use base64::Engine as _;
use client::kubeconfig::{self, Source};
use client::{Fetched, fetch_unverified};
use jiff::Timestamp;
use serde::Deserialize;
use stdx::World;

use super::refusal::{CLOCK_SKEW_MAX_MINUTES, Refusal};
use super::{JoinToken, Place};

const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const KUBECONFIG: &str = "kubeconfig";
/// The controller signs a moment after the token was made.
const SIGNATURE_TRIES: usize = 6;
const SIGNATURE_WAIT: Duration = Duration::from_millis(500);

/// Of a cluster that is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discovered {
    pub(crate) ca_pem: String,
    /// Where the cluster says that it is.
    pub(crate) server: String,
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

pub(crate) async fn discover(
    place: &Place,
    token: &JoinToken,
    world: &World,
) -> Result<Discovered, Refusal> {
    let mut tries_left = SIGNATURE_TRIES;
    loop {
        tries_left -= 1;
        let fetched = fetch_unverified(&place.host, place.port, PATH).await;
        let fetched =
            fetched.map_err(|source| Refusal::Unreachable { place: place.clone(), source })?;
        match judge(place, token, &fetched, world.clock.now()) {
            Err(Refusal::UnknownToken { .. }) if tries_left > 0 => {
                tokio::time::sleep(SIGNATURE_WAIT).await;
            }
            judged => return judged,
        }
    }
}

fn judge(
    place: &Place,
    token: &JoinToken,
    fetched: &Fetched,
    now: Timestamp,
) -> Result<Discovered, Refusal> {
    check_clock(place, fetched.date, now)?;
    if fetched.status != 200 {
        return Err(Refusal::NoClusterInfo(place.clone(), fetched.status));
    }
    let unreadable = |why: String| Refusal::Unreadable(place.clone(), why);
    let info: ConfigMap =
        serde_json::from_slice(&fetched.body).map_err(|err| unreadable(err.to_string()))?;
    let text = info.data.get(KUBECONFIG).map(String::as_str).unwrap_or_default();
    // Whoever has another authority is another cluster, whatever it knows of tokens.
    let known = read(text).map_err(unreadable)?;
    check_pin(place, token, &known.ca_pem)?;
    let id = &token.bootstrap.id;
    let signature = info.data.get(&format!("{}{id}", cluster_info::SIGNATURE_PREFIX));
    let signature =
        signature.ok_or_else(|| Refusal::UnknownToken { place: place.clone(), id: id.clone() })?;
    cluster_info::verify(text, signature, &token.bootstrap)
        .map_err(|err| Refusal::Signature(place.clone(), err))?;
    Ok(known)
}

fn read(text: &str) -> Result<Discovered, String> {
    if let Ok(context) = kubeconfig::pick(text, None) {
        let Some(Source::Inline(ca)) = context.ca else {
            return Err("its kubeconfig has no certificate-authority-data".to_owned());
        };
        let ca_pem = String::from_utf8(ca).map_err(|err| err.to_string())?;
        return Ok(Discovered { ca_pem, server: context.server });
    }
    // As kubeadm writes it: one cluster, no user and no context.
    let config: Anonymous =
        serde_saphyr::from_str(text).map_err(|err| format!("its kubeconfig: {err}"))?;
    let [Named { cluster }] = &config.clusters[..] else {
        return Err("its kubeconfig names not one cluster".to_owned());
    };
    let ca = base64::engine::general_purpose::STANDARD.decode(&cluster.ca);
    let ca_pem = String::from_utf8(ca.map_err(|err| err.to_string())?);
    Ok(Discovered {
        ca_pem: ca_pem.map_err(|err| err.to_string())?,
        server: cluster.server.clone(),
    })
}

#[derive(Deserialize)]
struct Anonymous {
    clusters: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    cluster: Cluster,
}

#[derive(Deserialize)]
struct Cluster {
    server: String,
    #[serde(rename = "certificate-authority-data")]
    ca: String,
}

fn check_pin(place: &Place, token: &JoinToken, ca_pem: &str) -> Result<(), Refusal> {
    let expected = token.pin.clone().ok_or(Refusal::NoPin)?;
    let unreadable = |err: pki::Error| Refusal::Unreadable(place.clone(), err.to_string());
    let found = pki::pin(ca_pem).map_err(unreadable)?;
    let other = || Refusal::OtherAuthority {
        place: place.clone(),
        found: found.clone(),
        expected: expected.clone(),
    };
    (found == expected).then_some(()).ok_or_else(other)
}

fn check_clock(place: &Place, date: Option<Timestamp>, now: Timestamp) -> Result<(), Refusal> {
    let Some(date) = date else { return Ok(()) };
    let ahead = now.duration_since(date).as_secs() / 60;
    if ahead.abs() <= CLOCK_SKEW_MAX_MINUTES {
        return Ok(());
    }
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    Err(Refusal::Clock { place: place.clone(), minutes: ahead.abs(), direction })
}

#[cfg(test)]
mod tests {
    use authn::bootstrap::BootstrapToken;
    use authn::pki::{Authority, pin};
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use client::Fetched;
    use jiff::Timestamp;
    use serde_json::json;
    use stdx::Random;

    use super::judge;
    use crate::joining::{JoinToken, Place};

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    struct Case {
        authority: Authority,
        token: JoinToken,
    }

    impl Case {
        fn new() -> Self {
            let authority = Authority::create("a", now(), &Random::from_seed(1)).unwrap();
            let bootstrap = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
            let pin = Some(pin(authority.certificate_pem()).unwrap());
            Self { authority, token: JoinToken { bootstrap, pin } }
        }

        fn kubeconfig(&self, server: &str) -> String {
            let ca = STANDARD.encode(self.authority.certificate_pem());
            format!(
                "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n    server: {server}\n    certificate-authority-data: {ca}\n"
            )
        }

        fn judge(&self, status: u16, date: &str, data: &serde_json::Value) -> String {
            let place = Place::parse("192.0.2.1").unwrap();
            let body = json!({"data": data}).to_string().into();
            let fetched = Fetched { status, date: date.parse().ok(), body };
            match judge(&place, &self.token, &fetched, now()) {
                Ok(found) => found.server,
                Err(err) => err.to_string(),
            }
        }
    }

    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn what_is_not_signed_and_pinned_is_not_believed() {
        let case = Case::new();
        let check = |found: &str, expected: &str| assert!(found.contains(expected), "{found}");
        let text = case.kubeconfig("https://192.0.2.1:6443");
        // The signature of another text, by the same token.
        let stale = json!({"kubeconfig": text, "jws-kubeconfig-abcdef": "e30..e30"});
        check(&case.judge(200, NOW, &stale), "is not signed by whoever made the token");
        let unsigned = json!({"kubeconfig": text, "jws-kubeconfig-abcdee": "e30..e30"});
        check(&case.judge(200, NOW, &unsigned), "does not know the token abcdef");
        let other = Case { token: Case::new().token, ..Case::new() };
        check(&other.judge(200, NOW, &unsigned), "of another cluster than the token");
        let mut bare = Case::new();
        bare.token.pin = None;
        check(&bare.judge(200, NOW, &unsigned), "the token has no pin");
        check(&case.judge(403, NOW, &json!({})), "takes no nodes");
        check(&case.judge(200, NOW, &json!({})), "cannot be read");
    }

    #[test]
    fn clocks_that_differ_are_named_with_how_much() {
        let case = Case::new();
        let check = |date: &str, expected: &str| {
            let found = case.judge(403, date, &json!({}));
            assert!(found.contains(expected), "{date}: {found}");
        };
        check("2026-01-01T00:05:59Z", "takes no nodes");
        check("", "takes no nodes");
        check("2026-01-01T00:20:00Z", "clock is 20 minutes behind the one of 192.0.2.1:6443");
        check("2025-12-31T23:00:00Z", "clock is 60 minutes ahead of the one");
    }
}
