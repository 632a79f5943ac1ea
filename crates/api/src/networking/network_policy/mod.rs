//! NetworkPolicy: who may talk to some pods, and whom they may talk to.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::{IPBlock, NetworkPolicyPeer, NetworkPolicySpec};
use serde_json::Value;

use crate::kind::{Part, Resource};
use crate::{addresses, cell, semantic};

pub use k8s_openapi::api::networking::v1::NetworkPolicy;

impl Resource for NetworkPolicy {
    codec!();

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec.pod_selector.get_or_insert_default();
        let ingress = spec.ingress.iter_mut().flatten().flat_map(|it| it.ports.iter_mut());
        let egress = spec.egress.iter_mut().flatten().flat_map(|it| it.ports.iter_mut());
        for port in ingress.chain(egress).flatten() {
            port.protocol.get_or_insert_with(|| "TCP".to_owned());
        }
        let types = spec.policy_types.get_or_insert_default();
        if types.is_empty() {
            types.push("Ingress".to_owned());
            if spec.egress.iter().flatten().next().is_some() {
                types.push("Egress".to_owned());
            }
        }
    }

    fn has_same_spec(&self, stored: &Self) -> bool {
        self.spec == stored.spec || semantic::equal_at("spec", self, stored)
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, None, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate(self, Some(stored), errors);
    }

    /// Ranges that may not mean what they say.
    fn warnings(&self) -> Vec<String> {
        let absent = NetworkPolicySpec::default();
        let spec = self.spec.as_ref().unwrap_or(&absent);
        let mut warnings = Vec::new();
        for (path, block) in blocks(spec) {
            warnings.extend(addresses::cidr_warnings(&block.cidr, &path.child("cidr")));
            for (index, except) in block.except.iter().flatten().enumerate() {
                let path = path.child("except").index(index);
                warnings.extend(addresses::cidr_warnings(except, &path));
            }
        }
        warnings
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Pod-Selector", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let selector = self.spec.as_ref().and_then(|it| it.pod_selector.clone());
        let selector = Labels::from_selector(Some(&selector.unwrap_or_default()));
        let selector = selector.map_or_else(|_| "<error>".to_owned(), |it| it.to_string());
        vec![cell::name(&self.metadata), cell::or_none(&selector), cell::age(&self.metadata, now)]
    }
}

/// Whom it names, both ways, with where.
fn peers(spec: &NetworkPolicySpec) -> Vec<(Path, &NetworkPolicyPeer)> {
    let path = Path::new("spec");
    let mut peers = Vec::new();
    for (index, rule) in spec.ingress.iter().flatten().enumerate() {
        let path = path.child("ingress").index(index).child("from");
        let from = rule.from.iter().flatten().enumerate();
        peers.extend(from.map(|(index, it)| (path.index(index), it)));
    }
    for (index, rule) in spec.egress.iter().flatten().enumerate() {
        let path = path.child("egress").index(index).child("to");
        let to = rule.to.iter().flatten().enumerate();
        peers.extend(to.map(|(index, it)| (path.index(index), it)));
    }
    peers
}

fn blocks(spec: &NetworkPolicySpec) -> Vec<(Path, &IPBlock)> {
    let all = peers(spec).into_iter();
    all.filter_map(|(path, it)| Some((path.child("ipBlock"), it.ip_block.as_ref()?))).collect()
}
