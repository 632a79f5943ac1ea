//! CronJobs in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::CronJob;
use serde_json::Value;

use apimachinery::table::Column;

use crate::cell;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Schedule", "string"),
    Column::new("Timezone", "string"),
    Column::new("Suspend", "boolean"),
    Column::new("Active", "integer"),
    Column::new("Last Schedule", "string"),
    Column::new("Age", "string"),
    Column::new("Containers", "string").wide(),
    Column::new("Images", "string").wide(),
    Column::new("Selector", "string").wide(),
];

pub(super) fn row(cron_job: &CronJob, now: Timestamp) -> Vec<Value> {
    let spec = &cron_job.spec;
    let status = cron_job.status.as_ref();
    let job = spec.job_template.spec.as_ref();
    let last = status.and_then(|it| it.last_schedule_time.as_ref());
    let [names, images] = cell::template_containers(job.map(|it| &it.template));
    let selector = job.and_then(|it| it.selector.as_ref());
    let suspend = match spec.suspend {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        cell::name(&cron_job.metadata),
        Value::from(spec.schedule.as_str()),
        cell::or_none(spec.time_zone.as_deref().unwrap_or_default()),
        Value::from(suspend),
        Value::from(status.and_then(|it| it.active.as_ref()).map_or(0, Vec::len)),
        last.map_or_else(|| cell::or_none(""), |it| Value::from(cell::since(Some(it), now))),
        cell::age(&cron_job.metadata, now),
        names,
        images,
        selector.map_or_else(|| cell::or_none(""), cell::selector),
    ]
}
