//! As what a request may be approved, best first. Pure.

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{APPROVED, DENIED, asked};

use crate::certificates::{
    KUBE_APISERVER_CLIENT_KUBELET, check_kubelet_client, has, is_issued, usages,
};

/// A right that suffices, and what is said then.
#[derive(Debug, PartialEq)]
pub(super) struct Way {
    pub(super) subresource: &'static str,
    pub(super) message: &'static str,
}

/// For any node, and for the node that asks.
const WAYS: &[Way] = &[
    Way {
        subresource: "selfnodeclient",
        message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
    },
    Way {
        subresource: "nodeclient",
        message: "Auto approving kubelet client certificate after SubjectAccessReview.",
    },
];

pub(super) fn plan(request: &CertificateSigningRequest) -> &'static [Way] {
    if is_issued(request) || has(request, APPROVED) || has(request, DENIED) {
        return &[];
    }
    if request.spec.signer_name != KUBE_APISERVER_CLIENT_KUBELET {
        return &[];
    }
    let Ok(asked) = asked(&request.spec.request) else { return &[] };
    if check_kubelet_client(&asked, usages(request)).is_err() {
        return &[];
    }
    let is_own = request.spec.username.as_deref().unwrap_or_default() == asked.common_name;
    if is_own { WAYS } else { &WAYS[1..] }
}
