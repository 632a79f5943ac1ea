//! Loads of single calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::connect::{Connection, Target};
use crate::{NAMESPACE, Result};

pub(crate) fn path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

pub(crate) async fn make_namespace(target: &Target) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let request = target.request("POST", "/api/v1/namespaces", body.to_string().as_bytes());
    match Connection::open(target).await?.call(&request).await?.0 {
        201 | 409 => Ok(()),
        code => Err(format!("the namespace cannot be made: {code}").into()),
    }
}

pub(crate) fn config_map(name: &str, bytes: usize) -> Vec<u8> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "load", "part": name}},
        "data": {"text": "x".repeat(bytes)},
    });
    object.to_string().into_bytes()
}

/// What a name starts with, so that runs on one server do not meet.
pub(crate) fn prefix() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("c{:x}", now.unwrap_or_default().as_micros())
}

pub(crate) async fn create(target: Arc<Target>, n: usize, seconds: usize) -> Result<Value> {
    let prefix = prefix();
    drive(target, n, seconds, 201, move |target, connection, number| {
        let body = config_map(&format!("{prefix}-{connection}-{number}"), 900);
        target.request("POST", &path(), &body)
    })
    .await
}

pub(crate) async fn get(target: Arc<Target>, n: usize, seconds: usize) -> Result<Value> {
    let mut connection = Connection::open(&target).await?;
    let name = prefix();
    let request = target.request("POST", &path(), &config_map(&name, 900));
    connection.call(&request).await?;
    let request = target.request("GET", &format!("{}/{name}", path()), b"");
    drive(target, n, seconds, 200, move |_, _, _| request.clone()).await
}

pub(crate) async fn fill(target: Arc<Target>, count: usize, bytes: usize) -> Result<Value> {
    const CONNECTIONS: usize = 32;
    let prefix = prefix();
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (target, next, prefix) = (target.clone(), next.clone(), prefix.clone());
        tasks.spawn(async move {
            let mut connection = Connection::open(&target).await?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Result::Ok(());
                }
                let body = config_map(&format!("{prefix}-{number}"), bytes);
                let (code, _) = connection.call(&target.request("POST", &path(), &body)).await?;
                expect(code, 201)?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(json!({"objects": count}))
}

pub(crate) async fn list(target: &Target, times: usize) -> Result<Value> {
    let mut connection = Connection::open(target).await?;
    let request = target.request("GET", &path(), b"");
    let mut took = Vec::new();
    let mut bytes = 0;
    for _ in 0..times {
        let started = Instant::now();
        let (code, length) = connection.call(&request).await?;
        expect(code, 200)?;
        bytes = length;
        took.push(started.elapsed());
    }
    took.sort_unstable();
    Ok(json!({"operations": times, "bytes": bytes, "p50_ms": milliseconds(&took, 50)}))
}

/// The newest revision of what is listed.
pub(crate) async fn revision(target: &Target) -> Result<String> {
    let request = target.request("GET", &format!("{}?limit=1", path()), b"");
    let mut connection = Connection::open(target).await?;
    let (code, length) = connection.call(&request).await?;
    expect(code, 200)?;
    let list: Value = serde_json::from_slice(connection.body(length))?;
    Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
}

pub(crate) async fn drive(
    target: Arc<Target>,
    connections: usize,
    seconds: usize,
    expected: u16,
    request: impl Fn(&Target, usize, usize) -> Vec<u8> + Clone + Send + 'static,
) -> Result<Value> {
    let length = Duration::from_secs(seconds as u64);
    let mut opened = Vec::new();
    for _ in 0..connections {
        opened.push(Connection::open(&target).await?);
    }
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (index, mut connection) in opened.into_iter().enumerate() {
        let (target, request) = (target.clone(), request.clone());
        tasks.spawn(async move {
            let mut took = Vec::new();
            while started.elapsed() < length {
                let bytes = request(&target, index, took.len());
                let sent = Instant::now();
                let (code, _) = connection.call(&bytes).await?;
                expect(code, expected)?;
                took.push(sent.elapsed());
            }
            Result::Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.extend(done??);
    }
    let elapsed = started.elapsed().as_secs_f64();
    took.sort_unstable();
    Ok(json!({
        "operations": took.len(),
        "per_second": (took.len() as f64 / elapsed).round(),
        "p50_ms": milliseconds(&took, 50),
        "p99_ms": milliseconds(&took, 99),
    }))
}

pub(crate) fn expect(code: u16, expected: u16) -> Result<()> {
    if code == expected { Ok(()) } else { Err(format!("{code} instead of {expected}").into()) }
}

pub(crate) fn milliseconds(sorted: &[Duration], percent: usize) -> f64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(f64::NAN, |it| it.as_secs_f64() * 1000.0)
}
