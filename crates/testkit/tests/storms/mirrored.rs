//! A Service without a selector, whose Endpoints somebody writes by hand: their copies are looked at
//! where all slices are.

use client::{Client, DeleteOptions};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use serde_json::{Value, json};
use stdx::Random;

use crate::objects::{OPEN, create, patch};

pub(crate) async fn make(admin: &Client) {
    let service = json!({
        "metadata": {"name": "by-hand", "namespace": OPEN}, "spec": {"ports": [{"port": 80}]},
    });
    create::<Service>(admin, &service).await;
    create::<Endpoints>(admin, &endpoints(&json!([]))).await;
}

fn endpoints(subsets: &Value) -> Value {
    json!({"metadata": {"name": "by-hand", "namespace": OPEN}, "subsets": subsets})
}

/// Other addresses, some of which are not ready, on one port or on two; or none at all for a
/// moment.
pub(crate) async fn change(admin: &Client, random: &Random) {
    let address = |from: u64| json!({"ip": format!("192.0.2.{}", from + random.below(50))});
    let subset = |port: u64| {
        let ready: Vec<Value> = (0..=random.below(3)).map(|it| address(60 * it)).collect();
        json!({
            "addresses": ready, "notReadyAddresses": [address(180)], "ports": [{"port": port}],
        })
    };
    let subsets: Vec<Value> = (0..=random.below(2)).map(|it| subset(80 + it)).collect();
    if random.below(3) > 0 {
        return patch::<Endpoints>(admin, "by-hand", json!({ "subsets": subsets })).await;
    }
    let options = DeleteOptions::default();
    admin.api::<Endpoints>().delete(OPEN, "by-hand", options).await.unwrap();
    create::<Endpoints>(admin, &endpoints(&json!(subsets))).await;
}
