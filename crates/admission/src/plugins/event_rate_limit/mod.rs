//! Events come no faster than the server, their namespace, their writer or what they are about may
//! write them.

mod buckets;
mod settings;
#[cfg(test)]
mod tests;

use std::future::ready;

use api::core::Event;
use apimachinery::ApiError;
use stdx::SharedClock;

use self::buckets::Buckets;
use self::settings::{EventRateLimitSettings, LimitType};
use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::configuration::{Configuration, Error};
use crate::context::Context;

pub struct EventRateLimit {
    limits: Vec<(LimitType, Buckets)>,
    clock: SharedClock,
}

impl EventRateLimit {
    pub fn new(files: &Configuration, clock: SharedClock) -> Result<Self, Error> {
        let settings: Option<EventRateLimitSettings> = files.settings()?;
        let what = "limits: Invalid value: null: must not be empty";
        let missing = Error::Missing { plugin: settings::PLUGIN, what };
        let limits = settings.ok_or(missing)?.limits;
        let limits = limits.iter().map(|it| (it.type_, Buckets::new(it))).collect();
        Ok(Self { limits, clock })
    }

    fn take(&self, context: &Context<'_>) -> Result<(), ApiError> {
        let now = self.clock.now();
        // Each is asked, also after one has refused.
        let refusals = self.limits.iter().filter_map(|(type_, buckets)| {
            let key = key_of(*type_, context);
            let is_taken = buckets.take(&key, now);
            (!is_taken).then(|| format!("limit reached on type {} for key {key}", type_.name()))
        });
        let refusals: Vec<String> = refusals.collect();
        let text = match refusals.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        Err(ApiError::too_many_requests(text, 0).without_retry_after())
    }
}

/// Whose allowance an event takes from.
fn key_of(type_: LimitType, context: &Context<'_>) -> String {
    match type_ {
        LimitType::Server => String::new(),
        LimitType::Namespace => context.request.namespace.to_owned(),
        LimitType::User => context.request.user.name.clone(),
        LimitType::SourceAndObject => context.object_as().map(about).unwrap_or_default(),
    }
}

fn about(event: &Event) -> String {
    let source = event.source.as_ref();
    let object = &event.involved_object;
    let parts = [
        source.and_then(|it| it.component.as_deref()),
        source.and_then(|it| it.host.as_deref()),
        object.kind.as_deref(),
        object.namespace.as_deref(),
        object.name.as_deref(),
        object.uid.as_deref(),
        object.api_version.as_deref(),
    ];
    parts.into_iter().flatten().collect()
}

impl Plugin for EventRateLimit {
    fn name(&self) -> &'static str {
        settings::PLUGIN
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && (request.is_of("", "events") || request.is_of("events.k8s.io", "events"))
            && !request.is_dry_run()
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(self.take(context).map(|()| None)))
    }
}
