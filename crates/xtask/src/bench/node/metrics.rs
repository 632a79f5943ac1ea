//! What the kubelet's metrics tell of the calls to its runtime.

use std::collections::BTreeMap;

use anyhow::Result;

use super::machine::Machine;

const OPERATIONS: &str = "kubelet_runtime_operations_duration_seconds";
const POD_START: &str = "kubelet_pod_start_duration_seconds";

/// Seconds and count of each histogram so far; that of pod starts has the empty name.
#[derive(Default)]
pub(super) struct Operations(BTreeMap<String, (f64, f64)>);

impl Operations {
    pub(super) fn read(machine: &Machine) -> Result<Self> {
        Ok(Self::parse(&machine.metrics()?))
    }

    fn parse(page: &str) -> Self {
        let mut all = Self::default();
        for line in page.lines().filter(|it| !it.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (metric, labels) = series.split_once('{').unwrap_or((series, ""));
            let label = labels.split('"').nth(1).unwrap_or_default();
            let Some((metric, part)) = metric.rsplit_once('_') else { continue };
            let name = match metric {
                OPERATIONS => label,
                POD_START => "",
                _ => continue,
            };
            let entry = all.0.entry(name.to_owned()).or_default();
            match part {
                "sum" => entry.0 = value,
                "count" => entry.1 = value,
                _ => {}
            }
        }
        all
    }

    /// What came to it.
    pub(super) fn since(&self, before: &Self) -> Self {
        let more = |(name, (sum, count)): (&String, &(f64, f64))| {
            let (sum_before, count_before) = before.0.get(name).copied().unwrap_or_default();
            (name.clone(), (sum - sum_before, count - count_before))
        };
        Self(self.0.iter().map(more).collect())
    }

    /// In milliseconds, of those that happened.
    pub(super) fn means(&self) -> impl Iterator<Item = (&str, f64)> {
        let named = self.0.iter().filter(|(name, it)| !name.is_empty() && it.1 > 0.0);
        named.map(|(name, (sum, count))| (name.as_str(), sum * 1000.0 / count))
    }

    pub(super) fn mean(&self, operation: &str) -> f64 {
        self.0.get(operation).map_or(f64::NAN, |(sum, count)| sum * 1000.0 / count)
    }

    /// From when the kubelet saw a pod to when its containers ran.
    pub(super) fn pod_start_mean(&self) -> f64 {
        self.mean("")
    }
}

#[cfg(test)]
mod tests {
    use super::Operations;

    #[test]
    fn means_are_of_what_happened_in_between() {
        let page = |sum: f64, count: u32| {
            format!(
                "# TYPE x histogram\n\
                 kubelet_runtime_operations_duration_seconds_bucket{{operation_type=\"a\",le=\"1\"}} 9\n\
                 kubelet_runtime_operations_duration_seconds_sum{{operation_type=\"a\"}} {sum}\n\
                 kubelet_runtime_operations_duration_seconds_count{{operation_type=\"a\"}} {count}\n\
                 kubelet_pod_start_duration_seconds_sum {sum}\n\
                 kubelet_pod_start_duration_seconds_count {count}\n"
            )
        };
        let parse = |sum, count| Operations::parse(&page(sum, count));
        let between = parse(3.0, 6).since(&parse(1.0, 2));
        assert_eq!(between.means().collect::<Vec<_>>(), [("a", 500.0)]);
        assert_eq!(between.pod_start_mean(), 500.0);
        assert!(between.mean("b").is_nan());
    }
}
