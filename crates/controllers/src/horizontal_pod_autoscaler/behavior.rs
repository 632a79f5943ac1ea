//! From what the metrics ask for to what is done about it now: what was recommended before holds it
//! back (stabilization), and so does how much was changed before (policies). Pure but for the
//! memory of both, which is a parameter.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};

/// More than a window of an hour has, even if it is looked at each second.
const NOTES_MAX: usize = 4_096;
/// Without a behavior: at most twice as many at once, or this many.
const UP_FACTOR: f64 = 2.0;
const UP_MINIMUM: i32 = 4;

/// What was recommended and done of late, for one autoscaler. Forgotten with the process: then the
/// current number is what was recommended last.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    recommendations: Vec<Note>,
    ups: Vec<Note>,
    downs: Vec<Note>,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    replicas: i32,
    at: Timestamp,
}

/// Between what a recommendation has to stay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<'a> {
    pub current: i32,
    pub min: i32,
    pub max: i32,
    pub behavior: Option<&'a HorizontalPodAutoscalerBehavior>,
    /// Where the behavior says nothing else.
    pub down_window: Duration,
}

/// What is done, and the two conditions that say why it is not what was recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub replicas: i32,
    pub able: Said,
    pub limited: Said,
    pub is_limited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub reason: &'static str,
    pub message: &'static str,
}

const READY: Said =
    Said { reason: "ReadyForNewScale", message: "recommended size matches current size" };
const DOWN_STABILIZED: Said = Said {
    reason: "ScaleDownStabilized",
    message: "recent recommendations were higher than current one, applying the highest recent \
              recommendation",
};
const UP_STABILIZED: Said = Said {
    reason: "ScaleUpStabilized",
    message: "recent recommendations were lower than current one, applying the lowest recent \
              recommendation",
};
const WITHIN: Said = Said {
    reason: "DesiredWithinRange",
    message: "the desired count is within the acceptable range",
};
const UP_LIMIT: Said = Said {
    reason: "ScaleUpLimit",
    message: "the desired replica count is increasing faster than the maximum scale rate",
};
const DOWN_LIMIT: Said = Said {
    reason: "ScaleDownLimit",
    message: "the desired replica count is decreasing faster than the maximum scale rate",
};
const TOO_MANY: Said = Said {
    reason: "TooManyReplicas",
    message: "the desired replica count is more than the maximum replica count",
};
const TOO_FEW: Said = Said {
    reason: "TooFewReplicas",
    message: "the desired replica count is less than the minimum replica count",
};

impl History {
    /// The number that is there when an autoscaler is first seen counts as recommended.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push(Note { replicas: current, at: now });
        }
    }

    pub(super) fn decide(&mut self, wanted: i32, bounds: &Bounds<'_>, now: Timestamp) -> Decision {
        let (stable, why) = self.stabilize(wanted, bounds, now);
        let able = if stable == wanted { READY } else { why };
        let (replicas, limited) = match bounds.behavior {
            None => limit(stable, bounds),
            Some(behavior) => self.limit_rate(stable, behavior, bounds, now),
        };
        Decision { replicas, able, limited, is_limited: replicas != stable }
    }

    /// That the target was scaled.
    pub(super) fn scaled(
        &mut self,
        from: i32,
        to: i32,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
        now: Timestamp,
    ) {
        let Some(behavior) = behavior else { return };
        let rules = if to > from { &behavior.scale_up } else { &behavior.scale_down };
        let policies = rules.iter().flat_map(|it| it.policies.iter().flatten());
        let longest = policies.map(|it| it.period_seconds).max().unwrap_or(0);
        let notes = if to > from { &mut self.ups } else { &mut self.downs };
        forget(notes, before(now, seconds(longest)));
        notes.push(Note { replicas: to.saturating_sub(from).saturating_abs(), at: now });
    }

    /// Brings the current number between the least that was recommended in the window for more, and
    /// the most in the window for fewer.
    fn stabilize(&mut self, wanted: i32, bounds: &Bounds<'_>, now: Timestamp) -> (i32, Said) {
        let (up, down) = windows(bounds);
        let (up_from, down_from) = (before(now, up), before(now, down));
        let (mut least, mut most) = (wanted, wanted);
        for note in &self.recommendations {
            if note.at > up_from {
                least = least.min(note.replicas);
            }
            if note.at > down_from {
                most = most.max(note.replicas);
            }
        }
        forget(&mut self.recommendations, up_from.min(down_from));
        self.recommendations.push(Note { replicas: wanted, at: now });
        if bounds.behavior.is_none() {
            return (most, DOWN_STABILIZED);
        }
        let why = if wanted >= bounds.current { UP_STABILIZED } else { DOWN_STABILIZED };
        (bounds.current.max(least).min(most), why)
    }

    fn limit_rate(
        &self,
        wanted: i32,
        behavior: &HorizontalPodAutoscalerBehavior,
        bounds: &Bounds<'_>,
        now: Timestamp,
    ) -> (i32, Said) {
        let current = bounds.current;
        if wanted > current {
            let rate = self.most(current, behavior.scale_up.as_ref(), now).max(current);
            let (most, why) =
                if bounds.max > rate { (rate, UP_LIMIT) } else { (bounds.max, TOO_MANY) };
            if wanted > most {
                return (most, why);
            }
        } else if wanted < current {
            let rate = self.least(current, behavior.scale_down.as_ref(), now).min(current);
            let (least, why) =
                if bounds.min < rate { (rate, DOWN_LIMIT) } else { (bounds.min, TOO_FEW) };
            if wanted < least {
                return (least, why);
            }
        }
        (wanted, WITHIN)
    }

    /// How many there may be by the policies.
    fn most(&self, current: i32, rules: Option<&HPAScalingRules>, now: Timestamp) -> i32 {
        let proposals = self.proposals(current, rules, now, |start, value, is_percent| {
            if is_percent {
                (f64::from(start) * (1.0 + f64::from(value) / 100.0)).ceil() as i32
            } else {
                start.saturating_add(value)
            }
        });
        match select(rules) {
            Select::Disabled => current,
            Select::Min => proposals.min().unwrap_or(i32::MAX),
            Select::Max => proposals.max().unwrap_or(i32::MIN),
        }
    }

    /// How few there may be by the policies.
    fn least(&self, current: i32, rules: Option<&HPAScalingRules>, now: Timestamp) -> i32 {
        let proposals = self.proposals(current, rules, now, |start, value, is_percent| {
            if is_percent {
                (f64::from(start) * (1.0 - f64::from(value) / 100.0)) as i32
            } else {
                start.saturating_sub(value)
            }
        });
        match select(rules) {
            Select::Disabled => current,
            Select::Min => proposals.max().unwrap_or(i32::MIN),
            Select::Max => proposals.min().unwrap_or(i32::MAX),
        }
    }

    /// Of each policy: what it makes of the number that its period started with.
    fn proposals<'a>(
        &'a self,
        current: i32,
        rules: Option<&'a HPAScalingRules>,
        now: Timestamp,
        propose: impl Fn(i32, i32, bool) -> i32 + 'a,
    ) -> impl Iterator<Item = i32> + 'a {
        let policies = rules.and_then(|it| it.policies.as_deref()).unwrap_or_default();
        policies.iter().map(move |policy| {
            let from = before(now, seconds(policy.period_seconds));
            let added = changed(&self.ups, from);
            let removed = changed(&self.downs, from);
            let start = current.saturating_sub(added).saturating_add(removed);
            propose(start, policy.value, policy.type_ == "Percent")
        })
    }
}

enum Select {
    Disabled,
    Min,
    Max,
}

fn select(rules: Option<&HPAScalingRules>) -> Select {
    match rules.and_then(|it| it.select_policy.as_deref()) {
        Some("Disabled") => Select::Disabled,
        Some("Min") => Select::Min,
        _ => Select::Max,
    }
}

/// For more, and for fewer.
fn windows(bounds: &Bounds<'_>) -> (Duration, Duration) {
    let window = |rules: Option<&HPAScalingRules>| {
        rules.and_then(|it| it.stabilization_window_seconds).map(seconds)
    };
    let up = bounds.behavior.and_then(|it| window(it.scale_up.as_ref()));
    let down = bounds.behavior.and_then(|it| window(it.scale_down.as_ref()));
    (up.unwrap_or(Duration::ZERO), down.unwrap_or(bounds.down_window))
}

fn limit(wanted: i32, bounds: &Bounds<'_>) -> (i32, Said) {
    let rate = ((UP_FACTOR * f64::from(bounds.current)) as i32).max(UP_MINIMUM);
    let (most, why) = if bounds.max > rate { (rate, UP_LIMIT) } else { (bounds.max, TOO_MANY) };
    if wanted < bounds.min {
        (bounds.min, TOO_FEW)
    } else if wanted > most {
        (most, why)
    } else {
        (wanted, WITHIN)
    }
}

fn changed(notes: &[Note], from: Timestamp) -> i32 {
    let since = notes.iter().filter(|it| it.at > from);
    since.fold(0, |sum: i32, it| sum.saturating_add(it.replicas))
}

fn forget(notes: &mut Vec<Note>, from: Timestamp) {
    notes.retain(|it| it.at >= from);
    if notes.len() >= NOTES_MAX {
        notes.remove(0);
    }
}

fn seconds(count: i32) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

fn before(now: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    now.saturating_sub(duration).unwrap_or(Timestamp::MIN)
}
