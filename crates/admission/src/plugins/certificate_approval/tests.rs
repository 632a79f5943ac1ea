//! Request and permission in, verdict out.

use api::certificates::CertificateSigningRequest;
use apimachinery::User;
use serde_json::json;

use super::CertificateApproval;
use crate::attributes::Operation;
use crate::authorizer::Authorizer;
use crate::chain::{Phase, Plugin as _};
use crate::plugins::fixture::{Case, Nobody, Objects, decode, now};
use crate::plugins::signers::tests::Signer;

fn verdict(authorizer: &dyn Authorizer, subresource: &str) -> String {
    let of = |signer: &str| -> CertificateSigningRequest {
        decode(&json!({"metadata": {"name": "web"}, "spec": {"signerName": signer, "request": ""}}))
    };
    // Who changes the signer is judged by the one that was asked for.
    let (old, new) = (of("example.org/signer"), of("example.org/other"));
    let user = User::new("alice", &[]);
    let resource = format!("certificates.k8s.io/certificatesigningrequests/{subresource}");
    let case = Case { namespace: "", ..Case::of(Operation::Update, &resource, &user) };
    let objects = Objects::default();
    case.with((&objects, authorizer), (Some(&new), Some(&old)), |context| {
        if !CertificateApproval.handles(Phase::Validate, &context.request) {
            return String::new();
        }
        let outcome = now(CertificateApproval.validate(context));
        outcome.err().map(|it| it.message().to_owned()).unwrap_or_default()
    })
}

#[test]
fn a_permission_is_for_a_signer_or_for_its_domain() {
    assert_eq!(
        verdict(&Nobody, "approval"),
        "certificatesigningrequests.certificates.k8s.io \"web\" is forbidden: user not permitted to approve requests with signerName \"example.org/signer\""
    );
    assert_eq!(verdict(&Signer("approve", "example.org/signer"), "approval"), "");
    assert_eq!(verdict(&Signer("approve", "example.org/*"), "approval"), "");
    assert_ne!(verdict(&Signer("approve", "example.org/other"), "approval"), "");
    assert_ne!(verdict(&Signer("sign", "example.org/signer"), "approval"), "");
}

#[test]
fn other_doors_are_others_business() {
    assert_eq!(verdict(&Nobody, "status"), "");
    assert_eq!(verdict(&Nobody, ""), "");
}
