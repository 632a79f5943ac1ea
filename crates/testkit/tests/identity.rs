//! Who is who, in a whole cluster under paused time: requests for certificates are approved, signed
//! and cleaned up, tokens of nodes that are to join sign what they should, and owners are held to
//! their namespace.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use apimachinery::User;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition as Condition,
};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::json;
use testkit::{Cluster, Options};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// Of the node `web`.
const REQUEST: &str = include_str!("../../api/testdata/request.pem");
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

fn options() -> Options {
    Options { seed: 7, nodes: 1 }
}

fn request(name: &str, signer: &str, usages: &[&str]) -> CertificateSigningRequest {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(REQUEST),
            "signerName": signer,
            "usages": usages,
            "expirationSeconds": 3600,
        },
    }))
    .unwrap()
}

async fn get(admin: &Client, name: &str) -> Option<CertificateSigningRequest> {
    let found = admin.api::<CertificateSigningRequest>().get("", name).await.ok()?;
    Some(CertificateSigningRequest::clone(&found))
}

/// Its conditions, with reasons, and `+` once it has a certificate.
async fn shown(admin: &Client, name: &str) -> String {
    let Some(request) = get(admin, name).await else { return "gone".to_owned() };
    let status = request.status.unwrap_or_default();
    let of = |it: &Condition| format!("{}:{}", it.type_, it.reason.as_deref().unwrap_or("-"));
    let mut texts: Vec<String> = status.conditions.iter().flatten().map(of).collect();
    texts.extend(status.certificate.map(|_| "+".to_owned()));
    texts.join(" ")
}

async fn until_shown(cluster: &Cluster, name: &str, expected: &str) {
    let is_so = async |admin: &Client| shown(admin, name).await == expected;
    assert!(cluster.until(MINUTE, is_so).await, "{name}: {}", shown(&cluster.admin, name).await);
}

async fn approve(cluster: &Cluster, name: &str) {
    let mut request = get(&cluster.admin, name).await.unwrap();
    let approved = Condition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some("ByHand".to_owned()),
        ..Condition::default()
    };
    request.status.get_or_insert_default().conditions.get_or_insert_default().push(approved);
    let api = cluster.admin.api::<CertificateSigningRequest>();
    api.update_subresource(request, "approval").await.unwrap();
}

/// What the joiners may.
fn binding(name: &str, role: &str) -> ClusterRoleBinding {
    let group = "rbac.authorization.k8s.io";
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "Group", "apiGroup": group, "name": "joiners"}],
    }))
    .unwrap()
}

#[test]
fn a_kubelet_gets_its_certificate_once_it_may_and_the_request_goes_after_an_hour() {
    run(async {
        let cluster = Cluster::start(options()).await.unwrap();
        // The right of nodes to renew is given by every cluster, that to become one by somebody.
        cluster.admin.api().create(binding("ask", "system:node-bootstrapper")).await.unwrap();
        let joiner = User::new("joiner", &["joiners", "system:authenticated"]);
        let joiner = cluster.server.client(joiner, "kubelet");
        let usages = ["digital signature", "client auth"];
        joiner.api().create(request("web", KUBELET, &usages)).await.unwrap();
        tokio::time::sleep(MINUTE).await;
        assert_eq!(shown(&cluster.admin, "web").await, "");
        let role = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
        cluster.admin.api().create(binding("join", role)).await.unwrap();
        // It is tried again, at growing intervals.
        let is_issued = async |admin: &Client| shown(admin, "web").await.ends_with('+');
        assert!(cluster.until(HOUR, is_issued).await, "{}", shown(&cluster.admin, "web").await);
        assert_eq!(shown(&cluster.admin, "web").await, "Approved:AutoApproved +");
        tokio::time::sleep(HOUR - 2 * MINUTE).await;
        assert_eq!(shown(&cluster.admin, "web").await, "Approved:AutoApproved +");
        tokio::time::sleep(3 * MINUTE).await;
        assert_eq!(shown(&cluster.admin, "web").await, "gone");
        cluster.stop().await.unwrap();
    });
}

#[test]
fn each_signer_signs_what_was_approved_and_refuses_what_it_does_not_take() {
    run(async {
        let cluster = Cluster::start(options()).await.unwrap();
        let api = cluster.admin.api::<CertificateSigningRequest>();
        let client = "kubernetes.io/kube-apiserver-client";
        api.create(request("good", client, &["client auth"])).await.unwrap();
        api.create(request("bad", client, &["server auth"])).await.unwrap();
        let serving = ["digital signature", "server auth"];
        api.create(request("nameless", "kubernetes.io/kubelet-serving", &serving)).await.unwrap();
        api.create(request("foreign", "example.org/signer", &["client auth"])).await.unwrap();
        for name in ["good", "bad", "nameless", "foreign"] {
            approve(&cluster, name).await;
        }
        until_shown(&cluster, "good", "Approved:ByHand +").await;
        let failed = "Approved:ByHand Failed:SignerValidationFailure";
        until_shown(&cluster, "bad", failed).await;
        until_shown(&cluster, "nameless", failed).await;
        until_shown(&cluster, "foreign", "Approved:ByHand").await;
        let end = api::certificates::certificate_signing_request::certificate_end;
        let good = get(&cluster.admin, "good").await.unwrap();
        let left = end(&good).unwrap().duration_since(cluster.world.clock.now());
        assert!((3500..=3600).contains(&left.as_secs()), "{left:?}");
        // Nobody signs for others; they have a day.
        tokio::time::sleep(23 * HOUR).await;
        until_shown(&cluster, "foreign", "Approved:ByHand").await;
        tokio::time::sleep(HOUR).await;
        for name in ["good", "bad", "nameless", "foreign"] {
            until_shown(&cluster, name, "gone").await;
        }
        cluster.stop().await.unwrap();
    });
}

fn admission(kind: &str, name: &str, spec: serde_json::Value) -> serde_json::Value {
    let api_version = "admissionregistration.k8s.io/v1";
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// As upstream's, which would leave a Secret alone that cannot be written.
#[test]
fn a_token_that_cannot_be_written_is_given_up_until_its_secret_changes() {
    run(async {
        let cluster = Cluster::start(options()).await.unwrap();
        let admin = &cluster.admin;
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"],
            "operations": ["UPDATE"],
        });
        // What the admin writes is a patch of annotations; the token comes by an update of data.
        let policy = json!({
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "!has(object.data)", "message": "never"}],
        });
        let policy: ValidatingAdmissionPolicy =
            serde_json::from_value(admission("ValidatingAdmissionPolicy", "never", policy))
                .unwrap();
        let binding = json!({"policyName": "never", "validationActions": ["Deny"]});
        let binding = admission("ValidatingAdmissionPolicyBinding", "never", binding);
        let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).unwrap();
        admin.api().create(policy).await.unwrap();
        admin.api().create(binding).await.unwrap();
        tokio::time::sleep(MINUTE).await;
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {
                "namespace": "default", "name": "kept",
                "annotations": {"kubernetes.io/service-account.name": "default"},
            },
            "type": "kubernetes.io/service-account-token",
        }))
        .unwrap();
        admin.api().create(secret).await.unwrap();
        let has_token = async |admin: &Client| {
            let found = admin.api::<Secret>().get("default", "kept").await.unwrap();
            found.data.as_ref().is_some_and(|it| it.contains_key("token"))
        };
        tokio::time::sleep(MINUTE).await;
        assert!(!has_token(admin).await);
        let bindings = admin.api::<ValidatingAdmissionPolicyBinding>();
        bindings.delete("", "never", DeleteOptions::default()).await.unwrap();
        // Ten retries were over long ago; an eleventh would have come by now.
        tokio::time::sleep(2 * HOUR).await;
        assert!(!has_token(admin).await);
        let touched = json!({"metadata": {"annotations": {"touched": "yes"}}}).to_string();
        let secrets = admin.api::<Secret>();
        secrets.patch("default", "kept", PatchKind::Merge, touched.into()).await.unwrap();
        assert!(cluster.until(MINUTE, has_token).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn tokens_sign_what_the_cluster_says_of_itself_until_they_end() {
    run(async {
        let on = "--controllers=*,bootstrapsigner,tokencleaner";
        let cluster = Cluster::start_with_controllers(options(), &[on]).await.unwrap();
        let admin = &cluster.admin;
        let published: ConfigMap = serde_json::from_value(json!({
            "metadata": {"namespace": "kube-public", "name": "cluster-info"},
            "data": {"kubeconfig": "kind: Config\n"},
        }))
        .unwrap();
        admin.api().create(published).await.unwrap();
        let end = cluster.world.clock.now() + jiff::SignedDuration::from_mins(10);
        let token: Secret = serde_json::from_value(json!({
            "metadata": {"namespace": "kube-system", "name": "bootstrap-token-abcdef"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef",
                "token-secret": "0123456789abcdef",
                "usage-bootstrap-signing": "true",
                "expiration": end.to_string(),
            },
        }))
        .unwrap();
        admin.api().create(token).await.unwrap();
        let n_signatures = async |admin: &Client| {
            let found = admin.api::<ConfigMap>().get("kube-public", "cluster-info").await.unwrap();
            let data = found.data.clone().unwrap_or_default();
            data.keys().filter(|it| *it == "jws-kubeconfig-abcdef").count()
        };
        assert!(cluster.until(MINUTE, async |it| n_signatures(it).await == 1).await);
        tokio::time::sleep(8 * MINUTE).await;
        assert_eq!(n_signatures(admin).await, 1);
        tokio::time::sleep(2 * MINUTE).await;
        assert!(cluster.until(MINUTE, async |it| n_signatures(it).await == 0).await);
        let secrets = admin.api::<Secret>();
        assert!(secrets.get("kube-system", "bootstrap-token-abcdef").await.is_err());
        cluster.stop().await.unwrap();
    });
}

#[test]
fn an_owner_in_another_namespace_is_none_and_an_event_says_so() {
    run(async {
        let cluster = Cluster::start(options()).await.unwrap();
        let admin = &cluster.admin;
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
        admin.api().create(namespace).await.unwrap();
        let config_map = |namespace: &str, name: &str, owners: serde_json::Value| -> ConfigMap {
            let meta = json!({"namespace": namespace, "name": name, "ownerReferences": owners});
            serde_json::from_value(json!({"metadata": meta})).unwrap()
        };
        let owner = admin.api().create(config_map("default", "owner", json!([]))).await.unwrap();
        let uid = owner.meta().uid.clone();
        let reference =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
        tokio::time::sleep(MINUTE).await;
        admin.api().create(config_map("shop", "lost", reference)).await.unwrap();
        let is_gone =
            async |admin: &Client| admin.api::<ConfigMap>().get("shop", "lost").await.is_err();
        assert!(cluster.until(MINUTE, is_gone).await);
        let events = async |admin: &Client| -> Vec<String> {
            let list = admin.api::<Event>().list("shop", ListOptions::default()).await.unwrap();
            let events = list.items.iter().map(|it| it.shared::<Event>().unwrap());
            events
                .filter(|it| it.reason.as_deref() == Some("OwnerRefInvalidNamespace"))
                .filter_map(|it| it.message.clone())
                .collect()
        };
        assert!(cluster.until(MINUTE, async |it| !events(it).await.is_empty()).await);
        let expected = format!(
            "ownerRef [v1/ConfigMap, namespace: shop, name: owner, uid: {uid}] does not exist in namespace \"shop\""
        );
        assert_eq!(events(admin).await, [expected]);
        cluster.stop().await.unwrap();
    });
}
