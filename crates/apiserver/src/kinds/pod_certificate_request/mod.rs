//! What came of a request for a pod's certificate is said by who may sign for its signer, and a
//! certificate is valid from about now on.

use api::Part;
use api::certificates::PodCertificateRequest;
use api::certificates::pod_certificate_request::{is_of_now, is_status_changed};
use apimachinery::{ApiError, FieldErrors, Path, User};

use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of, Write};

pub(crate) struct PodCertificateRequests;

impl Hooks for PodCertificateRequests {
    fn of(&self) -> &'static [Of] {
        &[("certificates.k8s.io", "podcertificaterequests")]
    }

    fn validate_write(&self, core: &Core, write: &Write<'_>) -> Result<(), ApiError> {
        let new = write.object.downcast_ref::<PodCertificateRequest>();
        let old = write.old.and_then(|it| it.downcast_ref::<PodCertificateRequest>());
        let (Some(new), Some(old)) = (new, old) else { return Ok(()) };
        if write.request.part() != Part::Status || !is_status_changed(new, old) {
            return Ok(());
        }
        let mut errors = FieldErrors::new();
        let (signer, user) = (&old.spec.signer_name, write.request.user());
        if !is_of_now(new, core.world.clock.now()) {
            let start = new.status.as_ref().and_then(|it| it.not_before.as_ref());
            let start = start.map(|it| it.0.to_string()).unwrap_or_default();
            let detail = "must be set to within 5 minutes of kube-apiserver's current time";
            errors.invalid(&Path::new("status").child("notBefore"), start, detail);
        } else if !may_sign(core, user, signer) {
            let name = &user.name;
            let detail =
                format!("User {name:?} is not permitted to \"sign\" for signer {signer:?}");
            errors.forbidden(&Path::new("spec").child("signerName"), &detail);
        }
        if errors.is_empty() {
            return Ok(());
        }
        let kind = write.request.kind.names().gvk().group_kind();
        let name = new.metadata.name.as_deref().unwrap_or_default();
        Err(ApiError::invalid(&kind, name, &errors))
    }
}

fn may_sign(core: &Core, user: &User, signer: &str) -> bool {
    let permissions = authz::signers::permissions("sign", signer);
    permissions.iter().any(|it| core.authorizer.decide(user, it).is_allowed())
}
