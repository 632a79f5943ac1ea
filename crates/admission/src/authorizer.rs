//! What plugins ask of authorization.

use apimachinery::User;
use authz::{Attributes, Decision};
use futures_util::future::BoxFuture;

/// Answers whether anybody, not only whoever makes the request, may do anything.
pub trait Authorizer: Send + Sync {
    /// Waits where somebody outside of this server is asked.
    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> BoxFuture<'a, Decision>;
}

/// All that the authorizers of this server look at is in memory.
impl Authorizer for authz::Authorizer {
    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(self.decide(user, attributes)))
    }
}
