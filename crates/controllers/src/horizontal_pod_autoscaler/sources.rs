//! The three APIs that metrics are read from. Each may be absent; that is an answer like others.
//! What they say is read by pure functions.

use std::time::Duration;

use apimachinery::quantity::Amount;
use apimachinery::selector::Labels;
use apimachinery::{ApiError, GroupVersion, GroupVersionResource};
use client::{Client, ListOptions};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier};
use serde::Deserialize;

use super::measure::{Reading, Wanted};
use super::replicas::{Sample, Samples};
use super::target::Targets;

/// Over how long a metric was measured that does not say.
const WINDOW_DEFAULT: Duration = Duration::from_secs(60);
const CUSTOM: &str = "custom.metrics.k8s.io";
/// The first that is served is used.
const CUSTOM_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

pub(super) struct Sources {
    pub(super) client: Client,
}

impl Sources {
    /// `selector` is that of the target's pods.
    pub(super) async fn read(
        &self,
        targets: &Targets,
        namespace: &str,
        selector: &str,
        wanted: Wanted<'_>,
    ) -> Result<Reading, String> {
        match wanted {
            Wanted::Resource { resource, container } => {
                self.resource(namespace, selector, (resource, container)).await
            }
            Wanted::Pods(metric) => self.pods(namespace, selector, metric).await,
            Wanted::Object(object, metric) => self.object(targets, namespace, object, metric).await,
            Wanted::External(metric) => self.external(namespace, metric).await,
        }
    }

    async fn resource(
        &self,
        namespace: &str,
        selector: &str,
        (resource, container): (&str, &str),
    ) -> Result<Reading, String> {
        let pods = GroupVersionResource::new("metrics.k8s.io", "v1beta1", "pods");
        let label_selector = Some(selector.to_owned());
        let options = ListOptions { label_selector, ..ListOptions::default() };
        let list = self.client.dynamic(pods).list(namespace, options).await.map_err(|err| {
            let err = described(&err, "get pods.metrics.k8s.io");
            format!("unable to fetch metrics from resource metrics API: {err}")
        })?;
        if list.items.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        let bytes = list.items.iter().map(|it| &it.bytes[..]);
        Ok(Reading::OfPods(pod_metrics(bytes, resource, container)))
    }

    async fn pods(
        &self,
        namespace: &str,
        selector: &str,
        metric: &MetricIdentifier,
    ) -> Result<Reading, String> {
        let what = format!("namespaces/{namespace}/pods/*/{}", segment(&metric.name));
        let bytes = self.custom(&what, Some(selector), metric).await?;
        let values = metric_values(&bytes).map_err(|err| unreadable("custom", &err))?;
        if values.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        Ok(Reading::OfPods(values.into_iter().filter_map(sample_of_object).collect()))
    }

    async fn object(
        &self,
        targets: &Targets,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric: &MetricIdentifier,
    ) -> Result<Reading, String> {
        let group = object.api_version.as_deref().and_then(GroupVersion::parse);
        let group = group.map(|it| it.group).unwrap_or_default();
        let (name, metric_name) = (segment(&object.name), segment(&metric.name));
        let what = if group.is_empty() && object.kind == "Namespace" {
            // Of one's own namespace, whichever is named.
            format!("namespaces/{namespace}/metrics/{metric_name}")
        } else {
            let resource = targets
                .resource_of(&group, &object.kind)
                .await
                .map_err(|err| format!("unable to fetch metrics from custom metrics API: {err}"))?;
            let resource = resource.group_resource();
            format!("namespaces/{namespace}/{resource}/{name}/{metric_name}")
        };
        let bytes = self.custom(&what, None, metric).await?;
        let values = metric_values(&bytes).map_err(|err| unreadable("custom", &err))?;
        match values.as_slice() {
            [value] => Ok(Reading::Value(millis(&value.value))),
            others => Err(format!(
                "unable to fetch metrics from custom metrics API: the custom metrics API server \
                 returned {} results when we asked for exactly one",
                others.len()
            )),
        }
    }

    async fn external(
        &self,
        namespace: &str,
        metric: &MetricIdentifier,
    ) -> Result<Reading, String> {
        let name = segment(&metric.name);
        let query = query(None, metric, "labelSelector")?;
        let base = "/apis/external.metrics.k8s.io/v1beta1/namespaces";
        let answer = self.client.get_path(&format!("{base}/{namespace}/{name}{query}")).await;
        let bytes = answer.map_err(|err| {
            let err = described(&err, &format!("get {}.external.metrics.k8s.io", metric.name));
            format!("unable to fetch metrics from external metrics API: {err}")
        })?;
        let values = metric_values(&bytes).map_err(|err| unreadable("external", &err))?;
        if values.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        let sum = values.iter().map(|it| millis(&it.value)).fold(0_i64, i64::saturating_add);
        Ok(Reading::Value(sum))
    }

    async fn custom(
        &self,
        what: &str,
        selector: Option<&str>,
        metric: &MetricIdentifier,
    ) -> Result<bytes::Bytes, String> {
        let failed = |err: &str| format!("unable to fetch metrics from custom metrics API: {err}");
        let group = match self.client.get_path(&format!("/apis/{CUSTOM}")).await {
            Ok(group) => group,
            Err(err) if err.is_not_found() => {
                return Err(failed(&format!("no custom metrics API ({CUSTOM}) registered")));
            }
            Err(err) => return Err(failed(err.message())),
        };
        let version = served_version(&group).ok_or_else(|| {
            failed(&format!("no known available metric versions found in {CUSTOM}"))
        })?;
        let query = query(selector, metric, "metricLabelSelector")?;
        let path = format!("/apis/{CUSTOM}/{version}/{what}{query}");
        self.client.get_path(&path).await.map_err(|err| failed(err.message()))
    }
}

/// An absent API answers as to a path that nobody knows; upstream's client says what it asked for.
fn described(err: &ApiError, asked: &str) -> String {
    let message = err.message();
    if message == ApiError::no_such_resource().message() {
        return format!("{message} ({asked})");
    }
    message.to_owned()
}

fn unreadable(which: &str, err: &serde_json::Error) -> String {
    format!("unable to fetch metrics from {which} metrics API: {err}")
}

/// A part of a path: what does not belong there is escaped.
fn segment(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~*".contains(&byte);
    text.bytes()
        .map(
            |byte| {
                if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}

fn query(
    pods: Option<&str>,
    metric: &MetricIdentifier,
    metric_selector: &str,
) -> Result<String, String> {
    let of_metric = metric.selector.as_ref().map(|it| Labels::from_selector(Some(it)));
    let of_metric = of_metric.transpose().map_err(|err| err.to_string())?;
    let of_metric = of_metric.map(|it| it.to_string()).unwrap_or_default();
    let pairs = [("labelSelector", pods.unwrap_or_default()), (metric_selector, &of_metric)];
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> =
        pairs.map(|(name, value)| format!("{name}={}", segment(value))).collect();
    Ok(if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) })
}

#[derive(Deserialize)]
struct Group {
    versions: Vec<GroupVersionName>,
}

#[derive(Deserialize)]
struct GroupVersionName {
    version: String,
}

pub(super) fn served_version(group: &[u8]) -> Option<&'static str> {
    let group: Group = serde_json::from_slice(group).ok()?;
    let is_served = |it: &&str| group.versions.iter().any(|served| served.version == **it);
    CUSTOM_VERSIONS.into_iter().find(|it| is_served(it))
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: Named,
    timestamp: Option<Timestamp>,
    window: Option<String>,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: std::collections::BTreeMap<String, String>,
}

/// What all containers of each pod take, or one of them. Of a pod with a container that nothing is
/// known of, nothing is known.
pub(super) fn pod_metrics<'a>(
    items: impl Iterator<Item = &'a [u8]>,
    resource: &str,
    container: &str,
) -> Samples {
    let read = |bytes: &[u8]| {
        let metrics: PodMetrics = serde_json::from_slice(bytes).ok()?;
        let containers = metrics.containers.iter();
        let mut usages = containers
            .filter(|it| container.is_empty() || it.name == container)
            .map(|it| it.usage.get(resource).map(|it| millis(it)));
        let first = usages.next()??;
        let value = usages.try_fold(first, |sum, it| Some(sum.saturating_add(it?)))?;
        let sample = Sample {
            value,
            time: metrics.timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            window: window(metrics.window.as_deref()),
        };
        Some((metrics.metadata.name, sample))
    };
    items.filter_map(read).collect()
}

fn window(text: Option<&str>) -> Duration {
    let window = text.and_then(|it| it.parse::<SignedDuration>().ok());
    window.and_then(|it| Duration::try_from(it).ok()).unwrap_or(Duration::ZERO)
}

#[derive(Deserialize)]
struct MetricValues {
    #[serde(default)]
    items: Vec<MetricValue>,
}

/// Of both APIs, in each of their versions.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetricValue {
    described_object: Option<DescribedObject>,
    timestamp: Option<Timestamp>,
    #[serde(alias = "window")]
    window_seconds: Option<u64>,
    pub(super) value: String,
}

#[derive(Deserialize)]
struct DescribedObject {
    name: Option<String>,
}

pub(super) fn metric_values(bytes: &[u8]) -> Result<Vec<MetricValue>, serde_json::Error> {
    serde_json::from_slice::<MetricValues>(bytes).map(|it| it.items)
}

pub(super) fn sample_of_object(value: MetricValue) -> Option<(String, Sample)> {
    let sample = Sample {
        value: millis(&value.value),
        time: value.timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        window: value.window_seconds.map_or(WINDOW_DEFAULT, Duration::from_secs),
    };
    Some((value.described_object?.name?, sample))
}

fn millis(quantity: &str) -> i64 {
    Amount::parse(quantity).map_or(0, Amount::millis)
}
