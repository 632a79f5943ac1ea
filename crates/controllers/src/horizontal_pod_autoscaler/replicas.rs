//! How many replicas a measured value asks for. Pure. What cannot be computed is said in words that
//! go into a condition; numbers beyond all bounds saturate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::core::pod::PodView;
use apimachinery::quantity::Amount;
use jiff::{SignedDuration, Timestamp};

/// What was measured of one pod, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub value: i64,
    pub time: Timestamp,
    pub window: Duration,
}

/// By name of the pod.
pub(super) type Samples = BTreeMap<String, Sample>;

/// How far the ratio of usage and target may be from one without anything being done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    fn covers(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// Whose pods are measured, and when.
#[derive(Clone, Copy)]
pub(super) struct Measured<'a> {
    pub namespace: &'a str,
    pub pods: &'a [Arc<PodView>],
    /// What the target asks for now.
    pub current: i32,
    pub tolerances: Tolerances,
    /// For how long after its start the CPU that a pod takes may be that of starting.
    pub cpu_initialization: Duration,
    /// A pod that was not ready for so long after its start never was.
    pub initial_readiness: Duration,
    pub now: Timestamp,
}

/// What a share of requests comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Utilization {
    pub replicas: i32,
    pub percent: i32,
    /// In thousandths.
    pub average: i64,
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";
const NO_SAMPLES: &str = "did not receive metrics for targeted pods (pods might be unready)";

/// The pods of a target, by what may be concluded from them.
#[derive(Debug, Default)]
struct Groups {
    n_ready: usize,
    /// Run, or will, but do not serve yet.
    unready: BTreeSet<String>,
    /// Nothing was measured of them.
    missing: BTreeSet<String>,
    /// End, or have failed.
    ignored: BTreeSet<String>,
}

impl Measured<'_> {
    fn group(&self, samples: &Samples, resource: &str) -> Groups {
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = pod.meta.key.name.clone();
            let sample = samples.get(&name);
            if pod.meta.is_deleting || pod.phase.as_str() == "Failed" {
                groups.ignored.insert(name);
            } else if matches!(pod.phase.as_str(), "" | "Pending") {
                groups.unready.insert(name);
            } else if let Some(sample) = sample {
                if resource == "cpu" && self.is_starting(pod, sample) {
                    groups.unready.insert(name);
                } else {
                    groups.n_ready += 1;
                }
            } else {
                groups.missing.insert(name);
            }
        }
        groups
    }

    /// Whether the CPU that was measured says nothing of what the pod takes when it serves.
    fn is_starting(&self, pod: &PodView, sample: &Sample) -> bool {
        let (Some(started), Some(changed)) = (pod.started, pod.ready_changed) else { return true };
        if after(started, self.cpu_initialization) > self.now {
            return !pod.is_ready || sample.time < after(changed, sample.window);
        }
        !pod.is_ready && after(started, self.initial_readiness) > changed
    }

    /// As many as share the usage so that each takes `target` percent of what it requests.
    pub(super) fn by_utilization(
        &self,
        mut samples: Samples,
        (resource, container): (&str, &str),
        target: i32,
    ) -> Result<Utilization, String> {
        positive(i64::from(target))?;
        let groups = self.known(&mut samples, resource)?;
        let requests = requests(self.pods, container, resource)?;
        let (ratio, percent, average) = utilization(&samples, &requests, target)?;
        let answer = |replicas| Ok(Utilization { replicas, percent, average });
        let fallback = i128::from(target.max(100));
        let needed = |name: &str| {
            let request = requests.get(name).copied().unwrap_or(0);
            saturated(i128::from(request) * fallback / 100)
        };
        let Some(samples) = completed(samples, &groups, ratio, needed) else {
            return answer(self.unless_tolerated(ratio, groups.n_ready));
        };
        let (changed, _, _) = utilization(&samples, &requests, target)?;
        answer(self.unless_turned(ratio, changed, samples.len()))
    }

    /// As many as bring the average of all pods to `target`. `resource` is empty for what is no
    /// resource.
    pub(super) fn by_average(
        &self,
        mut samples: Samples,
        resource: &str,
        target: i64,
    ) -> Result<(i32, i64), String> {
        positive(target)?;
        let groups = self.known(&mut samples, resource)?;
        let usage = average(&samples);
        let ratio = usage as f64 / target as f64;
        let Some(samples) = completed(samples, &groups, ratio, |_| target) else {
            return Ok((self.unless_tolerated(ratio, groups.n_ready), usage));
        };
        let changed = average(&samples) as f64 / target as f64;
        Ok((self.unless_turned(ratio, changed, samples.len()), usage))
    }

    /// As many as bring one value for all pods, which falls as pods are added, to `target`.
    pub(super) fn by_value(&self, usage: i64, target: i64) -> Result<i32, String> {
        positive(target)?;
        let ratio = usage as f64 / target as f64;
        if self.current == 0 {
            return Ok(count(ratio));
        }
        if self.tolerances.covers(ratio) {
            return Ok(self.current);
        }
        if self.pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        let is_ready = |pod: &&Arc<PodView>| pod.phase.as_str() == "Running" && pod.is_ready;
        Ok(count(ratio * self.pods.iter().filter(is_ready).count() as f64))
    }

    /// As many as bring each one's share of a value to `target`; and that share, now.
    pub(super) fn by_share(
        &self,
        usage: i64,
        target: i64,
        n_running: i32,
    ) -> Result<(i32, i64), String> {
        positive(target)?;
        let ratio = usage as f64 / (target as f64 * f64::from(n_running));
        let replicas = if self.tolerances.covers(ratio) {
            n_running
        } else {
            count(usage as f64 / target as f64)
        };
        // Nobody has a share while nobody runs; all of it is what the first would have.
        let share = (usage as f64 / f64::from(n_running.max(1))).ceil() as i64;
        Ok((replicas, share))
    }

    /// Leaves of the samples those that say something.
    fn known(&self, samples: &mut Samples, resource: &str) -> Result<Groups, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let groups = self.group(samples, resource);
        let of_pods: BTreeSet<&str> =
            self.pods.iter().map(|it| it.meta.key.name.as_str()).collect();
        samples.retain(|name, _| {
            of_pods.contains(name.as_str())
                && !groups.ignored.contains(name)
                && !groups.unready.contains(name)
        });
        if samples.is_empty() { Err(NO_SAMPLES.to_owned()) } else { Ok(groups) }
    }

    fn unless_tolerated(&self, ratio: f64, n_ready: usize) -> i32 {
        if self.tolerances.covers(ratio) { self.current } else { count(ratio * n_ready as f64) }
    }

    /// What was assumed of pods that nothing is known of must not turn the direction.
    fn unless_turned(&self, before: f64, after: f64, n_pods: usize) -> i32 {
        let is_turned = (before < 1.0 && after > 1.0) || (before > 1.0 && after < 1.0);
        if self.tolerances.covers(after) || is_turned {
            return self.current;
        }
        let replicas = count(after * n_pods as f64);
        let is_against =
            (after < 1.0 && replicas > self.current) || (after > 1.0 && replicas < self.current);
        if is_against { self.current } else { replicas }
    }
}

/// The samples with what has to be assumed of the others, so that a wrong assumption does the least
/// harm: who is silent takes all it may when replicas would be removed, and nothing when they would
/// be added. Absent when nothing has to be assumed.
fn completed(
    mut samples: Samples,
    groups: &Groups,
    ratio: f64,
    needed: impl Fn(&str) -> i64,
) -> Option<Samples> {
    let adds_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !adds_unready && groups.missing.is_empty() {
        return None;
    }
    let assumed = |value| Sample { value, time: Timestamp::UNIX_EPOCH, window: Duration::ZERO };
    for name in &groups.missing {
        if ratio < 1.0 {
            samples.insert(name.clone(), assumed(needed(name)));
        } else if ratio > 1.0 {
            samples.insert(name.clone(), assumed(0));
        }
    }
    if adds_unready {
        samples.extend(groups.unready.iter().map(|it| (it.clone(), assumed(0))));
    }
    Some(samples)
}

fn average(samples: &Samples) -> i64 {
    let total: i128 = samples.values().map(|it| i128::from(it.value)).sum();
    saturated(total / i128::try_from(samples.len().max(1)).unwrap_or(1))
}

/// Ratio of utilization and target, the utilization in percent, and the average.
fn utilization(
    samples: &Samples,
    requests: &BTreeMap<&str, i64>,
    target: i32,
) -> Result<(f64, i32, i64), String> {
    let (mut used, mut requested, mut n_pods) = (0_i128, 0_i128, 0_i128);
    for (name, sample) in samples {
        let Some(request) = requests.get(name.as_str()) else { continue };
        used += i128::from(sample.value);
        requested += i128::from(*request);
        n_pods += 1;
    }
    if requested == 0 || n_pods == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = (used * 100 / requested).clamp(i32::MIN.into(), i32::MAX.into());
    let percent = i32::try_from(percent).unwrap_or(i32::MAX);
    Ok((f64::from(percent) / f64::from(target), percent, saturated(used / n_pods)))
}

/// What each pod requests, in thousandths: of one container, of the pod, or of all its containers.
fn requests<'a>(
    pods: &'a [Arc<PodView>],
    container: &str,
    resource: &str,
) -> Result<BTreeMap<&'a str, i64>, String> {
    let request = |pod: &'a Arc<PodView>| {
        let request = if container.is_empty() && !pod.spec.requests.is_empty() {
            request_of_pod(pod, resource)?
        } else {
            request_of_containers(pod, container, resource)?
        };
        Ok((pod.meta.key.name.as_str(), request))
    };
    pods.iter().map(request).collect()
}

fn request_of_pod(pod: &PodView, resource: &str) -> Result<i64, String> {
    let containers = || pod.spec.containers.iter().filter_map(|it| it.requests.get(resource));
    let of_containers = || containers().map(millis).reduce(i64::saturating_add);
    let request = pod.spec.requests.get(resource).map(millis).or_else(of_containers);
    let request = request.ok_or_else(|| {
        format!("missing pod-level request for {resource} in Pod {}", pod.meta.key.name)
    })?;
    Ok(request.saturating_add(pod.spec.overhead.get(resource).map_or(0, millis)))
}

fn request_of_containers(pod: &PodView, wanted: &str, resource: &str) -> Result<i64, String> {
    let sidecars = pod.spec.init_containers.iter().filter(|it| it.is_sidecar);
    let containers = pod.spec.containers.iter().chain(sidecars);
    let (mut sum, mut is_found) = (0_i64, wanted.is_empty());
    let pod = &pod.meta.key.name;
    for container in containers.filter(|it| wanted.is_empty() || it.name.as_str() == wanted) {
        is_found = true;
        let request = container.requests.get(resource).ok_or_else(|| {
            let container = container.name.as_str();
            format!("missing request for {resource} in container {container} of Pod {pod}")
        })?;
        sum = sum.saturating_add(millis(request));
    }
    if is_found { Ok(sum) } else { Err(format!("container {wanted} not found in Pod {pod}")) }
}

fn millis(quantity: &str) -> i64 {
    Amount::parse(quantity).map_or(0, Amount::millis)
}

/// Targets are checked when they are written; one that came from before that is no reason to
/// divide by it.
fn positive(target: i64) -> Result<(), String> {
    if target > 0 { Ok(()) } else { Err(format!("the target {target} is not greater than zero")) }
}

/// Rounded up, never below zero, and as much as fits. (What is no number is zero.)
fn count(replicas: f64) -> i32 {
    (replicas.ceil() as i32).max(0)
}

fn saturated(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

pub(super) fn after(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
