//! Secret: named bytes that few may read.

mod key_pair;
#[cfg(test)]
mod tests;
mod validation;
mod view;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::check::text;
use crate::kind::Part;
use k8s_openapi::ByteString;

pub use view::{BootstrapTokenView, SecretView, TokenView};

pub use k8s_openapi::api::core::v1::Secret;

/// Of Secrets for tokens of nodes that are to join.
pub const BOOTSTRAP_TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The legacy way to a token of a service account.
pub const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

const TLS_TYPE: &str = "kubernetes.io/tls";

impl Resource for Secret {
    codec!();

    fn apply_defaults(&mut self) {
        if text(self.type_.as_ref()).is_empty() {
            self.type_ = Some("Opaque".to_owned());
        }
        // `stringData` is only for writing: it wins over `data` and is never stored.
        if let Some(texts) = self.string_data.take().filter(|it| !it.is_empty()) {
            let bytes = texts.into_iter().map(|(key, it)| (key, ByteString(it.into_bytes())));
            self.data.get_or_insert_default().extend(bytes);
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn warnings(&self) -> Vec<String> {
        if self.type_.as_deref() != Some(TLS_TYPE) {
            return Vec::new();
        }
        let half = |name: &str| {
            let found = self.data.as_ref().and_then(|it| it.get(name));
            found.map_or(&[][..], |it| &it.0)
        };
        key_pair::problem(half("tls.crt"), half("tls.key")).into_iter().collect()
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Type", "string"),
                Column::new("Data", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(text(self.type_.as_ref())),
            Value::from(self.data.as_ref().map_or(0, |it| it.len())),
            cell::age(&self.metadata, now),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![("type", text(self.type_.as_ref()).to_owned())]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[("type", "type")]
    }
}
