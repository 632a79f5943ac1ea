//! Requests for certificates that Kubernetes' own signers take: what each of them wants, in
//! upstream's words.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{
    AlternativeNames, Asked, NODE_SINCE, decisions,
};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequestCondition;

pub const KUBE_APISERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
pub const KUBE_APISERVER_CLIENT_KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
pub const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";
/// Ours: what runs on a node beside its kubelet, each as itself.
pub const NODE_COMPONENT: &str = "xebec.local/node-component";

/// Whom a node may run.
const COMPONENTS: &[&str] =
    &["system:kube-proxy", "system:serviceaccount:kube-system:coredns", "xebec:network"];
/// With the node's name behind: the group of what runs there.
const COMPONENT_GROUP_PREFIX: &str = "xebec:node:";

/// What a certificate is to say beside what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateTerms {
    /// As the API names them.
    pub usages: Vec<String>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Of a client of a node: since which revision it is that. Its end is the deletion of its Node.
    pub since: Option<u64>,
}

/// The key of an authority, wherever it is.
pub trait SignCertificate: Send + Sync {
    /// The end of the authority itself: nothing that it signs holds for longer.
    fn not_after(&self) -> Result<Timestamp, Box<dyn Error + Send + Sync>>;

    /// `request` is in DER, and its signature was checked. The certificate is PEM.
    fn sign(
        &self,
        request: &[u8],
        terms: &CertificateTerms,
    ) -> Result<String, Box<dyn Error + Send + Sync>>;
}

/// Since when the certificate that is to be signed is one of its node. What is asked for with one is
/// as old as that: nobody outlives a deletion by asking a moment before it. What is asked for with a
/// token is as old as the request.
pub(crate) fn since(request: &CertificateSigningRequest) -> Option<u64> {
    let signer = request.spec.signer_name.as_str();
    if !matches!(signer, KUBE_APISERVER_CLIENT_KUBELET | NODE_COMPONENT) {
        return None;
    }
    let of_asker = request.spec.extra.as_ref().and_then(|it| it.get(NODE_SINCE)?.first());
    let own = request.metadata.resource_version.as_ref();
    of_asker.or(own).and_then(|it| it.parse().ok())
}

/// Who signs for which signer; others are left alone.
pub type Signers = BTreeMap<&'static str, Arc<dyn SignCertificate>>;

pub(crate) const NODES: &str = "system:nodes";
pub(crate) const NODE_PREFIX: &str = "system:node:";

pub(crate) fn is_issued(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|it| it.certificate.as_ref());
    certificate.is_some_and(|it| !it.0.is_empty())
}

/// Whether there is a condition of that type, whatever it says.
pub(crate) fn has(request: &CertificateSigningRequest, type_: &str) -> bool {
    decisions(request).iter().any(|it| it.type_ == type_)
}

/// Says of a request what was decided. The server says when.
pub(crate) fn decide(
    request: &mut CertificateSigningRequest,
    decision: &str,
    reason: &str,
    message: String,
) {
    let condition = CertificateSigningRequestCondition {
        type_: decision.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        ..CertificateSigningRequestCondition::default()
    };
    let status = request.status.get_or_insert_default();
    status.conditions.get_or_insert_default().push(condition);
}

pub(crate) fn usages(request: &CertificateSigningRequest) -> &[String] {
    request.spec.usages.as_deref().unwrap_or_default()
}

/// Why the signer does not take a request, if it does not.
pub(crate) fn check(signer: &str, asked: &Asked, usages: &[String]) -> Result<(), String> {
    match signer {
        KUBE_APISERVER_CLIENT => check_client_usages(usages),
        KUBE_APISERVER_CLIENT_KUBELET => check_kubelet_client(asked, usages),
        KUBELET_SERVING => check_kubelet_serving(asked, usages),
        NODE_COMPONENT => check_node_component(asked, usages).map(|_| ()),
        // Whatever was ever asked for.
        _ => Ok(()),
    }
}

fn check_client_usages(usages: &[String]) -> Result<(), String> {
    let is_wrong = |it: &&String| {
        !matches!(it.as_str(), "digital signature" | "key encipherment" | "client auth")
    };
    if let Some(wrong) = usages.iter().find(is_wrong) {
        return Err(format!("invalid usage for client certificate: {wrong}"));
    }
    match usages.iter().any(|it| it == "client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

pub(crate) fn check_kubelet_client(asked: &Asked, usages: &[String]) -> Result<(), String> {
    check_organization(asked)?;
    let names = &asked.names;
    for (is_there, sort) in [
        (!names.dns.is_empty(), "DNS"),
        (!names.emails.is_empty(), "Email"),
        (!names.addresses.is_empty(), "IP"),
        (!names.uris.is_empty(), "URI"),
    ] {
        if is_there {
            return Err(format!("{sort} subjectAltNames are not allowed"));
        }
    }
    check_common_name(asked)?;
    check_usages(usages, "client auth")
}

/// The name of the node that the component runs on.
pub(crate) fn check_node_component<'a>(
    asked: &'a Asked,
    usages: &[String],
) -> Result<&'a str, String> {
    let node = match asked.organizations.as_slice() {
        [only] => only.strip_prefix(COMPONENT_GROUP_PREFIX).filter(|it| !it.is_empty()),
        _ => None,
    };
    let node = node.ok_or("subject organization is not xebec:node:<name>")?;
    if !COMPONENTS.contains(&asked.common_name.as_str()) {
        return Err(format!("subject common name is none of {}", COMPONENTS.join(", ")));
    }
    if asked.names != AlternativeNames::default() {
        return Err("subjectAltNames are not allowed".to_owned());
    }
    check_usages(usages, "client auth").map(|()| node)
}

pub(crate) fn check_kubelet_serving(asked: &Asked, usages: &[String]) -> Result<(), String> {
    check_organization(asked)?;
    let names = &asked.names;
    if names.dns.is_empty() && names.addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    if !names.emails.is_empty() {
        return Err("Email subjectAltNames are not allowed".to_owned());
    }
    if !names.uris.is_empty() {
        return Err("URI subjectAltNames are not allowed".to_owned());
    }
    check_usages(usages, "server auth")?;
    check_common_name(asked)
}

fn check_organization(asked: &Asked) -> Result<(), String> {
    match asked.organizations == [NODES] {
        true => Ok(()),
        false => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn check_common_name(asked: &Asked) -> Result<(), String> {
    match asked.common_name.starts_with(NODE_PREFIX) {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".to_owned()),
    }
}

/// `purpose`, digital signatures, and maybe key encipherment, which only RSA has a use for.
fn check_usages(usages: &[String], purpose: &str) -> Result<(), String> {
    let given: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let least = BTreeSet::from(["digital signature", purpose]);
    let most = BTreeSet::from(["digital signature", "key encipherment", purpose]);
    if given == least || given == most {
        return Ok(());
    }
    let most: Vec<&str> = most.into_iter().collect();
    Err(format!("usages did not match [{}]", most.join(" ")))
}
