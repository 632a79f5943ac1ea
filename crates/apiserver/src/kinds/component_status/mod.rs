//! How the parts of the control plane are: not stored, but looked at when somebody asks.

use std::sync::Arc;

use api::coordination::Lease;
use api::core::ComponentStatus;
use api::core::component_status;
use api::object::meta_of;
use api::{Lookup, Resource, Stored};
use apimachinery::{ApiError, GroupResource, ObjectKey};
use client::Verb;
use jiff::{SignedDuration, Timestamp};

use crate::pipeline::hooks::{Acting, Hooks, Of};
use crate::pipeline::{Core, ListAnswer, Outcome, Request, method_not_allowed, select};

/// What they are called here, and by their Leases.
const ELECTED: [(&str, &str); 2] =
    [("controller-manager", "kube-controller-manager"), ("scheduler", "kube-scheduler")];
const STORE: &str = "etcd-0";

pub(crate) struct ComponentStatuses;

impl Hooks for ComponentStatuses {
    fn of(&self) -> &'static [Of] {
        &[("", "componentstatuses")]
    }

    fn act<'a>(&'a self, core: &'a Core, request: &'a mut Request) -> Acting<'a> {
        Box::pin(async move {
            match request.call.verb {
                Verb::Get => get(core, request).await,
                Verb::List => list(core, request).await,
                _ => Err(method_not_allowed()),
            }
        })
    }
}

async fn get(core: &Core, request: &Request) -> Result<(Outcome, u16), ApiError> {
    let name = request.name();
    let mut all = look(core).await.into_iter();
    let found = all.find(|it| it.metadata.name.as_deref() == Some(name));
    let resource = GroupResource::new("", "componentstatus");
    let status = found.ok_or_else(|| ApiError::not_found(&resource, name))?;
    Ok((Outcome::Object(stored(&status)), 200))
}

/// All of them, whatever version, limit or page is asked for.
async fn list(core: &Core, request: &Request) -> Result<(Outcome, u16), ApiError> {
    let selection = select(request)?;
    let all = look(core).await;
    let items = all.iter().map(stored).filter(|it| selection.matches(&it.meta)).collect();
    let answer = ListAnswer {
        items,
        resource_version: 0,
        continue_token: None,
        remaining: None,
        is_served: true,
    };
    Ok((Outcome::List(answer), 200))
}

fn stored(status: &ComponentStatus) -> Arc<Stored> {
    let meta = meta_of(&status.metadata, Vec::new());
    Arc::new(Stored::new(meta, Resource::encode(status).into()))
}

/// Sorted by name.
async fn look(core: &Core) -> Vec<ComponentStatus> {
    let store = core.cache.wait_current().await.map(drop).map_err(|err| err.to_string());
    let now = core.world.clock.now();
    let mut all = vec![component_status::of(STORE, store)];
    for (name, lease) in ELECTED {
        // What runs in this process runs as long as this server does.
        let health = if core.config.has_components { Ok(()) } else { is_led(core, lease, now) };
        all.push(component_status::of(name, health));
    }
    all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    all
}

/// Others show that they run by renewing their Lease.
fn is_led(core: &Core, name: &str, now: Timestamp) -> Result<(), String> {
    let lookup: &dyn Lookup = core.cache.as_ref();
    let lease = lookup.get::<Lease>(&ObjectKey::new("kube-system", name));
    let spec = lease.as_ref().and_then(|it| it.spec.as_ref());
    let held = spec.filter(|it| it.holder_identity.as_ref().is_some_and(|it| !it.is_empty()));
    let renewed = held.and_then(|it| Some((it.renew_time.as_ref()?.0, it.lease_duration_seconds?)));
    let Some((renewed, seconds)) = renewed else {
        return Err(format!("nobody holds the Lease kube-system/{name}"));
    };
    let end = renewed.saturating_add(SignedDuration::from_secs(seconds.into()));
    match end.is_ok_and(|it| it >= now) {
        true => Ok(()),
        false => Err(format!("the Lease kube-system/{name} was last renewed at {renewed}")),
    }
}
