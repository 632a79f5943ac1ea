//! Who is asking: client certificates, service-account and bootstrap tokens, in-process components,
//! anonymous.
//!
//! Also makes what proves identity: the certificate authority, certificates, and service-account
//! tokens.

mod authenticator;
pub mod bootstrap;
mod certificate;
pub mod cluster_info;
pub mod credentials;
mod impersonation;
pub mod legacy;
mod nodes;
pub mod pki;
mod proxied;
pub mod tokens;
mod verified;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use apimachinery::User;

pub use authenticator::{Authenticator, Parts, Unauthorized};
pub use certificate::{ClientCertificate, Vouched};
pub use impersonation::{Check, Impersonation, Target};
pub use nodes::{DeletedNodes, Deletion, OfNode};
pub use proxied::{Proxied, RequestHeaders};

pub const GROUP_AUTHENTICATED: &str = "system:authenticated";
pub const GROUP_UNAUTHENTICATED: &str = "system:unauthenticated";
pub const USER_ANONYMOUS: &str = "system:anonymous";

/// What a request brought along to prove who it is from.
#[derive(Clone, Debug)]
pub enum Credential {
    /// Nothing: anonymous.
    None,
    /// That of the connection.
    Certificate(Arc<ClientCertificate>),
    /// A proxy's word for whom it speaks.
    Proxied(Box<Proxied>),
    /// `Authorization: Bearer ...`
    Bearer(String),
    /// A component in this process, as the wiring named it.
    Component(Component),
}

/// An identity that only the wiring of the process hands out. It is still authenticated, authorized
/// and admitted.
#[derive(Clone, Debug)]
pub struct Component(Arc<User>);

impl Component {
    pub fn new(user: User) -> Self {
        Self(Arc::new(among_the_authenticated(user)))
    }
}

/// Proof that authentication happened; only this crate makes one.
#[derive(Clone, Debug)]
pub struct Authenticated {
    user: Arc<User>,
    /// The token out of a Secret that proved it, if one did.
    legacy: Option<Arc<legacy::Use>>,
}

impl Authenticated {
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Whether it was proved with a token that is kept in a Secret.
    pub fn legacy_token(&self) -> Option<&legacy::Use> {
        self.legacy.as_deref()
    }
}

/// With the group that everybody has who proved who they are.
fn among_the_authenticated(mut user: User) -> User {
    if !user.is_in(GROUP_AUTHENTICATED) {
        user.groups.push(GROUP_AUTHENTICATED.to_owned());
    }
    user
}
