//! What may surprise about a Job, or about those that a CronJob makes.

use k8s_openapi::api::batch::v1::JobSpec;

use apimachinery::field::Path;

use super::is_indexed;
use crate::apps::workload;

const COMPLETIONS_SOFT_MAX: i32 = 100_000;
const PARALLELISM_SOFT_MAX: i32 = 10_000;

pub(crate) fn of_spec(spec: &JobSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_indexed(spec)
        && spec.completions.unwrap_or(0) > COMPLETIONS_SOFT_MAX
        && spec.parallelism.unwrap_or(0) > PARALLELISM_SOFT_MAX
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a \
             parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes \
             when a big number of indexes fail"
        ));
    }
    warnings.extend(workload::template_warnings(&spec.template, &path.child("template")));
    warnings
}
