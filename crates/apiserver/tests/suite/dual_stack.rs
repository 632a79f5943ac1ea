//! Services of one and two families, over the whole server: what is allocated, kept, released and
//! refused.

use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::core::Service;
use api::discovery::EndpointSlice;
use apimachinery::ApiError;
use apiserver::Config;
use client::DeleteOptions;
use kvstore::memory::Memory;
use serde_json::{Value, json};
use stdx::{Cidr, World};

use crate::harness::{self, Harness};

const V4: &str = "10.96.0.0/28";
const V6: &str = "fd00:10:96::/108";

async fn start(memory: &Arc<Memory>, ranges: &[&str]) -> Harness {
    let service_cidrs = ranges.iter().map(|it| it.parse().expect("a range")).collect();
    let config = Config { service_cidrs, ..Config::default() };
    let started = harness::try_start_over(World::simulated(1), memory.clone(), config).await;
    started.expect("the server starts")
}

fn service(name: &str, spec: Value) -> Service {
    let mut whole = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    let Value::Object(spec) = spec else { panic!("an object") };
    whole.as_object_mut().expect("an object").extend(spec);
    let value = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"}, "spec": whole,
    });
    Service::decode(value.to_string().as_bytes()).expect("a Service")
}

/// Its policy, its families, and whether each address is in the range of its family: `SingleStack
/// IPv4 in`.
fn show(service: &Service) -> String {
    let spec = service.spec.clone().expect("a spec");
    let addresses = spec.cluster_ips.unwrap_or_default();
    assert_eq!(spec.cluster_ip.as_ref(), addresses.first());
    let families = spec.ip_families.unwrap_or_default();
    let place = |(address, family): (&String, &String)| {
        let range: Cidr = if family == "IPv6" { V6 } else { V4 }.parse().expect("a range");
        match address.parse() {
            Ok(address) if range.contains(address) => "in".to_owned(),
            _ => address.clone(),
        }
    };
    let places: Vec<_> = addresses.iter().zip(&families).map(place).collect();
    let policy = spec.ip_family_policy.unwrap_or_default();
    format!("{policy} {} {}", families.join(","), places.join(",")).trim().to_owned()
}

fn answer(result: Result<Arc<Service>, ApiError>) -> String {
    match result {
        Ok(service) => show(&service),
        Err(err) => err.message().to_owned(),
    }
}

async fn create(server: &Harness, name: &str, spec: Value) -> Result<Arc<Service>, ApiError> {
    let created = server.client.api::<Service>().create(service(name, spec)).await?;
    Ok(created.object().expect("decoded"))
}

/// Replaces the spec, as `kubectl replace` does with a manifest that names no address.
async fn replace(server: &Harness, name: &str, spec: Value) -> Result<Arc<Service>, ApiError> {
    let api = server.client.api::<Service>();
    let mut changed = service(name, spec);
    let known = api.get("default", name).await.expect("found");
    changed.metadata.resource_version.clone_from(&known.metadata.resource_version);
    Ok(api.update(changed).await?.object().expect("decoded"))
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_the_families_that_it_asks_for() {
    for (ranges, policy, expected) in [
        (&[V4][..], json!({}), "SingleStack IPv4 in"),
        (&[V6][..], json!({}), "SingleStack IPv6 in"),
        (&[V6, V4][..], json!({}), "SingleStack IPv6 in"),
        (&[V4][..], json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack IPv4 in"),
        (
            &[V4, V6][..],
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack IPv4,IPv6 in,in",
        ),
        (
            &[V6, V4][..],
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "RequireDualStack IPv6,IPv4 in,in",
        ),
        (&[V4, V6][..], json!({"ipFamilies": ["IPv6"]}), "SingleStack IPv6 in"),
        (
            &[V4, V6][..],
            json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack"}),
            "RequireDualStack IPv4,IPv6 None",
        ),
        (&[V4, V6][..], json!({"clusterIP": "None"}), "SingleStack IPv4 None"),
        (
            &[V4][..],
            json!({"clusterIP": "None", "selector": null}),
            "RequireDualStack IPv4,IPv6 None",
        ),
        (&[V4, V6][..], json!({"type": "ExternalName", "externalName": "a.example"}), ""),
    ] {
        let server = start(&Arc::new(Memory::new()), ranges).await;
        let answer = answer(create(&server, "web", policy.clone()).await);
        assert_eq!(answer, expected, "{ranges:?} {policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_cluster_does_not_have_is_refused_as_upstream_says_it() {
    let server = start(&Arc::new(Memory::new()), &[V4]).await;
    for (spec, expected) in [
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"clusterIP": "fd00:10:96::9"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00:10:96::9\"]: IPv6 is not configured on this cluster",
        ),
        (
            json!({"clusterIP": "10.97.0.9"}),
            "spec.clusterIPs: Invalid value: [\"10.97.0.9\"]: failed to allocate IP 10.97.0.9: the provided IP (10.97.0.9) is not in the valid range. The range of valid IPs is 10.96.0.0/28",
        ),
    ] {
        let answer = answer(create(&server, "web", spec).await);
        assert_eq!(answer, format!("Service \"web\" is invalid: {expected}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_family_comes_and_goes_and_its_address_is_free_again() {
    let memory = Arc::new(Memory::new());
    let server = start(&memory, &[V4, V6]).await;
    let first = create(&server, "web", json!({})).await.expect("created");
    let addresses = |it: &Service| it.spec.clone().expect("a spec").cluster_ips.expect("some");
    let both = replace(&server, "web", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    let both = both.expect("updated");
    assert_eq!(show(&both), "PreferDualStack IPv4,IPv6 in,in");
    assert_eq!(addresses(&both)[0], addresses(&first)[0]);
    let second = addresses(&both)[1].clone();

    // It is held, after a restart as before.
    server.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    let server = start(&memory, &[V4, V6]).await;
    let wanted = json!({"clusterIP": second});
    let refused = answer(create(&server, "other", wanted.clone()).await);
    assert!(refused.contains("provided IP is already allocated"), "{refused}");

    let reduced = json!({"clusterIP": addresses(&both)[0], "clusterIPs": [addresses(&both)[0]]});
    let refused = answer(replace(&server, "web", reduced).await);
    assert!(refused.contains("must be 'SingleStack' to release the secondary cluster IP"));
    let single = replace(&server, "web", json!({"ipFamilyPolicy": "SingleStack"})).await;
    assert_eq!(show(&single.expect("updated")), "SingleStack IPv4 in");
    assert_eq!(answer(create(&server, "other", wanted).await), "SingleStack IPv6 in");
    let external = json!({"type": "ExternalName", "externalName": "a.example", "ports": null});
    assert_eq!(answer(replace(&server, "web", external).await), "", "families go with the type");
    let api = server.client.api::<Service>();
    api.delete("default", "other", DeleteOptions::default()).await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_for_one_family_gives_the_other_back() {
    let server = start(&Arc::new(Memory::new()), &[V4, "fd00:10:96::/126"]).await;
    let both = || json!({"ipFamilyPolicy": "RequireDualStack"});
    for name in ["a", "b", "c"] {
        create(&server, name, both()).await.expect("three addresses of IPv6");
    }
    let refused = answer(create(&server, "d", both()).await);
    assert!(refused.contains("range is full"), "{refused}");
    // Of fourteen one is the API's own, and three are held.
    for number in 0..10 {
        create(&server, &format!("single-{number}"), json!({})).await.expect("free");
    }
    let refused = answer(create(&server, "e", json!({})).await);
    assert!(refused.contains("range is full"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_kubernetes_service_has_the_first_address_of_the_first_family() {
    for (ranges, advertise, address, family) in [
        ([V4, V6], "192.0.2.1:6443", "10.96.0.1", "IPv4"),
        ([V6, V4], "[2001:db8::1]:6443", "fd00:10:96::1", "IPv6"),
    ] {
        let service_cidrs = ranges.iter().map(|it| it.parse().expect("a range")).collect();
        let advertise = advertise.parse().expect("an address");
        let config = Config { service_cidrs, advertise, ..Config::default() };
        let memory = Arc::new(Memory::new());
        let server = harness::try_start_over(World::simulated(1), memory, config).await;
        let client = server.expect("the server starts").client;
        let service = client.api::<Service>().get("default", "kubernetes").await.expect("found");
        assert_eq!(show(&service), format!("SingleStack {family} in"));
        let spec = service.spec.clone().expect("a spec");
        assert_eq!(spec.cluster_ip.as_deref(), Some(address));
        let slice = client.api::<EndpointSlice>().get("default", "kubernetes").await;
        assert_eq!(slice.expect("found").address_type, family);
    }
}
