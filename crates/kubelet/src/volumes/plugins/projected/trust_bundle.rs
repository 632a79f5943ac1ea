//! Whom to trust, from ClusterTrustBundles: one by its name, or those of a signer that have certain
//! labels. Each certificate is there once, whatever stands around it in the bundles.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::certificates::cluster_trust_bundle::anchors;
use api::certificates::{ClusterTrustBundle, pem};
use apimachinery::selector::Labels;
use bytes::Bytes;
use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;

use super::Error;
use crate::pod_facts::PodFacts;

/// Of all certificates of one source. A bundle has a mebibyte at the most, and there may be many.
const SIZE_MAX: usize = 4 << 20;

/// As PEM. What is missing and optional is an empty file.
pub(super) fn content(
    source: &ClusterTrustBundleProjection,
    facts: &PodFacts,
) -> Result<Bytes, Error> {
    let bundles = match &facts.lookups.trust_bundles {
        Some(Ok(bundles)) => bundles,
        Some(Err(problem)) => return Err(Error::TrustBundles(problem.clone())),
        None => return Err(Error::TrustBundlesOff),
    };
    let chosen = chosen(source, bundles)?;
    if chosen.is_empty() && source.optional != Some(true) {
        return Err(match &source.name {
            Some(name) => Error::TrustBundleNotFound { name: name.clone() },
            None => Error::NoTrustBundles,
        });
    }
    let certificates: BTreeSet<Vec<u8>> = chosen.into_iter().flat_map(anchors).collect();
    let text: String = certificates.iter().map(|it| pem::render("CERTIFICATE", it)).collect();
    match text.len() <= SIZE_MAX {
        true => Ok(text.into()),
        false => Err(Error::TrustBundlesTooLarge { limit: SIZE_MAX }),
    }
}

fn chosen<'a>(
    source: &ClusterTrustBundleProjection,
    bundles: &'a [Arc<ClusterTrustBundle>],
) -> Result<Vec<&'a ClusterTrustBundle>, Error> {
    let bundles = bundles.iter().map(AsRef::as_ref);
    if let Some(name) = &source.name {
        return Ok(bundles.filter(|it| it.metadata.name.as_ref() == Some(name)).collect());
    }
    let Some(signer) = &source.signer_name else { return Err(Error::TrustBundleUnnamed) };
    // Without a selector nothing is chosen; an empty one chooses everything.
    let selector = Labels::from_selector(source.label_selector.as_ref());
    let selector = selector.map_err(|err| Error::TrustBundleSelector(err.to_string()))?;
    let is_chosen = |it: &&ClusterTrustBundle| {
        let labels = it.metadata.labels.clone().unwrap_or_default();
        it.spec.signer_name.as_ref() == Some(signer) && selector.matches(&labels)
    };
    Ok(bundles.filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::content;
    use crate::container_config::tests::{facts, object};

    /// A bundle of two blocks that are no real certificates: what they are is the server's to check.
    fn bundle(name: &str, signer: Value, labels: Value, blocks: &[&str]) -> Value {
        let blocks = blocks.iter().map(|it| {
            format!("-----BEGIN CERTIFICATE-----\n{it}\n-----END CERTIFICATE-----\nfor whom\n")
        });
        let bundle = json!({ "trustBundle": blocks.collect::<String>(), "signerName": signer });
        json!({ "metadata": { "name": name, "labels": labels }, "spec": bundle })
    }

    /// The blocks of the file, or the error.
    fn check(source: Value, expected: &str) {
        let mut facts = facts();
        let signer = || json!("a.io/b");
        let bundles = [
            bundle("plain", Value::Null, json!({}), &["YQ==", "Yg==", "YQ=="]),
            bundle("a.io:b:one", signer(), json!({ "live": "yes" }), &["Yw==", "YQ=="]),
            bundle("a.io:b:two", signer(), json!({ "live": "no" }), &["ZA=="]),
        ];
        facts.lookups.trust_bundles = Some(Ok(bundles.map(object).into()));
        let mut source = source;
        source["path"] = json!("ca.pem");
        let shown = match content(&object(source), &facts) {
            Err(err) => format!("error: {err}"),
            Ok(content) => {
                let text = String::from_utf8(content.to_vec()).unwrap();
                let body = text.lines().filter(|it| !it.starts_with("-----"));
                body.collect::<Vec<_>>().join(" ")
            }
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_bundle_is_found_by_its_name_and_each_certificate_is_there_once() {
        check(json!({ "name": "plain" }), "YQ== Yg==");
        check(
            json!({ "name": "none" }),
            "error: while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"none\" not found",
        );
        check(json!({ "name": "none", "optional": true }), "");
    }

    #[test]
    fn bundles_of_a_signer_are_chosen_by_labels_and_joined() {
        let of = |selector: Value| json!({ "signerName": "a.io/b", "labelSelector": selector });
        check(of(json!({})), "YQ== Yw== ZA==");
        check(of(json!({ "matchLabels": { "live": "yes" } })), "YQ== Yw==");
        let none =
            "error: combination of signerName and labelSelector matched zero ClusterTrustBundles";
        check(of(json!({ "matchLabels": { "live": "x" } })), none);
        check(json!({ "signerName": "a.io/b" }), none);
        check(json!({ "signerName": "a.io/b", "optional": true }), "");
        check(
            json!({}),
            "error: ClusterTrustBundle projection requires either name or signerName to be set",
        );
    }

    #[test]
    fn a_kubelet_without_them_says_so() {
        let source = object(json!({ "name": "plain", "path": "ca.pem" }));
        let mut facts = facts();
        let shown = |facts: &_| content(&source, facts).unwrap_err().to_string();
        assert_eq!(
            shown(&facts),
            "ClusterTrustBundle projection is not supported in static kubelet mode"
        );
        facts.lookups.trust_bundles = Some(Err("not served".to_owned()));
        assert_eq!(
            shown(&facts),
            "failed to ensure informer manager for ClusterTrustBundles: not served"
        );
    }
}
