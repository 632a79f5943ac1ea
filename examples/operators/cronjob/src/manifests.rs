//! What has to be in the cluster before the operator: the definition and the webhooks, told where
//! the operator answers. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const DEFINITION: &str = include_str!("../manifests/definition.yaml");
const MUTATING: &str = include_str!("../manifests/mutating.yaml");
const VALIDATING: &str = include_str!("../manifests/validating.yaml");

/// Where API servers find the operator.
#[derive(Clone, Debug)]
pub enum Place {
    /// `https://host:port`, for an operator outside of the cluster.
    Url(String),
    Service {
        namespace: String,
        name: String,
    },
}

impl Place {
    /// A `clientConfig`.
    fn at(&self, path: &str, authority_pem: &[u8]) -> Value {
        let ca_bundle = STANDARD.encode(authority_pem);
        match self {
            Self::Url(url) => {
                json!({ "url": format!("{}{path}", url.trim_end_matches('/')), "caBundle": ca_bundle })
            }
            Self::Service { namespace, name } => json!({
                "service": { "namespace": namespace, "name": name, "path": path },
                "caBundle": ca_bundle,
            }),
        }
    }
}

/// A List, for `kubectl apply -f -`. `authority_pem` signed what the operator serves with.
pub fn manifests(place: &Place, authority_pem: &[u8]) -> Result<Value, serde_saphyr::Error> {
    let mut definition: Value = serde_saphyr::from_str(DEFINITION)?;
    definition["spec"]["conversion"]["webhook"]["clientConfig"] =
        place.at("/convert", authority_pem);
    let mut mutating: Value = serde_saphyr::from_str(MUTATING)?;
    mutating["webhooks"][0]["clientConfig"] = place.at("/default", authority_pem);
    let mut validating: Value = serde_saphyr::from_str(VALIDATING)?;
    validating["webhooks"][0]["clientConfig"] = place.at("/validate", authority_pem);
    let items = [definition, mutating, validating];
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
}

#[cfg(test)]
mod tests {
    use super::{Place, manifests};

    #[test]
    fn every_webhook_is_told_where_the_operator_answers() {
        let url = manifests(&Place::Url("https://localhost:9443/".to_owned()), b"ca").unwrap();
        let at = |pointer: &str| url.pointer(pointer).unwrap().clone();
        let conversion = "/items/0/spec/conversion/webhook/clientConfig";
        assert_eq!(at(&format!("{conversion}/url")), "https://localhost:9443/convert");
        assert_eq!(at("/items/1/webhooks/0/clientConfig/url"), "https://localhost:9443/default");
        assert_eq!(at("/items/2/webhooks/0/clientConfig/url"), "https://localhost:9443/validate");
        assert_eq!(at(&format!("{conversion}/caBundle")), "Y2E=");
        let service = Place::Service { namespace: "a".to_owned(), name: "b".to_owned() };
        let service = manifests(&service, b"ca").unwrap();
        assert_eq!(service.pointer(&format!("{conversion}/service/path")).unwrap(), "/convert");
    }
}
