//! Services in, refusals out.

use api::core::Service;
use apimachinery::User;
use serde_json::json;

use super::DenyServiceExternalIps;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

fn service(addresses: &[&str]) -> Service {
    let metadata = json!({"name": "web", "namespace": "ns"});
    decode(&json!({"metadata": metadata, "spec": {"externalIPs": addresses}}))
}

fn check(new: &[&str], old: Option<&[&str]>) -> Result<(), String> {
    let user = User::new("alice", &[]);
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let case = Case::of(operation, "/services", &user);
    let (new, old) = (service(new), old.map(service));
    let old = old.as_ref().map(|it| it as &dyn api::ApiObject);
    let outcome = case.run(DenyServiceExternalIps, Objects::default(), (Some(&new), old));
    outcome.map(|_| ()).map_err(|err| err.message().to_owned())
}

#[test]
fn no_address_is_new() {
    assert!(check(&[], None).is_ok());
    assert_eq!(
        check(&["192.0.2.1"], None).unwrap_err(),
        "services \"web\" is forbidden: Use of external IPs is denied by admission control"
    );
    assert!(check(&["192.0.2.1"], Some(&["192.0.2.1", "192.0.2.2"])).is_ok());
    assert!(check(&["192.0.2.1", "192.0.2.3"], Some(&["192.0.2.1"])).is_err());
}
