//! Who is asking: client certificates, service-account tokens, in-process components, anonymous.
//!
//! Also makes what proves identity: the certificate authority, certificates, and service-account tokens.

mod authenticator;
mod impersonation;
pub mod pki;
pub mod tokens;

#[cfg(test)]
mod tests;

use apimachinery::User;

pub use authenticator::{Authenticator, Parts, Unauthorized, user_of_certificate};
pub use impersonation::{Check, Impersonation, Target};

pub const GROUP_AUTHENTICATED: &str = "system:authenticated";
pub const GROUP_UNAUTHENTICATED: &str = "system:unauthenticated";
pub const USER_ANONYMOUS: &str = "system:anonymous";

/// What a request brought along to prove who it is from.
#[derive(Clone, Debug)]
pub enum Credential {
    /// Nothing: anonymous.
    None,
    /// The DER of a client certificate that TLS verified against the client CA.
    Certificate(Vec<u8>),
    /// `Authorization: Bearer ...`
    Bearer(String),
    /// A component in this process, as the wiring named it.
    Component(Component),
}

/// An identity that only the wiring of the process hands out. It is still authenticated, authorized and admitted.
#[derive(Clone, Debug)]
pub struct Component(User);

impl Component {
    pub fn new(user: User) -> Self {
        Self(user)
    }
}

/// Proof that authentication happened; only this crate makes one.
#[derive(Clone, Debug)]
pub struct Authenticated {
    user: User,
}

impl Authenticated {
    pub fn user(&self) -> &User {
        &self.user
    }
}
