//! Processor and memory of one container, as numbers.

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use node_api::containers::Resources;
use serde::{Deserialize, Serialize};

use crate::container_config::resources::{amount, quota, shares};

/// Thousandths of a processor and bytes; 0: not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) cpu_request: i64,
    pub(crate) cpu_limit: i64,
    pub(crate) memory_request: i64,
    pub(crate) memory_limit: i64,
}

impl Size {
    /// A container without a limit has that of its pod.
    pub(crate) fn of(pod: &Pod, container: &Container) -> Self {
        let of_pod = pod.spec.as_ref().and_then(|it| it.resources.as_ref());
        let limits = |it: Option<&ResourceRequirements>, name: &str| {
            amount(it.and_then(|it| it.limits.as_ref()), name)
        };
        let limit = |name: &str| match limits(container.resources.as_ref(), name) {
            own if own.is_zero() => limits(of_pod, name),
            own => own,
        };
        let request = |name: &str| {
            amount(container.resources.as_ref().and_then(|it| it.requests.as_ref()), name)
        };
        Self {
            cpu_request: request("cpu").millis(),
            cpu_limit: limit("cpu").millis(),
            memory_request: request("memory").value(),
            memory_limit: limit("memory").value(),
        }
    }

    /// What the kernel is told, with the rest of `others`.
    pub(crate) fn resources(&self, others: &Resources) -> Resources {
        let cpu_request = if self.cpu_request == 0 { self.cpu_limit } else { self.cpu_request };
        Resources {
            cpu_shares: Some(shares(cpu_request)),
            cpu_quota: quota(self.cpu_limit),
            memory_limit: u64::try_from(self.memory_limit).ok().filter(|it| *it > 0),
            ..others.clone()
        }
    }

    /// What the kernel was told, or says. It knows no request of memory.
    pub(crate) fn in_force(resources: &Resources, memory_request: i64) -> Self {
        let micros = |it: std::time::Duration| i64::try_from(it.as_micros()).unwrap_or(i64::MAX);
        let cpu_limit = resources
            .cpu_quota
            .map_or(0, |it| micros(it.quota).saturating_mul(1000) / micros(it.period).max(1));
        let shares = i64::try_from(resources.cpu_shares.unwrap_or(0)).unwrap_or(0);
        let memory_limit = resources.memory_limit.and_then(|it| i64::try_from(it).ok());
        Self {
            // Up, so that what was rounded down comes out as it went in.
            cpu_request: (shares.saturating_mul(1000) + 1023) / 1024,
            cpu_limit,
            memory_request,
            memory_limit: memory_limit.unwrap_or(0),
        }
    }

    /// The larger of each; no limit is the largest.
    pub(crate) fn largest(&self, other: &Self) -> Self {
        let limit = |one: i64, two: i64| if one == 0 || two == 0 { 0 } else { one.max(two) };
        Self {
            cpu_request: self.cpu_request.max(other.cpu_request),
            cpu_limit: limit(self.cpu_limit, other.cpu_limit),
            memory_request: self.memory_request.max(other.memory_request),
            memory_limit: limit(self.memory_limit, other.memory_limit),
        }
    }

    pub(crate) fn has_same_cpu(&self, other: &Self) -> bool {
        (self.cpu_request, self.cpu_limit) == (other.cpu_request, other.cpu_limit)
    }

    pub(crate) fn has_same_memory(&self, other: &Self) -> bool {
        (self.memory_request, self.memory_limit) == (other.memory_request, other.memory_limit)
    }

    pub(crate) fn render(&self) -> String {
        let Self { cpu_request, cpu_limit, memory_request, memory_limit } = self;
        format!("{cpu_request},{cpu_limit},{memory_request},{memory_limit}")
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(',').map(|it| it.parse::<i64>().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            cpu_request: next()?,
            cpu_limit: next()?,
            memory_request: next()?,
            memory_limit: next()?,
        })
    }
}
