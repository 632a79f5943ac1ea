//! Names that are for what a server reads from files at its start. They are not refused, since no
//! server here reads such files (upstream's gate ManifestBasedAdmissionControlConfig is off).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::check::text;

const SUFFIX: &str = ".static.k8s.io";

/// The warning about a reserved name, if it is one, and then the others.
pub(super) fn warnings(metadata: &ObjectMeta, others: &[&str]) -> Vec<String> {
    let is_reserved = text(metadata.name.as_ref()).ends_with(SUFFIX);
    let warning = || {
        format!(
            "metadata.name: names ending with {SUFFIX:?} are reserved for static manifest-based configurations and cannot be managed via the API"
        )
    };
    let others = others.iter().map(|it| (*it).to_owned());
    is_reserved.then(warning).into_iter().chain(others).collect()
}
