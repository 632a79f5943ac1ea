//! Which controllers run here, as upstream's metric says it.

use telemetry::{Description, Stability};

use crate::Context;

const RUNNING: Description<2> = Description {
    name: "running_managed_controllers",
    stability: Stability::Alpha,
    help: "Indicates where instances of a controller are currently running",
    labels: ["name", "manager"],
};

/// From now on, and until their tasks end. One that has nothing to do without a key, or a flag, has
/// no tasks, and does not run.
pub(crate) fn show(context: &Context) {
    let tasks = context.tasks.names();
    let has_tasks = |name: &str| tasks.iter().any(|it| it.split('/').any(|it| it == name));
    let selected = context.settings.running(&context.availability);
    let running = selected.filter(|it| has_tasks(it.name));
    let gauges = context.metrics.gauges(&RUNNING);
    let gauges: Vec<_> = running.map(|it| gauges.with([it.name, context.manager])).collect();
    gauges.iter().for_each(|it| it.set(1.0));
    context.tasks.spawn("running-controllers", |shutdown| async move {
        shutdown.cancelled().await;
        gauges.iter().for_each(|it| it.set(0.0));
    });
}
