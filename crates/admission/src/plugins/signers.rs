//! Who may approve, sign or attest for a signer.

use apimachinery::ApiError;

use crate::context::Context;

/// `why` is what the refusal says.
pub(super) async fn authorize(
    context: &Context<'_>,
    verb: &str,
    signer: &str,
    why: &str,
) -> Result<(), ApiError> {
    for permission in authz::signers::permissions(verb, signer) {
        if context.authorizer.decide(context.request.user, &permission).await.is_allowed() {
            return Ok(());
        }
    }
    Err(context.forbidden(&format!("{why} {signer:?}")))
}

/// What the tests of these plugins share.
#[cfg(test)]
pub(super) mod tests {
    use apimachinery::User;
    use authz::{Attributes, Decision};
    use futures_util::future::BoxFuture;

    use crate::authorizer::Authorizer;

    /// Allows one verb on one name of signers.
    pub(in crate::plugins) struct Signer(
        pub(in crate::plugins) &'static str,
        pub(in crate::plugins) &'static str,
    );

    impl Authorizer for Signer {
        fn decide<'a>(&'a self, _: &'a User, it: &'a Attributes) -> BoxFuture<'a, Decision> {
            let reason = String::new();
            let of_signers = (&*it.group, &*it.resource) == ("certificates.k8s.io", "signers");
            let is_allowed = of_signers && (&*it.verb, &*it.name) == (self.0, self.1);
            Box::pin(std::future::ready(match is_allowed {
                true => Decision::Allow { reason },
                false => Decision::NoOpinion { reason },
            }))
        }
    }
}
