//! The loop of one run of a container: the startup probe first, then the other two side by side.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use lifecycle::Shutdown;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use super::action::{self, Outcome};
use super::health::Streak;
use super::{Failed, Health, Probes, Target};

const UNHEALTHY: &str = "Unhealthy";
const PROBE_WARNING: &str = "ProbeWarning";
/// Tries of a probe that could not be carried out, before it counts as one that says nothing.
const TRIES: usize = 3;

pub(super) async fn run(
    probes: Probes,
    target: Target,
    health: watch::Sender<Health>,
    shutdown: Shutdown,
) {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = health.closed() => {}
        () = watch_over(&probes, &target, &health) => {
            // The last word stays readable, and the task in the list, as long as somebody holds the
            // other end.
            health.closed().await;
        }
    }
}

async fn watch_over(probes: &Probes, target: &Target, health: &watch::Sender<Health>) {
    let container = &target.container;
    let is_started = health.borrow().is_started;
    if let Some(probe) = container.startup_probe.as_ref().filter(|_| !is_started) {
        let mut looking = Looking::new(probes, target, "Startup", probe);
        if !looking.next_proof().await {
            health.send_modify(|it| it.failed = Some(Failed::Startup));
            return;
        }
        let has_readiness = container.readiness_probe.is_some();
        health.send_modify(|it| {
            it.is_started = true;
            it.is_ready = !has_readiness;
        });
    }
    let liveness = async {
        let Some(probe) = &container.liveness_probe else { return };
        let mut looking = Looking::new(probes, target, "Liveness", probe);
        while looking.next_proof().await {}
        health.send_modify(|it| it.failed = Some(Failed::Liveness));
    };
    let readiness = async {
        let Some(probe) = &container.readiness_probe else { return };
        let mut looking = Looking::new(probes, target, "Readiness", probe);
        loop {
            let is_ready = looking.next_proof().await;
            health.send_if_modified(|it| std::mem::replace(&mut it.is_ready, is_ready) != is_ready);
        }
    };
    futures_util::join!(liveness, readiness);
}

/// One probe of one run.
struct Looking<'a> {
    probes: &'a Probes,
    target: &'a Target,
    kind: &'static str,
    probe: &'a Probe,
    streak: Streak,
    ticks: tokio::time::Interval,
}

impl<'a> Looking<'a> {
    fn new(probes: &'a Probes, target: &'a Target, kind: &'static str, probe: &'a Probe) -> Self {
        let period = seconds(probe.period_seconds, 10).max(Duration::from_secs(1));
        let delay = first_delay(probes, target, probe, period);
        let mut ticks = tokio::time::interval_at(Instant::now() + delay, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { probes, target, kind, probe, streak: Streak::new(probe), ticks }
    }

    /// Looks until the results prove something, which may be what they proved before.
    async fn next_proof(&mut self) -> bool {
        loop {
            self.ticks.tick().await;
            let result = self.look().await;
            if let Some(proof) = result.and_then(|it| self.streak.step(it)) {
                return proof;
            }
        }
    }

    /// `None`: it could not be found out.
    async fn look(&self) -> Option<bool> {
        let timeout = seconds(self.probe.timeout_seconds, 1).max(Duration::from_secs(1));
        let mut outcome = Outcome::Success;
        for _ in 0..TRIES {
            outcome = action::run(&self.probes.containers, self.target, self.probe, timeout).await;
            if !matches!(outcome, Outcome::Unknown(_)) {
                break;
            }
        }
        let kind = self.kind;
        let tell = |reason, message| (self.probes.tell)(self.target, reason, message);
        match outcome {
            Outcome::Success => Some(true),
            Outcome::Warning(text) => {
                tell(PROBE_WARNING, format!("{kind} probe warning: {text}"));
                Some(true)
            }
            Outcome::Failure(text) => {
                tell(UNHEALTHY, format!("{kind} probe failed: {text}"));
                Some(false)
            }
            Outcome::Unknown(text) => {
                let state = "unknown state";
                tell(UNHEALTHY, format!("{kind} probe errored and resulted in {state}: {text}"));
                None
            }
        }
    }
}

fn seconds(value: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(value.and_then(|it| u64::try_from(it).ok()).unwrap_or(default))
}

/// What is left of the initial delay. A run that was adopted is first looked at somewhere in the
/// first period, so that a kubelet that starts does not look at everything at once.
fn first_delay(probes: &Probes, target: &Target, probe: &Probe, period: Duration) -> Duration {
    let initial = seconds(probe.initial_delay_seconds, 0);
    let running = probes.world.clock.now().duration_since(target.started);
    let left = initial.saturating_sub(Duration::try_from(running).unwrap_or_default());
    let jitter = match target.was {
        Some(_) => period.mul_f64(probes.world.random.fraction()),
        None => Duration::ZERO,
    };
    left.max(jitter)
}
