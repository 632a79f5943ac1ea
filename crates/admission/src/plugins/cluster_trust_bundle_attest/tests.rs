//! Bundle and permission in, verdict out.

use api::ApiObject;
use api::certificates::ClusterTrustBundle;
use apimachinery::User;
use serde_json::{Value, json};

use super::ClusterTrustBundleAttest;
use crate::attributes::Operation;
use crate::authorizer::Authorizer;
use crate::chain::{Phase, Plugin as _};
use crate::plugins::fixture::{Case, Nobody, Objects, decode, now};
use crate::plugins::signers::tests::Signer;

fn bundle(signer: &str, anchors: &str) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"signerName": signer, "trustBundle": anchors}})
}

fn verdict(authorizer: &dyn Authorizer, new: Value, old: Option<Value>) -> String {
    let new: ClusterTrustBundle = decode(&new);
    let old: Option<ClusterTrustBundle> = old.map(|it| decode(&it));
    let user = User::new("alice", &[]);
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let resource = "certificates.k8s.io/clustertrustbundles";
    let case = Case { namespace: "", ..Case::of(operation, resource, &user) };
    let old = old.as_ref().map(|it| it as &dyn ApiObject);
    let objects = Objects::default();
    case.with((&objects, authorizer), (Some(&new), old), |context| {
        assert!(ClusterTrustBundleAttest.handles(Phase::Validate, &context.request));
        let outcome = now(ClusterTrustBundleAttest.validate(context));
        outcome.err().map(|it| it.message().to_owned()).unwrap_or_default()
    })
}

#[test]
fn who_speaks_for_a_signer_may() {
    let refused = "clustertrustbundles.certificates.k8s.io \"web\" is forbidden: user not permitted to attest for signerName \"example.org/signer\"";
    let own = bundle("example.org/signer", "a");
    assert_eq!(verdict(&Nobody, own.clone(), None), refused);
    assert_eq!(verdict(&Signer("attest", "example.org/signer"), own.clone(), None), "");
    let other = bundle("example.org/signer", "b");
    assert_eq!(verdict(&Nobody, other, Some(own)), refused);
}

#[test]
fn nobody_is_asked_where_nothing_is_said() {
    assert_eq!(verdict(&Nobody, bundle("", "a"), None), "");
    let old = bundle("example.org/signer", "a");
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["example.org/a"]);
    assert_eq!(verdict(&Nobody, new, Some(old)), "");
}
