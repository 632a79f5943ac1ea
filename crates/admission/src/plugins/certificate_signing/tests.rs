//! Status and permission in, verdict out.

use api::certificates::CertificateSigningRequest;
use apimachinery::User;
use serde_json::{Value, json};

use super::CertificateSigning;
use crate::attributes::Operation;
use crate::authorizer::Authorizer;
use crate::chain::{Phase, Plugin as _};
use crate::plugins::fixture::{Case, Nobody, Objects, decode, now};
use crate::plugins::signers::tests::Signer;

fn verdict(authorizer: &dyn Authorizer, status: Value) -> String {
    let of = |status: Value| -> CertificateSigningRequest {
        let spec = json!({"signerName": "example.org/signer", "request": ""});
        decode(&json!({"metadata": {"name": "web"}, "spec": spec, "status": status}))
    };
    let (old, new) = (of(json!({})), of(status));
    let user = User::new("alice", &[]);
    let resource = "certificates.k8s.io/certificatesigningrequests/status";
    let case = Case { namespace: "", ..Case::of(Operation::Update, resource, &user) };
    let objects = Objects::default();
    case.with((&objects, authorizer), (Some(&new), Some(&old)), |context| {
        assert!(CertificateSigning.handles(Phase::Validate, &context.request));
        let outcome = now(CertificateSigning.validate(context));
        outcome.err().map(|it| it.message().to_owned()).unwrap_or_default()
    })
}

#[test]
fn who_signs_or_fails_a_request_may_sign() {
    let failed = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    for status in [json!({"certificate": "YQ=="}), failed] {
        assert_eq!(
            verdict(&Nobody, status.clone()),
            "certificatesigningrequests.certificates.k8s.io \"web\" is forbidden: user not permitted to sign requests with signerName \"example.org/signer\""
        );
        assert_eq!(verdict(&Signer("sign", "example.org/*"), status.clone()), "");
        assert_ne!(verdict(&Signer("approve", "example.org/*"), status), "");
    }
}

#[test]
fn who_changes_neither_signs_nothing() {
    assert_eq!(verdict(&Nobody, json!({})), "");
    assert_eq!(verdict(&Nobody, json!({"certificate": "", "conditions": []})), "");
}
