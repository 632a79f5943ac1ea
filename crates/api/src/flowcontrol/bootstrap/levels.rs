//! Priority levels: how many requests of a sort are carried out at a time, and how many wait.

use k8s_openapi::api::flowcontrol::v1::{
    ExemptPriorityLevelConfiguration, LimitResponse, LimitedPriorityLevelConfiguration,
    PriorityLevelConfiguration, PriorityLevelConfigurationSpec, QueuingConfiguration,
};

use super::{Upkeep, named};
use crate::flowcontrol::{CATCH_ALL, EXEMPT};

const QUEUE_LENGTH: i32 = 50;

/// Of a level whose requests wait in queues.
struct Queued {
    name: &'static str,
    shares: i32,
    lendable_percent: i32,
    queues: i32,
    hand_size: i32,
}

const fn queued(
    name: &'static str,
    (shares, lendable_percent): (i32, i32),
    (queues, hand_size): (i32, i32),
) -> Queued {
    Queued { name, shares, lendable_percent, queues, hand_size }
}

const SUGGESTED: [Queued; 6] = [
    // What keeps the cluster and its running pods alive.
    queued("system", (30, 33), (64, 6)),
    // How nodes are, apart from what starting pods asks for.
    queued("node-high", (40, 25), (64, 6)),
    queued("leader-election", (10, 0), (16, 4)),
    // Built-in controllers and the scheduler.
    queued("workload-high", (40, 50), (128, 6)),
    queued("workload-low", (100, 90), (128, 6)),
    queued("global-default", (20, 50), (128, 6)),
];

pub(super) fn all() -> Vec<(Upkeep, PriorityLevelConfiguration)> {
    let suggested = SUGGESTED.iter().map(|it| (Upkeep::Suggested, level(it)));
    let mandatory = [exempt(), catch_all()].map(|it| (Upkeep::Mandatory, it));
    mandatory.into_iter().chain(suggested).collect()
}

fn exempt() -> PriorityLevelConfiguration {
    let exempt = ExemptPriorityLevelConfiguration {
        nominal_concurrency_shares: Some(0),
        lendable_percent: Some(0),
    };
    let spec = PriorityLevelConfigurationSpec {
        type_: "Exempt".to_owned(),
        exempt: Some(exempt),
        limited: None,
    };
    PriorityLevelConfiguration { metadata: named(EXEMPT), spec: Some(spec), status: None }
}

fn catch_all() -> PriorityLevelConfiguration {
    limited(CATCH_ALL, (5, 0), LimitResponse { type_: "Reject".to_owned(), queuing: None })
}

fn level(level: &Queued) -> PriorityLevelConfiguration {
    let queuing = QueuingConfiguration {
        queues: Some(level.queues),
        hand_size: Some(level.hand_size),
        queue_length_limit: Some(QUEUE_LENGTH),
    };
    let response = LimitResponse { type_: "Queue".to_owned(), queuing: Some(queuing) };
    limited(level.name, (level.shares, level.lendable_percent), response)
}

fn limited(
    name: &str,
    (shares, lendable_percent): (i32, i32),
    response: LimitResponse,
) -> PriorityLevelConfiguration {
    let limited = LimitedPriorityLevelConfiguration {
        nominal_concurrency_shares: Some(shares),
        lendable_percent: Some(lendable_percent),
        limit_response: Some(response),
        borrowing_limit_percent: None,
    };
    let spec = PriorityLevelConfigurationSpec {
        type_: "Limited".to_owned(),
        limited: Some(limited),
        exempt: None,
    };
    PriorityLevelConfiguration { metadata: named(name), spec: Some(spec), status: None }
}
