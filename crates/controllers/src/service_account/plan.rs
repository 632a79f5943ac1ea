//! The service account that a namespace lacks. Pure.

use api::core::namespace::Namespace;
use api::core::service_account::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::owners;

pub(crate) const NAME: &str = "default";

/// The account to create, if any: only an active namespace gets one.
pub(crate) fn plan(
    namespace: Option<&Namespace>,
    stored: Option<&ServiceAccount>,
) -> Option<ServiceAccount> {
    let namespace = namespace.filter(|it| !owners::is_deleting(&it.metadata))?;
    let wanted = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(owners::name(&namespace.metadata).to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    stored.is_none().then_some(wanted)
}
