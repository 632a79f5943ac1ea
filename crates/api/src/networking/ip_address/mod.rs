//! IPAddress: one address of a Service, and whose it is. Its name is the address. Stored as v1.

#[cfg(test)]
mod tests;
pub mod v1beta1;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::check::text;
use crate::kind::{Part, Resource};
use crate::version;
use crate::{cell, codec};

pub use k8s_openapi::api::networking::v1::IPAddress;

impl Resource for IPAddress {
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let mut address: Self = codec::decode(Self::FACTS.definition, bytes)?;
        validation::mark_parent(&mut address.spec.parent_ref, bytes);
        Ok(address)
    }

    fn encode(&self) -> Vec<u8> {
        codec::encode_object(Self::FACTS.definition, self)
    }

    codec!(metadata);

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        let is_known = api_version == "networking.k8s.io/v1beta1";
        is_known.then(|| version::convert_stored::<v1beta1::IPAddress, Self>(json))
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("ParentRef", "string")] }
    }

    fn row(&self, _now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), Value::from(parent(self))]
    }
}

/// `services/default/web`, or with the group after a dot.
fn parent(address: &IPAddress) -> String {
    let parent = &address.spec.parent_ref;
    let dotted = |it: &str| if it.is_empty() { String::new() } else { format!(".{it}") };
    let group = dotted(text(parent.group.as_ref()));
    let namespace = match text(parent.namespace.as_ref()) {
        "" => String::new(),
        namespace => format!("/{namespace}"),
    };
    let resource = format!("{}{group}", parent.resource).to_lowercase();
    format!("{resource}{namespace}/{}", parent.name)
}
