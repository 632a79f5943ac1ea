//! Counts what there is in a namespace, by lists that see every write before them: a quota that
//! nobody has charged since it was read is never said to have more left than it has.

use std::time::Duration;

use api::Resource;
use api::amounts::{self, Amounts, Written};
use api::core::pod::resize;
use api::core::resource_quota::usage::{
    Classes, Counted, counts_until, is_alive, is_for_extended_resource, needs_classes, owner_pod,
};
use api::core::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use api::resource::{DeviceClass, ResourceClaim};
use apimachinery::{GroupResource, GroupVersionResource, ObjectKey};
use client::{Client, ListOptions};
use jiff::Timestamp;
use reconcile::{Failed, Outcome as _};

use super::plan;

/// After how long what is being resized is looked at again: its end shows in nothing else.
const RESIZE: Duration = Duration::from_secs(10);
/// Others may work after so many objects.
const BATCH: usize = 256;

/// One look at a namespace.
pub(super) struct Look<'a> {
    pub(super) client: &'a Client,
    pub(super) quota: &'a ResourceQuota,
    pub(super) key: &'a ObjectKey,
    pub(super) now: Timestamp,
    /// Filled in where claims to devices are counted.
    pub(super) classes: Classes,
    pub(super) counted: Amounts,
    /// When something counts for less without anybody writing.
    pub(super) look_again: Option<Duration>,
}

impl Look<'_> {
    /// Of one resource, which is served as `resource`.
    pub(super) async fn count(&mut self, resource: &GroupVersionResource) -> Result<(), Failed> {
        let of = resource.group_resource();
        if plan::MEASURED.contains(&(resource.group.as_str(), resource.resource.as_str())) {
            return self.measure(&of).await;
        }
        let n = match plan::is_out_of_scope(self.quota, &of) {
            true => 0,
            false => self.number(resource).await?,
        };
        let each = Counted::Other(&of).usage(self.now);
        self.counted.extend(each.into_keys().map(|it| (it, Written::count(n))));
        Ok(())
    }

    /// Without the objects themselves, where the server says how many more there are.
    async fn number(&self, resource: &GroupVersionResource) -> Result<usize, Failed> {
        let failed = || Failed::to_any("count", resource.resource.clone(), self.key);
        let api = self.client.dynamic(resource.clone());
        let one = ListOptions { limit: Some(1), ..ListOptions::default() };
        let first = api.list(&self.key.namespace, one).await.map_err(failed())?;
        match (first.continue_token, first.remaining) {
            (None, _) => Ok(first.items.len()),
            (Some(_), Some(more)) => {
                Ok(first.items.len().saturating_add(usize::try_from(more).unwrap_or(usize::MAX)))
            }
            (Some(_), None) => {
                let all = api.list(&self.key.namespace, ListOptions::default()).await;
                Ok(all.map_err(failed())?.items.len())
            }
        }
    }

    async fn measure(&mut self, resource: &GroupResource) -> Result<(), Failed> {
        if plan::is_about(self.quota, resource) && resource.resource == "resourceclaims" {
            self.classes = self.classes().await?;
        }
        let mut totals = plan::nothing(self.quota, resource, &self.classes);
        let usage = match resource.resource.as_str() {
            "pods" => self.pods().await?,
            "services" => self.sum::<Service>(|it| Counted::Service(it)).await?,
            "persistentvolumeclaims" => {
                self.sum::<PersistentVolumeClaim>(|it| Counted::VolumeClaim(it)).await?
            }
            _ => self.device_claims().await?,
        };
        amounts::add(&mut totals, &usage);
        // Pods and claims to devices may both count for an extended resource.
        for (name, amount) in totals {
            let total = self.counted.entry(name).or_default();
            *total = total.plus(amount);
        }
        Ok(())
    }

    async fn list<T: Resource>(&self) -> Result<Vec<T>, Failed> {
        let api = self.client.api::<T>();
        let list = api.list(&self.key.namespace, ListOptions::default()).await;
        let list = list.map_err(Failed::to::<T>("count", self.key))?;
        let mut objects = Vec::with_capacity(list.items.len());
        for batch in list.items.chunks(BATCH) {
            objects.extend(batch.iter().filter_map(|it| T::decode(&it.bytes).ok()));
            tokio::task::yield_now().await;
        }
        Ok(objects)
    }

    fn sum_of<'b>(&self, all: impl Iterator<Item = Counted<'b>>) -> Amounts {
        let mut sum = Amounts::new();
        for counted in all.filter(|it| it.is_in_scope(self.quota)) {
            amounts::add(&mut sum, &counted.usage(self.now));
        }
        sum
    }

    async fn sum<T: Resource>(&self, as_counted: fn(&T) -> Counted<'_>) -> Result<Amounts, Failed> {
        let all = self.list::<T>().await?;
        Ok(self.sum_of(all.iter().map(as_counted)))
    }

    async fn pods(&mut self) -> Result<Amounts, Failed> {
        let pods = self.list::<Pod>().await?;
        let ending = pods.iter().filter(|it| is_alive(it, self.now)).filter_map(counts_until).min();
        let ending = ending.map(|it| it.duration_since(self.now));
        // A pod counts until its moment has passed.
        let ending = ending.and_then(|it| Duration::try_from(it).ok());
        let ending = ending.map(|it| it + Duration::from_millis(1));
        let is_resizing = pods.iter().any(is_resizing).then_some(RESIZE);
        self.look_again = [self.look_again, ending, is_resizing].into_iter().flatten().min();
        Ok(self.sum_of(pods.iter().map(Counted::Pod)))
    }

    async fn classes(&self) -> Result<Classes, Failed> {
        let of = GroupResource::new("resource.k8s.io", "resourceclaims");
        let hard = self.quota.spec.iter().flat_map(|it| it.hard.iter().flatten());
        if !hard.map(|it| it.0).any(|it| needs_classes(&of, it)) {
            return Ok(Classes::new());
        }
        let api = self.client.api::<DeviceClass>();
        let list = api.list("", ListOptions::default()).await.unless_gone();
        let list = list.map_err(Failed::to::<DeviceClass>("list", self.key))?;
        let items = list.into_iter().flat_map(|it| it.items);
        let classes = items.filter_map(|it| DeviceClass::decode(&it.bytes).ok());
        let named = |it: DeviceClass| Some((it.metadata.name?, it.spec.extended_resource_name?));
        Ok(classes.filter_map(named).collect())
    }

    async fn device_claims(&self) -> Result<Amounts, Failed> {
        let claims = self.list::<ResourceClaim>().await?;
        let is_extended = claims.iter().any(is_for_extended_resource);
        let pods = if is_extended { self.list::<Pod>().await? } else { Vec::new() };
        let mut sum = Amounts::new();
        for claim in &claims {
            let owner = owner_pod(claim).filter(|_| is_for_extended_resource(claim));
            let is_owner = |it: &&Pod| {
                owner.as_ref().is_some_and(|owner| it.metadata.uid.as_deref() == Some(owner.1))
            };
            let of_pod = pods.iter().find(is_owner).map(|it| Counted::Pod(it).usage(self.now));
            let counted =
                Counted::DeviceClaim { claim, classes: &self.classes, of_pod: of_pod.as_ref() };
            amounts::add(&mut sum, &self.sum_of([counted].into_iter()));
        }
        Ok(sum)
    }
}

fn is_resizing(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let mut types = conditions.map(|it| it.type_.as_str());
    types.any(|it| matches!(it, resize::PENDING | resize::IN_PROGRESS))
}
