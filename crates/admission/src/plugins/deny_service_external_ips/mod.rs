//! Nobody gives a Service an external IP that it does not have already: whoever may would get the
//! traffic of others (CVE-2020-8554).

#[cfg(test)]
mod tests;

use std::future::ready;

use api::core::Service;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

pub struct DenyServiceExternalIps;

fn external(service: &Service) -> &[String] {
    let addresses = service.spec.as_ref().and_then(|it| it.external_ips.as_deref());
    addresses.unwrap_or_default()
}

impl Plugin for DenyServiceExternalIps {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && request.is("", "services", "")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let known = context.old_as::<Service>().map(external).unwrap_or_default();
        let asked = context.object_as::<Service>().map(external).unwrap_or_default();
        let outcome = match asked.iter().all(|it| known.contains(it)) {
            true => Ok(None),
            false => Err(context.forbidden("Use of external IPs is denied by admission control")),
        };
        Box::pin(ready(outcome))
    }
}
