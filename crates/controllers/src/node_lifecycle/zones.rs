//! Zones: how many of their nodes are ready, and how fast nodes that are not may lose their pods.
//! Pure: time is a parameter, and whom to wake is an answer.
//!
//! Worked example: of 100 nodes in zone `a`, 60 fall silent. With the third the zone could be in
//! partial disruption, and with the 55th it is: from one node in 10 s down to one in 100 s. When
//! the other 40 fall silent too, and there is no other zone, nobody loses pods any more: it is the
//! control plane that is cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::pods;

/// More nodes than this, however large their share, are a partial disruption.
const FEW: usize = 2;

/// What the flags say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Nodes per second.
    pub rate: f64,
    /// The same in a zone that is partially disrupted, if it is large.
    pub secondary_rate: f64,
    /// The share of a zone's nodes that makes it a disruption.
    pub threshold: f64,
    /// More nodes than this are a large zone.
    pub large: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Normal,
    PartialDisruption,
    /// None is ready.
    FullDisruption,
}

/// How a node counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub zone: String,
    /// Absent: not counted, since it never said, or is excluded by a label.
    pub is_ready: Option<bool>,
}

/// Whether a node may lose its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// It may, and stays allowed until it is released. `next` may have its turn after that long.
    Granted { next: Option<(String, Duration)> },
    /// Its turn is after this long.
    Wait(Duration),
    /// Not now; it will be woken.
    Held,
}

/// Nodes are in `waiting` or in `granted` of their own zone, or in neither.
#[derive(Debug, Default)]
struct Zone {
    n_ready: usize,
    n_not_ready: usize,
    mode: Mode,
    /// In the order in which they asked.
    waiting: BTreeMap<u64, String>,
    /// May lose their pods, and have not been seen with the taint yet.
    granted: BTreeSet<String>,
    last_grant: Option<Timestamp>,
}

impl Zone {
    fn size(&self) -> usize {
        self.n_ready + self.n_not_ready
    }

    fn head(&self) -> Option<&String> {
        self.waiting.first_key_value().map(|(_, node)| node)
    }

    fn judge(&self, limits: &Limits) -> Mode {
        let (bad, size) = (self.n_not_ready, self.size());
        if self.n_ready == 0 && bad > 0 {
            return Mode::FullDisruption;
        }
        let count = |it: usize| f64::from(u32::try_from(it).unwrap_or(u32::MAX));
        if bad > FEW && count(bad) / count(size) >= limits.threshold {
            return Mode::PartialDisruption;
        }
        Mode::Normal
    }
}

/// One zone, for those who measure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Measured<'a> {
    pub zone: &'a str,
    pub n_ready: usize,
    pub n_not_ready: usize,
}

/// What a look at all zones found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Nodes to look at now.
    pub wake: Vec<String>,
    /// All zones were down, and are no more: every node gets its grace anew.
    pub is_back: bool,
    /// The modes that changed.
    pub modes: Vec<(String, Mode)>,
}

#[derive(Debug)]
pub(crate) struct Zones {
    limits: Limits,
    nodes: BTreeMap<String, Standing>,
    zones: BTreeMap<String, Zone>,
    /// All zones are fully disrupted.
    is_all_down: bool,
    /// Something was counted since the last look.
    is_changed: bool,
    turn: u64,
}

impl Zones {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            nodes: BTreeMap::new(),
            zones: BTreeMap::new(),
            is_all_down: false,
            is_changed: false,
            turn: 0,
        }
    }

    /// How a node stands now; absent: it is gone. Modes change with the next look, so that half of
    /// the first list is not taken for all. Whom to wake: who waited behind it.
    pub(crate) fn observe(&mut self, node: &str, standing: Option<Standing>) -> Option<String> {
        if self.nodes.get(node) == standing.as_ref() {
            return None;
        }
        self.is_changed = true;
        let before = self.nodes.remove(node);
        let has_moved = before.as_ref().map(|it| &it.zone) != standing.as_ref().map(|it| &it.zone);
        let mut wake = None;
        if let Some(before) = before {
            self.count(&before, false);
            if has_moved {
                wake = self.release_from(&before.zone, node);
            }
        }
        if let Some(standing) = standing {
            self.count(&standing, true);
            self.nodes.insert(node.to_owned(), standing);
        }
        wake
    }

    fn count(&mut self, standing: &Standing, comes: bool) {
        let zone = self.zones.entry(standing.zone.clone()).or_default();
        let number = match standing.is_ready {
            Some(true) => &mut zone.n_ready,
            Some(false) => &mut zone.n_not_ready,
            None => return,
        };
        *number = if comes { *number + 1 } else { number.saturating_sub(1) };
    }

    /// Whether a look would find anything.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    pub(crate) fn is_all_down(&self) -> bool {
        self.is_all_down
    }

    /// Judges all zones by what was counted.
    pub(crate) fn look(&mut self) -> Found {
        let mut found = Found::default();
        self.is_changed = false;
        let was_all_down = self.is_all_down;
        let limits = self.limits;
        let in_use: BTreeSet<&str> = self.nodes.values().map(|it| it.zone.as_str()).collect();
        self.zones.retain(|name, _| in_use.contains(name.as_str()));
        for (name, zone) in &mut self.zones {
            let mode = zone.judge(&limits);
            // A zone that grows may become a large one in the same mode.
            found.wake.extend(zone.head().cloned());
            if mode != zone.mode {
                zone.mode = mode;
                found.modes.push((name.clone(), mode));
            }
        }
        let mut counted = self.zones.values().filter(|it| it.size() > 0).peekable();
        self.is_all_down =
            counted.peek().is_some() && counted.all(|it| it.mode == Mode::FullDisruption);
        if self.is_all_down != was_all_down {
            found.is_back = was_all_down;
            found.wake = self.nodes.keys().cloned().collect();
        }
        found
    }

    fn rate(&self, zone: &Zone) -> f64 {
        match zone.mode {
            _ if self.is_all_down => 0.0,
            Mode::Normal | Mode::FullDisruption => self.limits.rate,
            Mode::PartialDisruption if zone.size() > self.limits.large => {
                self.limits.secondary_rate
            }
            Mode::PartialDisruption => 0.0,
        }
    }

    /// Asks for a node that is not ready. Asking again changes nothing.
    pub(crate) fn permit(&mut self, node: &str, now: Timestamp) -> Permit {
        let Some(name) = self.nodes.get(node).map(|it| it.zone.clone()) else {
            return Permit::Held;
        };
        let rate = self.zones.get(&name).map_or(0.0, |it| self.rate(it));
        let Some(zone) = self.zones.get_mut(&name) else { return Permit::Held };
        if zone.granted.contains(node) {
            return Permit::Granted { next: None };
        }
        if !zone.waiting.values().any(|it| it == node) {
            self.turn += 1;
            zone.waiting.insert(self.turn, node.to_owned());
        }
        if zone.head().map(String::as_str) != Some(node) {
            return Permit::Held;
        }
        let Some(pause) = pause(rate) else { return Permit::Held };
        let left = zone.last_grant.map(|it| pods::remaining(it, pause, now).min(pause));
        if let Some(left) = left.filter(|it| !it.is_zero()) {
            return Permit::Wait(left);
        }
        zone.waiting.pop_first();
        zone.granted.insert(node.to_owned());
        zone.last_grant = Some(now);
        Permit::Granted { next: zone.head().map(|it| (it.clone(), pause)) }
    }

    /// The node is ready, or has lost its pods: it does not wait any more. Whom to wake.
    pub(crate) fn release(&mut self, node: &str) -> Option<String> {
        let zone = self.nodes.get(node)?.zone.clone();
        self.release_from(&zone, node)
    }

    fn release_from(&mut self, zone: &str, node: &str) -> Option<String> {
        let zone = self.zones.get_mut(zone)?;
        zone.granted.remove(node);
        let was_head = zone.head().map(String::as_str) == Some(node);
        zone.waiting.retain(|_, it| it != node);
        zone.head().filter(|_| was_head).cloned()
    }

    pub(crate) fn zone_of(&self, node: &str) -> &str {
        self.nodes.get(node).map(|it| it.zone.as_str()).unwrap_or_default()
    }

    pub(crate) fn measured(&self) -> impl Iterator<Item = Measured<'_>> {
        self.zones.iter().map(|(name, it)| Measured {
            zone: name,
            n_ready: it.n_ready,
            n_not_ready: it.n_not_ready,
        })
    }
}

/// Between two nodes; absent: never.
fn pause(rate: f64) -> Option<Duration> {
    (rate > 0.0).then(|| Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX))
}
