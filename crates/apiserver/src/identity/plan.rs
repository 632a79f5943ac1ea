//! What the Lease of a server says, and which ones are over. Pure.

use std::collections::BTreeMap;

use api::coordination::lease::Lease;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use sha2::{Digest as _, Sha256};

use super::NAMESPACE;

const IDENTITY: &str = "apiserver.kubernetes.io/identity";
const KUBE_APISERVER: &str = "kube-apiserver";
const HOSTNAME: &str = "kubernetes.io/hostname";
const DURATION_SECONDS: i32 = 3600;
/// Upstream's names know no port. Servers that have not this one may share a machine.
const PORT_DEFAULT: u16 = 6443;

/// This server, in this run.
pub(super) struct Own {
    pub(super) id: String,
    pub(super) host: String,
    pub(super) holder: String,
}

/// As upstream makes it of the machine's name and the program's, each with its length before it.
pub(super) fn id(host: &str, port: u16) -> String {
    let program = match port {
        PORT_DEFAULT => KUBE_APISERVER.to_owned(),
        port => format!("{KUBE_APISERVER}:{port}"),
    };
    let mut hash = Sha256::new();
    for part in [host, &program] {
        let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
        hash.update(length.to_be_bytes());
        hash.update(part.as_bytes());
    }
    format!("apiserver-{}", base32(&hash.finalize()[..16]))
}

/// In small letters, without padding.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let bits: Vec<u8> = bits.collect();
    let letter = |five: &[u8]| {
        let value = five.iter().fold(0, |all, bit| all << 1 | bit) << (5 - five.len());
        char::from(ALPHABET[usize::from(value)])
    };
    bits.chunks(5).map(letter).collect()
}

#[derive(Debug, PartialEq)]
pub(super) enum Write {
    Create(Box<Lease>),
    Update(Box<Lease>),
}

pub(super) fn plan(stored: Option<&Lease>, own: &Own, now: Timestamp) -> Write {
    let mut lease = stored.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(own.id.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    let labels = lease.metadata.labels.get_or_insert_with(BTreeMap::new);
    for (key, value) in [(IDENTITY, KUBE_APISERVER), (HOSTNAME, &own.host)] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(own.holder.clone()),
        lease_duration_seconds: Some(DURATION_SECONDS),
        renew_time: Some(MicroTime(now)),
        ..lease.spec.unwrap_or_default()
    });
    match stored {
        None => Write::Create(Box::new(lease)),
        Some(_) => Write::Update(Box::new(lease)),
    }
}

/// Whether it is the Lease of an API server that has been silent for longer than it said. One that
/// does not say is nobody's.
pub(super) fn is_over(lease: &Lease, now: Timestamp) -> bool {
    let labels = lease.metadata.labels.as_ref();
    if labels.and_then(|it| it.get(IDENTITY)).is_none_or(|it| it != KUBE_APISERVER) {
        return false;
    }
    let spec = lease.spec.as_ref();
    let renewed = spec.and_then(|it| it.renew_time.as_ref()).map(|it| it.0);
    let duration = spec.and_then(|it| it.lease_duration_seconds);
    let (Some(renewed), Some(duration)) = (renewed, duration) else { return true };
    let duration = SignedDuration::from_secs(duration.into());
    renewed.checked_add(duration).is_ok_and(|it| it < now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-31T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn names_are_upstreams() {
        // sha256 of 0004 "host" 000e "kube-apiserver", in base32.
        assert_eq!(id("host", 6443), "apiserver-dd6egxogzxmivwqge6rcnj6rwi");
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_ne!(id("host", 6444), id("host", 6443));
        assert_ne!(id("hos", 6443), id("host", 6443));
    }

    #[test]
    fn a_lease_says_who_where_and_when_and_keeps_what_others_say() {
        let own = Own { id: "a".to_owned(), host: "h".to_owned(), holder: "a_1".to_owned() };
        let Write::Create(made) = plan(None, &own, now()) else { panic!() };
        let expected = json!({
            "metadata": {
                "name": "a", "namespace": "kube-system",
                "labels": {IDENTITY: "kube-apiserver", "kubernetes.io/hostname": "h"},
            },
            "spec": {
                "holderIdentity": "a_1", "leaseDurationSeconds": 3600,
                "renewTime": "2026-01-31T12:00:00.000000Z",
            },
        });
        assert_eq!(*made, serde_json::from_value(expected).unwrap());
        let mut theirs = *made;
        theirs.metadata.labels.get_or_insert_default().insert("x".to_owned(), "y".to_owned());
        theirs.spec.get_or_insert_default().holder_identity = Some("b_2".to_owned());
        let later = now() + SignedDuration::from_secs(10);
        let Write::Update(renewed) = plan(Some(&theirs), &own, later) else { panic!() };
        assert_eq!(renewed.metadata.labels.as_ref().unwrap()["x"], "y");
        let spec = renewed.spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("a_1"));
        assert_eq!(spec.renew_time, Some(MicroTime(later)));
    }

    #[test]
    fn leases_of_servers_are_over_after_their_time_and_others_never() {
        let check = |label: &str, spec: serde_json::Value, expected: bool| {
            let metadata = json!({"name": "a", "labels": {IDENTITY: label}});
            let lease: Lease =
                serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
            assert_eq!(is_over(&lease, now()), expected, "{lease:?}");
        };
        let at = |time: &str| json!({"renewTime": time, "leaseDurationSeconds": 3600});
        check("kube-apiserver", at("2026-01-31T11:00:01.000000Z"), false);
        check("kube-apiserver", at("2026-01-31T10:59:59.000000Z"), true);
        check("another", at("2026-01-31T10:59:59.000000Z"), false);
        check("kube-apiserver", json!({"renewTime": "2026-01-31T11:00:01.000000Z"}), true);
        check("kube-apiserver", json!({}), true);
        check(
            "kube-apiserver",
            json!({"renewTime": "9999-12-30T00:00:00.000000Z", "leaseDurationSeconds": i32::MAX}),
            false,
        );
    }
}
