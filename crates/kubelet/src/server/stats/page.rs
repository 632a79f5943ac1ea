//! The text of `/metrics/resource`, with upstream's names and help. Each sample has the time that
//! it was read at. Pure.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::{Reading, Used};

const CPU_HELP: &str = "[STABLE] Cumulative cpu time consumed by the";
const MEMORY_HELP: &str = "[STABLE] Current working set of the";

fn cpu(used: &Used) -> Option<f64> {
    Some(used.usage.cpu.as_secs_f64())
}

fn memory(used: &Used) -> Option<f64> {
    Some(used.usage.memory_working_set as f64)
}

fn swap(used: &Used) -> Option<f64> {
    used.usage.swap.map(|it| it as f64)
}

/// Name, type, help, and how it is read.
type Metric = (String, &'static str, String, fn(&Used) -> Option<f64>);

/// What is measured of everything.
fn metrics(what: &str) -> [Metric; 3] {
    let swap_help = match what {
        "node" => "[ALPHA] Current swap usage of the node in bytes.".to_owned(),
        what => format!("[ALPHA] Current amount of the {what} swap usage in bytes."),
    };
    [
        (
            format!("{what}_cpu_usage_seconds_total"),
            "counter",
            format!("{CPU_HELP} {what} in core-seconds"),
            cpu,
        ),
        (
            format!("{what}_memory_working_set_bytes"),
            "gauge",
            format!("{MEMORY_HELP} {what} in bytes"),
            memory,
        ),
        (
            format!("{what}_swap_usage_bytes"),
            "gauge",
            format!("{swap_help} Reported only on non-windows systems"),
            swap,
        ),
    ]
}

/// Labels and what is used by whom.
type Row<'a> = (String, &'a Used);

pub(super) fn render(reading: &Reading) -> String {
    let containers: Vec<(String, &super::ContainerUsed)> = reading
        .pods
        .iter()
        .flat_map(|pod| {
            let (name, namespace) = place(pod);
            pod.containers.iter().map(move |it| {
                let labels =
                    format!("container=\"{}\",namespace=\"{namespace}\",pod=\"{name}\"", it.name);
                (labels, it)
            })
        })
        .collect();
    let pods: Vec<Row<'_>> = reading
        .pods
        .iter()
        .filter_map(|pod| {
            let (name, namespace) = place(pod);
            let (whole, _) = pod.whole.as_ref()?;
            Some((format!("namespace=\"{namespace}\",pod=\"{name}\""), whole))
        })
        .collect();
    let mut page = String::new();
    let used: Vec<Row<'_>> =
        containers.iter().map(|(labels, it)| (labels.clone(), &it.used)).collect();
    add(&mut page, "container", &used);
    let (name, help) = (
        "container_start_time_seconds",
        "[STABLE] Start time of the container since unix epoch in seconds",
    );
    if !containers.is_empty() {
        head(&mut page, name, "gauge", help);
    }
    for (labels, container) in &containers {
        if let Some(started) = container.started {
            let seconds = started.as_millisecond() as f64 / 1000.0;
            line(&mut page, name, labels, seconds, container.used.at);
        }
    }
    let node: Vec<Row<'_>> = reading.node.iter().map(|it| (String::new(), it)).collect();
    add(&mut page, "node", &node);
    add(&mut page, "pod", &pods);
    let help = "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise";
    head(&mut page, "resource_scrape_error", "gauge", help);
    let is_wrong = reading.is_partial || reading.node.is_err();
    let _ = writeln!(page, "resource_scrape_error {}", u8::from(is_wrong));
    page
}

fn place(pod: &super::PodUsed) -> (&str, &str) {
    let meta = &pod.pod.metadata;
    (meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default())
}

fn add(page: &mut String, what: &str, rows: &[Row<'_>]) {
    for (name, kind, help, read) in metrics(what) {
        let samples: Vec<_> =
            rows.iter().filter_map(|(labels, it)| Some((labels, read(it)?, it.at))).collect();
        if samples.is_empty() {
            continue;
        }
        head(page, &name, kind, &help);
        for (labels, value, at) in samples {
            line(page, &name, labels, value, at);
        }
    }
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(page: &mut String, name: &str, labels: &str, value: f64, at: Timestamp) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(page, "{name}{labels} {value} {}", at.as_millisecond());
}
