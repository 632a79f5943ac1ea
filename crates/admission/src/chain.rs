//! The plugins in order, and the proofs that they ran.

use std::sync::Arc;

use apimachinery::ApiError;
use futures_util::future::BoxFuture;

use crate::attributes::Attributes;

/// One plugin. Both phases default to "no opinion".
pub trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// May change `attributes.object`.
    fn admit<'a>(
        &'a self,
        attributes: &'a mut Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let _ = attributes;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Sees the object as it will be stored.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let _ = attributes;
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Proof that every plugin had its chance to change the object.
#[must_use]
#[derive(Debug)]
pub struct Mutated(());

/// Proof that every plugin agreed to the object as it is.
#[must_use]
#[derive(Debug)]
pub struct Valid(());

pub struct Chain {
    plugins: Vec<Arc<dyn Plugin>>,
}

impl Chain {
    /// `plugins` run in this order; see `plugins::all`.
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        Self { plugins }
    }

    /// The first phase: plugins may change the object. The first refusal ends it.
    pub async fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<Mutated, ApiError> {
        for plugin in &self.plugins {
            plugin.admit(attributes).await?;
        }
        Ok(Mutated(()))
    }

    /// The second phase, after the kind's own validation: plugins only look.
    pub async fn validate(
        &self,
        mutated: Mutated,
        attributes: &Attributes<'_>,
    ) -> Result<Valid, ApiError> {
        let Mutated(()) = mutated;
        for plugin in &self.plugins {
            plugin.validate(attributes).await?;
        }
        Ok(Valid(()))
    }
}
