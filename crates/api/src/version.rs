//! Kinds that are served in several versions and stored in one of them, the hub. Conversions are
//! pure and lose nothing: what a version cannot express it keeps in annotations, as upstream does.

use apimachinery::FieldErrors;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec;
use crate::kind::{Part, Resource};

/// A version of a kind. Every kind is a version of itself.
pub trait Version<Hub: Resource>: Resource {
    /// Whether it is what is stored, so that there is nothing to convert.
    const IS_HUB: bool = false;

    fn into_hub(self) -> Hub;
    fn from_hub(hub: &Hub) -> Self;

    /// The rules are those of the hub, unless a version is stricter with what comes in by it.
    fn validate_hub(hub: &Hub, errors: &mut FieldErrors) {
        hub.validate(errors);
    }
    fn validate_hub_create(hub: &Hub, errors: &mut FieldErrors) {
        hub.validate_create(errors);
    }
    fn validate_hub_update(hub: &Hub, stored: &Hub, part: Part, errors: &mut FieldErrors) {
        hub.validate_update(stored, part, errors);
    }
}

impl<T: Resource> Version<T> for T {
    const IS_HUB: bool = true;

    fn into_hub(self) -> T {
        self
    }

    fn from_hub(hub: &T) -> Self {
        hub.clone()
    }
}

/// A stored value in the version `V`, as JSON of the hub.
pub(crate) fn convert_stored<V: Version<Hub>, Hub: Resource>(
    json: &[u8],
) -> Result<Vec<u8>, serde_json::Error> {
    Ok(V::decode(json)?.into_hub().encode())
}

/// What has the same fields in another version, in that version.
pub(crate) fn same_fields<From: Serialize, To: DeserializeOwned>(value: &From) -> To {
    let converted = serde_json::from_slice(&codec::encode(value));
    converted.expect("both versions have the same fields, of the same types")
}

/// A version that differs from the hub in nothing but its name: both traits, by the fields that it
/// has beside `metadata`, and what its users are told if it is going.
macro_rules! like_hub {
    ($version:path as $hub:path { $($field:ident),* } $(, $deprecation:literal)?) => {
        impl $crate::Resource for $version {
            codec!();

            fn apply_defaults(&mut self) {
                let mut hub: $hub = $crate::Version::into_hub(self.clone());
                $crate::Resource::apply_defaults(&mut hub);
                *self = $crate::Version::from_hub(&hub);
            }

            fn validate(&self, errors: &mut apimachinery::FieldErrors) {
                let hub: $hub = $crate::Version::into_hub(self.clone());
                $crate::Resource::validate(&hub, errors);
            }

            fn field_names() -> &'static [(&'static str, &'static str)] {
                <$hub as $crate::Resource>::field_names()
            }

            $(fn deprecation() -> Option<&'static str> {
                Some($deprecation)
            })?
        }

        impl $crate::Version<$hub> for $version {
            fn into_hub(self) -> $hub {
                $hub {
                    metadata: self.metadata,
                    $($field: $crate::version::same_fields(&self.$field),)*
                }
            }

            fn from_hub(hub: &$hub) -> Self {
                Self {
                    metadata: hub.metadata.clone(),
                    $($field: $crate::version::same_fields(&hub.$field),)*
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn users_of_versions_that_are_going_are_told() {
        let all = crate::kinds();
        let told = |version: &str| {
            let kinds = all.iter().filter(|it| it.names().api_version() == version);
            kinds.map(|it| it.deprecation()).collect::<Vec<_>>()
        };
        let claim =
            "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+";
        assert!(told("resource.k8s.io/v1beta1").contains(&Some(claim.to_owned())));
        for (version, n_going) in [
            ("admissionregistration.k8s.io/v1", 0),
            ("admissionregistration.k8s.io/v1alpha1", 2),
            ("admissionregistration.k8s.io/v1beta1", 0),
            ("resource.k8s.io/v1", 0),
            ("resource.k8s.io/v1alpha3", 1),
            ("resource.k8s.io/v1beta1", 4),
            ("resource.k8s.io/v1beta2", 4),
        ] {
            assert_eq!(told(version).iter().flatten().count(), n_going, "{version}");
        }
    }
}
