//! Service accounts: their tokens.

mod token;

use authn::tokens::TokenIssuer;

use crate::pipeline::hooks::{Acting, Hooks, Of};
use crate::pipeline::{Core, Request};

pub(crate) struct ServiceAccounts {
    issuer: TokenIssuer,
}

impl ServiceAccounts {
    pub(crate) fn new(issuer: TokenIssuer) -> Self {
        Self { issuer }
    }
}

impl Hooks for ServiceAccounts {
    fn of(&self) -> &'static [Of] {
        &[("", "serviceaccounts")]
    }

    fn act<'a>(&'a self, core: &'a Core, request: &'a mut Request) -> Acting<'a> {
        Box::pin(token::issue(&self.issuer, core, request))
    }
}
