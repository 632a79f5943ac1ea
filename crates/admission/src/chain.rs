//! The plugins in order, and the proofs that they ran.

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::ApiError;
use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use telemetry::Registry;
use tokio::time::Instant;

use crate::attributes::Attributes;
use crate::context::Context;
use crate::metrics::Metrics;
use crate::observer::Observer;
use crate::reservation::{Beside, Reservation};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The object may be changed.
    Mutate,
    /// The object is as it will be stored.
    Validate,
}

/// What happens after somebody outside of this server has changed the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reinvocation {
    /// It runs again if the object is not as it left it. To run twice must be the same as to run
    /// once.
    IfChanged,
    /// It is what asks outside, so that its changes make the chain run once more, in order. It runs
    /// again in any case, and knows by `Context::memory` whom to ask again (`reinvocationPolicy` of
    /// webhooks and policies).
    Outside,
}

/// What a phase comes to: nothing, or the refusal.
pub type Admitting<'a> = BoxFuture<'a, Result<(), ApiError>>;

/// What was reserved, if anything, or the refusal.
pub type Validating<'a> = BoxFuture<'a, Result<Option<Box<dyn Reservation>>, ApiError>>;

/// One plugin. Both phases default to "no opinion".
pub trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// Whether it has anything to say. Where not, it costs nothing more than this question.
    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool;

    fn reinvocation(&self) -> Reinvocation {
        Reinvocation::IfChanged
    }

    /// May change the object.
    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        let _ = context;
        Box::pin(ready(Ok(())))
    }

    /// Sees the object as it will be stored.
    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let _ = context;
        Box::pin(ready(Ok(None)))
    }
}

/// Proof that every plugin had its chance to change the object.
#[must_use]
#[derive(Debug)]
pub struct Mutated(());

/// Proof that every plugin agreed to the object as it is, with what they reserved for it. Dropped,
/// that is given back.
#[must_use]
pub struct Valid {
    reserved: Mutex<Reserved>,
}

#[derive(Default)]
struct Reserved {
    open: Vec<Box<dyn Reservation>>,
    /// Held until the request is over, so that who waits for a turn sees what this one did.
    kept: Vec<Box<dyn Reservation>>,
}

impl Valid {
    /// What was agreed to has happened.
    pub fn keep(&self) {
        let mut reserved = self.lock();
        let mut open = std::mem::take(&mut reserved.open);
        open.iter_mut().for_each(|it| it.keep());
        reserved.kept.append(&mut open);
    }

    /// What must be written together with the object.
    pub fn beside(&self) -> Vec<Beside> {
        self.lock().open.iter().flat_map(|it| it.beside()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Reserved> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Chain {
    plugins: ArcSwap<Plugins>,
    asks_outside: bool,
    /// Absent where nobody wants to know.
    metrics: Option<Metrics>,
}

type Plugins = Vec<Arc<dyn Plugin>>;

impl Chain {
    /// `plugins` run in this order; see `plugins::all`.
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Self {
        let asks_outside = plugins.iter().any(|it| it.reinvocation() == Reinvocation::Outside);
        Self { plugins: ArcSwap::from_pointee(plugins), asks_outside, metrics: None }
    }

    /// Says how long each plugin and each phase takes.
    #[must_use]
    pub fn measured(self, registry: &Registry) -> Self {
        let plugins = self.plugins.load_full();
        let names = plugins.iter().map(|it| it.name());
        Self { metrics: Some(Metrics::new(registry, names)), ..self }
    }

    /// Each takes the place of the one of its name, all at once; a phase of a request that has begun
    /// ends with those from before. Which plugins there are, and their order, stays.
    pub fn replace(&self, renewed: &[Arc<dyn Plugin>]) {
        let before = self.plugins.load_full();
        let now = before.iter().map(|plugin| {
            let new = renewed.iter().find(|it| it.name() == plugin.name());
            new.unwrap_or(plugin).clone()
        });
        self.plugins.store(Arc::new(now.collect()));
    }

    /// The first phase: plugins may change the object. The first refusal ends it.
    pub async fn mutate(&self, context: &mut Context<'_>) -> Result<Mutated, ApiError> {
        let begin = Instant::now();
        let outcome = self.mutate_all(context).await;
        if let Some(metrics) = &self.metrics {
            let (operation, is_refused) = (context.request.operation, outcome.is_err());
            metrics.step(Phase::Mutate, operation, is_refused, begin.elapsed());
        }
        outcome.map(|()| Mutated(()))
    }

    async fn mutate_all(&self, context: &mut Context<'_>) -> Result<(), ApiError> {
        if let Some(observer) = context.observer() {
            observer.begin(context.request.operation.text());
        }
        let plugins = self.plugins.load_full();
        // How each has left the object.
        let mut left: Vec<Option<u64>> = Vec::new();
        left.resize(if self.asks_outside { plugins.len() } else { 0 }, None);
        let mut is_changed_outside = false;
        for (index, plugin) in plugins.iter().enumerate() {
            if !plugin.handles(Phase::Mutate, &context.request) {
                continue;
            }
            let before = context.generation();
            self.admit((index, plugin.as_ref()), context).await?;
            let is_outside = plugin.reinvocation() == Reinvocation::Outside;
            is_changed_outside |= is_outside && context.generation() != before;
            if let Some(left) = left.get_mut(index) {
                *left = Some(context.generation());
            }
        }
        if is_changed_outside {
            self.mutate_again(&plugins, context, &left).await?;
        }
        Ok(())
    }

    /// Once, whatever happens meanwhile.
    async fn mutate_again(
        &self,
        plugins: &Plugins,
        context: &mut Context<'_>,
        left: &[Option<u64>],
    ) -> Result<(), ApiError> {
        context.reinvoke();
        for (index, (plugin, left)) in plugins.iter().zip(left).enumerate() {
            let Some(left) = *left else { continue };
            let is_due = match plugin.reinvocation() {
                Reinvocation::IfChanged => context.generation() != left,
                Reinvocation::Outside => true,
            };
            if is_due {
                self.admit((index, plugin.as_ref()), context).await?;
            }
        }
        Ok(())
    }

    async fn admit(
        &self,
        (index, plugin): (usize, &dyn Plugin),
        context: &mut Context<'_>,
    ) -> Result<(), ApiError> {
        let begin = Instant::now();
        let outcome = admit(plugin, context).await;
        if let Some(metrics) = &self.metrics {
            let (operation, is_refused) = (context.request.operation, outcome.is_err());
            metrics.plugin(index, Phase::Mutate, operation, is_refused, begin.elapsed());
        }
        outcome
    }

    /// The second phase, after the kind's own validation: plugins only look, and may reserve.
    pub async fn validate(
        &self,
        mutated: Mutated,
        context: &Context<'_>,
    ) -> Result<Valid, ApiError> {
        let Mutated(()) = mutated;
        let begin = Instant::now();
        let outcome = self.validate_all(context).await;
        if let Some(metrics) = &self.metrics {
            let (operation, is_refused) = (context.request.operation, outcome.is_err());
            metrics.step(Phase::Validate, operation, is_refused, begin.elapsed());
        }
        let reserved = Mutex::new(outcome?);
        Ok(Valid { reserved })
    }

    async fn validate_all(&self, context: &Context<'_>) -> Result<Reserved, ApiError> {
        let mut reserved = Reserved::default();
        let mut refusal = None;
        let plugins = self.plugins.load_full();
        for (index, plugin) in plugins.iter().enumerate() {
            if !plugin.handles(Phase::Validate, &context.request) {
                continue;
            }
            let begin = Instant::now();
            let outcome = match context.observer() {
                None => plugin.validate(context).await,
                Some(observer) => validate_observed(plugin.as_ref(), context, observer).await,
            };
            if let Some(metrics) = &self.metrics {
                let (operation, is_refused) = (context.request.operation, outcome.is_err());
                metrics.plugin(index, Phase::Validate, operation, is_refused, begin.elapsed());
            }
            match outcome {
                Ok(taken) => reserved.open.extend(taken),
                // Whoever wants to be told is told what the others say, too.
                Err(err) if context.observer().is_some() => {
                    refusal.get_or_insert(err);
                }
                Err(err) => return Err(err),
            }
        }
        refusal.map_or(Ok(reserved), Err)
    }
}

async fn admit(plugin: &dyn Plugin, context: &mut Context<'_>) -> Result<(), ApiError> {
    let before = context.observer().map(|it| it.before(context, Phase::Mutate));
    let outcome = plugin.admit(context).await;
    if let Some(before) = before {
        before.after(plugin.name(), context, outcome.as_ref().err());
    }
    outcome
}

async fn validate_observed(
    plugin: &dyn Plugin,
    context: &Context<'_>,
    observer: &Observer,
) -> Result<Option<Box<dyn Reservation>>, ApiError> {
    let before = observer.before(context, Phase::Validate);
    let outcome = plugin.validate(context).await;
    before.after(plugin.name(), context, outcome.as_ref().err());
    outcome
}
