//! What those keep of a lease who only want to know that it is renewed: thousands of them are,
//! every ten seconds.

use std::sync::Arc;

use apimachinery::GroupVersionResource;
use jiff::Timestamp;
use serde::Deserialize;

use super::Lease;
use crate::View;
use crate::object::{Meta, Stored};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseView {
    /// Shared with the server's cache, in one process.
    pub meta: Arc<Meta>,
    pub renewed: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Parts {
    spec: Option<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    renew_time: Option<Timestamp>,
}

impl View for LeaseView {
    fn resource() -> GroupVersionResource {
        <Lease as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { spec } = serde_json::from_slice(&stored.bytes)?;
        Ok(Self { meta: stored.meta.clone(), renewed: spec.and_then(|it| it.renew_time) })
    }
}

identified_by_meta!(LeaseView, Lease);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::LeaseView;
    use crate::coordination::lease::Lease;

    #[test]
    fn a_lease_says_when_it_was_renewed() {
        let lease = json!({
            "metadata": {"name": "n1", "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": "n1", "renewTime": "2026-01-01T00:00:00.000001Z"},
        });
        let lease = LeaseView::from(&serde_json::from_value::<Lease>(lease).unwrap());
        assert_eq!(lease.renewed.unwrap().to_string(), "2026-01-01T00:00:00.000001Z");
        assert_eq!(LeaseView::from(&Lease::default()).renewed, None);
    }
}
