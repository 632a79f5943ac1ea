//! Request in, verdict out.

use api::certificates::CertificateSigningRequest;
use apimachinery::User;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;

use super::CertificateSubjectRestriction;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects};

const OF_MASTERS: &str = include_str!("request-of-masters.pem");
const OF_NODES: &str = include_str!("request-of-nodes.pem");

fn verdict(signer: &str, request: &str) -> String {
    let spec = CertificateSigningRequestSpec {
        request: ByteString(request.as_bytes().to_vec()),
        signer_name: signer.to_owned(),
        ..Default::default()
    };
    let object = CertificateSigningRequest { spec, ..Default::default() };
    let user = User::new("alice", &[]);
    let resource = "certificates.k8s.io/certificatesigningrequests";
    let case = Case { namespace: "", ..Case::of(Operation::Create, resource, &user) };
    let outcome = case.validate(&CertificateSubjectRestriction, Objects::default(), &object);
    outcome.err().map(|it| it.message().to_owned()).unwrap_or_default()
}

#[test]
fn nobody_asks_to_become_a_master() {
    let client = "kubernetes.io/kube-apiserver-client";
    let refused = |why: &str| {
        format!("certificatesigningrequests.certificates.k8s.io \"web\" is forbidden: {why}")
    };
    assert_eq!(verdict(client, OF_NODES), "");
    assert_eq!(
        verdict(client, OF_MASTERS),
        refused(
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        )
    );
    assert_eq!(
        verdict(client, "hello"),
        refused("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST")
    );
    assert_eq!(verdict("example.org/signer", OF_MASTERS), "");
}
