//! Certificates of a pod's own: asked for by the kubelet, signed by somebody else, renewed in time.

use std::sync::Arc;
use std::time::Duration;

use client::ListOptions;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1beta1::PodCertificateRequest;
use node_api::PodUid;
use node_api::volumes::Volume;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use serde_json::{Value, json};

use crate::setup::{IMAGE, Setup, is_ready, run};

async fn requests(setup: &Setup) -> Vec<Arc<PodCertificateRequest>> {
    let requests = setup.admin().api::<PodCertificateRequest>();
    let list = requests.list("", ListOptions::default()).await.unwrap();
    list.items.iter().map(|it| it.shared::<PodCertificateRequest>().unwrap()).collect()
}

fn pod() -> Value {
    let source = json!({
        "signerName": "example.com/signer", "keyType": "ECDSAP256", "maxExpirationSeconds": 7200,
        "keyPath": "key.pem", "certificateChainPath": "chain.pem",
    });
    json!({
        "containers": [{ "name": "c", "image": IMAGE }],
        "volumes": [{ "name": "own", "projected": { "sources": [{ "podCertificate": source }] } }],
    })
}

/// A certificate of two hours for the key that is asked for.
fn signed(request: &PodCertificateRequest, now: Timestamp) -> Value {
    let asked = request.spec.stub_pkc_s10_request.0.clone();
    let mut asked = CertificateSigningRequestParams::from_der(&asked.into()).unwrap();
    let start = Timestamp::from_second(now.as_second()).unwrap();
    let end = start + SignedDuration::from_hours(2);
    let time = |it: Timestamp| {
        let seconds = u64::try_from(it.as_second()).unwrap();
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    (asked.params.not_before, asked.params.not_after) = (time(start), time(end));
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = Issuer::new(authority, KeyPair::generate().unwrap());
    let certificate = asked.signed_by(&issuer).unwrap().pem();
    json!({
        "conditions": [{ "type": "Issued", "status": "True", "reason": "Signed", "message": "",
            "lastTransitionTime": start.to_string() }],
        "certificateChain": format!("signed for the pod\n{certificate}"),
        "notBefore": start.to_string(), "notAfter": end.to_string(),
        "beginRefreshAt": (start + SignedDuration::from_hours(1)).to_string(),
    })
}

async fn decide(setup: &Setup, request: &PodCertificateRequest, status: Value) {
    let mut request = request.clone();
    request.status = Some(serde_json::from_value(status).unwrap());
    let requests = setup.admin().api::<PodCertificateRequest>();
    requests.update_status(request).await.unwrap();
}

#[test]
fn a_certificate_is_asked_for_mounted_and_renewed() {
    run(async {
        let setup = Setup::start().await;
        let made = setup.create("web", pod()).await;
        let uid = made.metadata.uid.clone().unwrap();
        setup.until("it is asked for", async |_| !requests(&setup).await.is_empty()).await;
        let first = requests(&setup).await.pop().unwrap();
        assert_eq!((first.spec.pod_name.as_str(), first.spec.pod_uid.as_str()), ("web", &*uid));
        assert_eq!(first.spec.signer_name, "example.com/signer");
        assert_eq!(first.spec.max_expiration_seconds, Some(7200));
        let owner = first.metadata.owner_references.as_ref().unwrap()[0].clone();
        assert_eq!((owner.kind.as_str(), owner.uid.as_str()), ("Pod", &*uid));
        setup
            .until("it is told of", async |_| {
                let events = setup.events("web").await;
                events.iter().any(|it| it.ends_with("credential bundle is not issued yet"))
            })
            .await;

        decide(&setup, &first, signed(&first, setup.cluster.world.clock.now())).await;
        setup.until_status("web", is_ready).await;
        let shown = || match setup.node.volume(&PodUid::new(&uid), "own") {
            Some(Volume::Files { files, .. }) => ["key.pem", "chain.pem"]
                .map(|it| String::from_utf8(files[it].content.to_vec()).unwrap()),
            other => panic!("{other:?}"),
        };
        let [key, chain] = shown();
        assert!(key.starts_with("-----BEGIN PRIVATE KEY-----\n"));
        // Without what stands around it.
        assert!(chain.starts_with("-----BEGIN CERTIFICATE-----\n"), "{chain}");

        // In the second hour of its life, and within five minutes.
        tokio::time::sleep(Duration::from_secs(3500)).await;
        // The first one is cleaned up a while after it was signed.
        let later = async || {
            let mut all = requests(&setup).await;
            all.retain(|it| it.metadata.name != first.metadata.name);
            all.pop()
        };
        assert_eq!(later().await, None);
        setup.until("it is asked for again", async |_| later().await.is_some()).await;
        let second = &later().await.unwrap();
        assert_eq!(shown(), [key.clone(), chain.clone()]);
        decide(&setup, second, signed(second, setup.cluster.world.clock.now())).await;
        setup.until("it is another", async |_| shown()[1] != chain).await;
        assert_ne!(shown()[0], key);
    });
}

#[test]
fn a_certificate_that_nobody_signs_keeps_the_pod_from_starting() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", pod()).await;
        setup.until("it is asked for", async |_| !requests(&setup).await.is_empty()).await;
        let request = requests(&setup).await.pop().unwrap();
        let denied = json!({ "conditions": [{ "type": "Denied", "status": "True",
            "reason": "Unknown", "message": "who is it", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
        decide(&setup, &request, denied).await;
        let end = "PodCertificateRequest was permanently denied: reason=\"Unknown\" message=\"who is it\"";
        setup
            .until("it is told of", async |_| {
                let events = setup.events("web").await;
                events.iter().any(|it| it.starts_with("FailedMount") && it.ends_with(end))
                    && events
                        .iter()
                        .any(|it| it.starts_with("Denied: PodCertificateRequest default/"))
            })
            .await;
        assert_eq!(requests(&setup).await.len(), 1, "it is not asked for again");
    });
}
