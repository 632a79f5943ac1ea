//! What a write adds to the quotas of its namespace, or why it may not. Texts and order as
//! upstream's (`CheckRequest` in apiserver/pkg/admission/plugin/resourcequota).

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Stored;
use api::amounts::{self, Amounts};
use api::core::ResourceQuota;
use api::core::resource_quota::usage::{Classes, Counted, counts, scopes_of, unspecified};
use apimachinery::GroupResource;
use jiff::Timestamp;

use super::limited::{Limited, Needed};

/// A write, as quotas see it.
pub(super) struct Asked<'a> {
    pub(super) resource: &'a GroupResource,
    pub(super) classes: &'a Classes,
    pub(super) new: Counted<'a>,
    pub(super) old: Option<Counted<'a>>,
    /// It says what has happened: it is counted, and not refused.
    pub(super) is_status: bool,
    pub(super) limited: &'a [Limited],
    pub(super) now: Timestamp,
}

/// A quota and what its controller has said of it. What that has not seen is not enforced.
pub(super) struct Known {
    quota: Arc<ResourceQuota>,
    hard: Amounts,
    used: Amounts,
}

impl Known {
    /// One that cannot be read bounds nothing.
    pub(super) fn of(stored: &Stored) -> Option<Self> {
        let quota = stored.shared::<ResourceQuota>().ok()?;
        let status = quota.status.as_ref();
        let hard = amounts::parse(status.and_then(|it| it.hard.as_ref()));
        let used = amounts::parse(status.and_then(|it| it.used.as_ref()));
        Some(Self { quota, hard, used })
    }

    pub(super) fn name(&self) -> &str {
        self.quota.metadata.name.as_deref().unwrap_or_default()
    }

    /// By what it bounds the write, if it does; or why that cannot be told.
    fn bounds(&self, asked: &Asked<'_>) -> Result<Option<Vec<&str>>, String> {
        let counted = |it: &&str| counts(asked.resource, it, asked.classes);
        let bounded: Vec<&str> = self.hard.keys().map(String::as_str).filter(counted).collect();
        if bounded.is_empty() || !asked.new.is_in_scope(&self.quota) {
            return Ok(None);
        }
        if let Counted::Pod(pod) = asked.new
            && let Some(why) = unspecified(pod, bounded.iter().copied())
        {
            return Err(format!("failed quota: {}: {why}", self.name()));
        }
        if bounded.iter().any(|it| !self.used.contains_key(*it)) {
            let bounded = bounded.join(",");
            return Err(format!("status unknown for quota: {}, resources: {bounded}", self.name()));
        }
        Ok(Some(bounded))
    }

    /// What would be used with so much more, if that is more than nothing.
    fn with(&self, more: &Amounts, asked: &Asked<'_>) -> Result<Option<Amounts>, String> {
        let mut requested = more.clone();
        requested.retain(|name, it| !it.amount.is_zero() && self.hard.contains_key(name));
        if requested.is_empty() {
            return Ok(None);
        }
        let mut used = self.used.clone();
        amounts::add(&mut used, &requested);
        let is_exceeded = |name: &String| used[name].amount > self.hard[name].amount;
        if !asked.is_status && requested.keys().any(is_exceeded) {
            let only = |all: &Amounts| {
                let of = all.iter().filter(|it| requested.contains_key(it.0) && is_exceeded(it.0));
                let of: Amounts = of.map(|(name, it)| (name.clone(), *it)).collect();
                amounts::shown(&of)
            };
            return Err(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                self.name(),
                only(&requested),
                only(&self.used),
                only(&self.hard)
            ));
        }
        Ok(Some(used))
    }
}

/// The quotas that change, by their place, and what will be used of them.
pub(super) fn charge(quotas: &[Known], asked: &Asked<'_>) -> Result<Vec<(usize, Amounts)>, String> {
    let mut bounding = Vec::new();
    let mut bounded = BTreeSet::new();
    for (index, quota) in quotas.iter().enumerate() {
        if let Some(names) = quota.bounds(asked)? {
            bounding.push((index, quota));
            bounded.extend(names);
        }
    }
    if bounding.is_empty() && asked.limited.is_empty() {
        return Ok(Vec::new());
    }
    let usage = asked.new.usage(asked.now);
    let negative: Vec<&str> =
        usage.iter().filter(|it| it.1.amount.is_negative()).map(|it| it.0.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let before = asked.old.map(|it| it.usage(asked.now)).unwrap_or_default();
    let more = |name: &String| usage[name].minus(before.get(name).copied().unwrap_or_default());
    let difference: Amounts = usage.keys().map(|name| (name.clone(), more(name))).collect();
    // Of a quota that it was not of before, it takes all that it needs.
    let was_counted = |quota: &Known| asked.old.is_some_and(|it| it.is_in_scope(&quota.quota));
    let more_of = |quota| if was_counted(quota) { &difference } else { &usage };
    let is_more =
        |it: &Amounts| it.values().any(|it| !it.amount.is_zero() && !it.amount.is_negative());
    let takes_more = match bounding.is_empty() {
        true => is_more(&difference),
        false => bounding.iter().any(|it| is_more(more_of(it.1))),
    };
    if takes_more && !asked.limited.is_empty() {
        let needed = Needed::of(asked.limited, asked.resource, asked.new, &usage);
        let scopes: Vec<_> = quotas.iter().flat_map(|it| scopes_of(&it.quota)).collect();
        let scopes: Vec<_> = scopes.into_iter().filter(|it| asked.new.is_matched_by(it)).collect();
        needed.validate(&bounded, &scopes)?;
    }
    let mut charged = Vec::new();
    for (index, quota) in bounding {
        charged.extend(quota.with(more_of(quota), asked)?.map(|used| (index, used)));
    }
    Ok(charged)
}
