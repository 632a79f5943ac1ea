//! A request for a certificate says who makes it, and when something was decided about it. Neither
//! is the client's to say.

use api::ApiObject;
use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::{fill_in_times, fill_in_user};

use crate::pipeline::hooks::{Hooks, Of};
use crate::pipeline::{Core, Draft, Request};

pub(crate) struct CertificateSigningRequests;

impl Hooks for CertificateSigningRequests {
    fn of(&self) -> &'static [Of] {
        &[("certificates.k8s.io", "certificatesigningrequests")]
    }

    fn complete(
        &self,
        core: &Core,
        request: &Request,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) {
        let object = draft.change().downcast_mut::<CertificateSigningRequest>();
        let object = object.expect("the kind is CertificateSigningRequest");
        match old.and_then(|it| it.downcast_ref::<CertificateSigningRequest>()) {
            None => fill_in_user(object, request.user()),
            Some(old) => {
                let now = core.world.clock.now();
                let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
                fill_in_times(object, old, now);
            }
        }
    }
}
