//! Pods on a real node: how long one takes from its creation to Ready as a watch shows it, step by
//! step, and how many a second become so when they are created at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::connect::{Connection, Target};
use crate::{NAMESPACE, Result, watches};

/// How long pods may take.
const WAIT_MAX: Duration = Duration::from_secs(180);
/// Of events that were read and not looked at yet.
const EVENTS_MAX: usize = 4096;

/// Whether a pod is so far.
type IsSo = fn(&Value) -> bool;

/// A moment in a pod's life at which a watch first showed it so.
const STEPS: &[(&str, IsSo)] = &[
    ("added", |_| true),
    ("scheduled", |pod| pod["spec"]["nodeName"].is_string()),
    ("running", |pod| pod["status"]["phase"] == "Running"),
    ("ready", is_ready),
];

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let is_it = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
    conditions.is_some_and(|it| it.iter().any(is_it))
}

/// One after the other; the medians of all but the first, which brings the image.
pub(crate) async fn one_by_one(target: &Target, image: &str, count: usize) -> Result<Value> {
    let mut events = watch(target).await?;
    let mut connection = Connection::open(target).await?;
    let mut taken: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for number in 0..=count {
        let started = Instant::now();
        let name = format!("one-{number}");
        create(target, &mut connection, &name, image).await?;
        let answered = started.elapsed();
        let steps = follow(&mut events, &name, started).await?;
        if number > 0 {
            taken.entry("answered").or_default().push(millis(answered));
            for (step, after) in steps {
                taken.entry(step).or_default().push(millis(after));
            }
        }
    }
    let medians: BTreeMap<&str, f64> =
        taken.into_iter().map(|(step, mut all)| (step, median(&mut all))).collect();
    Ok(json!({"operations": count, "milliseconds": medians}))
}

/// All at once.
pub(crate) async fn at_once(target: &Arc<Target>, image: &str, count: usize) -> Result<Value> {
    const CONNECTIONS: usize = 8;
    let mut events = watch(target).await?;
    let started = Instant::now();
    let mut creators = tokio::task::JoinSet::new();
    for first in 0..CONNECTIONS {
        let (target, image) = (target.clone(), image.to_owned());
        creators.spawn(async move {
            let mut connection = Connection::open(&target).await?;
            for number in (first..count).step_by(CONNECTIONS) {
                create(&target, &mut connection, &format!("burst-{number}"), &image).await?;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
    let mut ready = std::collections::BTreeSet::new();
    let all = async {
        while ready.len() < count {
            let (_, pod) = events.recv().await.ok_or("the watch ended")?;
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if is_ready(&pod) && name.starts_with("burst-") {
                ready.insert(name);
            }
        }
        Result::Ok(())
    };
    tokio::time::timeout(WAIT_MAX, all).await.map_err(|_| "pods did not become ready")??;
    let seconds = started.elapsed().as_secs_f64();
    while let Some(created) = creators.join_next().await {
        created??;
    }
    let per_second = count as f64 / seconds;
    Ok(json!({"operations": count, "seconds": seconds, "per second": per_second}))
}

/// The first moments of each step, until the last.
async fn follow(
    events: &mut mpsc::Receiver<(Instant, Value)>,
    name: &str,
    started: Instant,
) -> Result<BTreeMap<&'static str, Duration>> {
    let mut steps = BTreeMap::new();
    let all = async {
        while steps.len() < STEPS.len() {
            let (at, pod) = events.recv().await.ok_or("the watch ended")?;
            if pod["metadata"]["name"] != name {
                continue;
            }
            for (step, _) in STEPS.iter().filter(|(_, is_so)| is_so(&pod)) {
                steps.entry(*step).or_insert_with(|| at.duration_since(started));
            }
        }
        Result::Ok(())
    };
    let done = tokio::time::timeout(WAIT_MAX, all).await;
    done.map_err(|_| format!("pod {name} came to {steps:?} within {WAIT_MAX:?}"))??;
    Ok(steps)
}

async fn create(
    target: &Target,
    connection: &mut Connection,
    name: &str,
    image: &str,
) -> Result<()> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent"}],
        },
    });
    let request = target.request("POST", &path(), pod.to_string().as_bytes());
    let (code, length) = connection.call(&request).await?;
    if code != 201 {
        let answer = String::from_utf8_lossy(connection.body(length)).into_owned();
        return Err(format!("pod {name} was answered with {code}: {answer}").into());
    }
    Ok(())
}

fn path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

/// Pods as events show them, each with when it arrived.
async fn watch(target: &Target) -> Result<mpsc::Receiver<(Instant, Value)>> {
    let mut sender = watches::connect(target).await?;
    let uri = format!("https://{}{}?watch=true&timeoutSeconds=600", target.host, path());
    let mut request = Request::get(uri).header(header::ACCEPT, "application/json");
    if let Some(authorization) = target.authorization() {
        request = request.header(header::AUTHORIZATION, authorization);
    }
    let response = sender.send_request(request.body(Empty::new())?).await?;
    if !response.status().is_success() {
        return Err(format!("a watch was answered with {}", response.status()).into());
    }
    let (tx, rx) = mpsc::channel(EVENTS_MAX);
    tokio::spawn(async move {
        // The connection lives as long as its sender.
        let _sender = sender;
        read(response.into_body(), &tx).await;
    });
    Ok(rx)
}

async fn read(mut body: Incoming, events: &mpsc::Sender<(Instant, Value)>) {
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let at = Instant::now();
        rest.extend_from_slice(frame.data_ref().map_or(&[], |it| it));
        while let Some(end) = rest.iter().position(|it| *it == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let Ok(mut event) = serde_json::from_slice::<Value>(&line) else { return };
            if events.send((at, event["object"].take())).await.is_err() {
                return;
            }
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
