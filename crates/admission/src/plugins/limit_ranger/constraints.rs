//! What an item of a LimitRange demands, in upstream's words.

use std::collections::BTreeMap;

use api::amounts::{Amounts, Written};
use k8s_openapi::api::core::v1::LimitRangeItem;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// What somebody asks for.
pub(super) struct Asked {
    pub(super) requests: Amounts,
    pub(super) limits: Amounts,
}

/// Each resource of a list, with what it is bounded to.
fn bounds(
    list: Option<&BTreeMap<String, Quantity>>,
) -> impl Iterator<Item = (&str, Written)> + use<'_> {
    let each = list.into_iter().flatten();
    each.filter_map(|(name, it)| Some((name.as_str(), Written::parse(it)?)))
}

pub(super) fn min(item: &LimitRangeItem, asked: &Asked, problems: &mut Vec<String>) {
    for (resource, bound) in bounds(item.min.as_ref()) {
        let rule = format!("minimum {resource} usage per {} is {}", item.type_, bound.shown());
        let is_less = |it: &&Written| it.amount < bound.amount;
        match (asked.requests.get(resource), asked.limits.get(resource).filter(is_less)) {
            (None, _) => problems.push(format!("{rule}.  No request is specified")),
            (Some(request), _) if is_less(&request) => {
                problems.push(format!("{rule}, but request is {}", request.shown()));
            }
            (Some(_), Some(limit)) => {
                problems.push(format!("{rule}, but limit is {}", limit.shown()));
            }
            (Some(_), None) => {}
        }
    }
}

pub(super) fn max(item: &LimitRangeItem, asked: &Asked, problems: &mut Vec<String>) {
    for (resource, bound) in bounds(item.max.as_ref()) {
        let rule = format!("maximum {resource} usage per {} is {}", item.type_, bound.shown());
        let is_more = |it: &&Written| it.amount > bound.amount;
        match (asked.limits.get(resource), asked.requests.get(resource).filter(is_more)) {
            (None, _) => problems.push(format!("{rule}.  No limit is specified")),
            (Some(limit), _) if is_more(&limit) => {
                problems.push(format!("{rule}, but limit is {}", limit.shown()));
            }
            (Some(_), Some(request)) => {
                problems.push(format!("{rule}, but request is {}", request.shown()));
            }
            (Some(_), None) => {}
        }
    }
}

/// Of claims, which have no limits.
pub(super) fn max_request(item: &LimitRangeItem, asked: &Asked, problems: &mut Vec<String>) {
    for (resource, bound) in bounds(item.max.as_ref()) {
        let rule = format!("maximum {resource} usage per {} is {}", item.type_, bound.shown());
        match asked.requests.get(resource) {
            None => problems.push(format!("{rule}.  No request is specified")),
            Some(request) if request.amount > bound.amount => {
                problems.push(format!("{rule}, but request is {}", request.shown()));
            }
            Some(_) => {}
        }
    }
}

pub(super) fn ratio(item: &LimitRangeItem, asked: &Asked, problems: &mut Vec<String>) {
    for (resource, bound) in bounds(item.max_limit_request_ratio.as_ref()) {
        let type_ = &item.type_;
        let shown = bound.shown();
        let rule = format!("{resource} max limit to request ratio per {type_} is {shown}, but");
        let some = |amounts: &Amounts| {
            amounts.get(resource).map(|it| in_steps(*it)).filter(|it| *it != 0.0)
        };
        let Some(request) = some(&asked.requests) else {
            problems.push(format!("{rule} no request is specified or request is 0"));
            continue;
        };
        let Some(limit) = some(&asked.limits) else {
            problems.push(format!("{rule} no limit is specified or limit is 0"));
            continue;
        };
        let ratio = limit / request;
        if ratio > in_steps(bound) / STEPS {
            problems.push(format!("{rule} provided ratio is {ratio:.6}"));
        }
    }
}

/// Ratios are taken of thousandths.
const STEPS: f64 = 1000.0;

/// Beyond what thousandths can count, of whole units.
fn in_steps(written: Written) -> f64 {
    let units = written.amount.value();
    match units <= i64::MAX / 1000 {
        true => written.amount.millis() as f64,
        false => units as f64 * STEPS,
    }
}
