//! What waiting objects are told of as events, where a condition would surprise who reads them:
//! each sentence once, and only when it has been true for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified;
use apimachinery::ObjectKey;
use jiff::Timestamp;
use reconcile::{EventRecorder, EventType};

use crate::pods;

/// A reason and a sentence, as an event has them.
pub(crate) type Explanation = (&'static str, String);

/// Names in one sentence, at most.
const NAMED_MAX: usize = 3;

/// Of objects that wait, what was last found: one sentence each. A restart forgets them, so that
/// what still waits is told of once more.
pub(crate) struct Explanations {
    /// What changes sooner is not worth an event.
    hold: Duration,
    found: Mutex<BTreeMap<ObjectKey, Found>>,
}

struct Found {
    explanation: Explanation,
    since: Timestamp,
    is_told: bool,
}

/// What is to be done about an explanation.
#[derive(Debug, PartialEq, Eq)]
enum Telling {
    Nothing,
    Now(Explanation),
    /// Look again then.
    After(Duration),
}

impl Explanations {
    pub(crate) fn new(hold: Duration) -> Self {
        Self { hold, found: Mutex::default() }
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.found().remove(key);
    }

    /// Takes what is true of an object now, and tells of it when it is due; else when to look again
    /// whether it is still so.
    pub(crate) fn tell<T: Identified>(
        &self,
        events: &EventRecorder,
        about: &T,
        explanation: Option<Explanation>,
        now: Timestamp,
    ) -> Option<Duration> {
        match self.find(&about.key(), explanation, now) {
            Telling::Nothing => None,
            Telling::After(left) => Some(left),
            Telling::Now((reason, message)) => {
                events.event(about, EventType::Normal, reason, message);
                None
            }
        }
    }

    fn find(&self, key: &ObjectKey, explanation: Option<Explanation>, now: Timestamp) -> Telling {
        let mut all = self.found();
        let Some(explanation) = explanation else {
            all.remove(key);
            return Telling::Nothing;
        };
        let is_known = all.get(key).is_some_and(|it| it.explanation == explanation);
        if !is_known {
            let found = Found { explanation, since: now, is_told: false };
            all.insert(key.clone(), found);
        }
        let Some(found) = all.get_mut(key).filter(|it| !it.is_told) else {
            return Telling::Nothing;
        };
        match pods::remaining(found.since, self.hold, now) {
            Duration::ZERO => {
                found.is_told = true;
                Telling::Now(found.explanation.clone())
            }
            left => Telling::After(left),
        }
    }
}

/// `a, b, c and 2 more`.
pub(crate) fn list(names: &[String]) -> String {
    let named = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apimachinery::ObjectKey;
    use jiff::Timestamp;

    use super::{Explanations, Telling, list};

    const HOLD: Duration = Duration::from_secs(5);

    fn find(explanations: &Explanations, said: &str, second: i64) -> String {
        let said = Some(("Reason", said.to_owned())).filter(|it| !it.1.is_empty());
        let now = Timestamp::from_second(second).unwrap();
        match explanations.find(&ObjectKey::new("ns", "a"), said, now) {
            Telling::Nothing => String::new(),
            Telling::Now((_, text)) => text,
            Telling::After(left) => format!("after {left:?}"),
        }
    }

    #[test]
    fn what_lasts_is_told_once() {
        let all = Explanations::new(HOLD);
        let seen = [0, 3, 5, 6, 600].map(|it| find(&all, "waits", it));
        assert_eq!(seen, ["after 5s", "after 2s", "waits", "", ""]);
    }

    #[test]
    fn what_changes_begins_anew_and_what_is_over_is_forgotten() {
        let all = Explanations::new(HOLD);
        assert_eq!(find(&all, "waits for a", 0), "after 5s");
        assert_eq!(find(&all, "waits for b", 4), "after 5s");
        assert_eq!(find(&all, "waits for b", 9), "waits for b");
        assert_eq!(find(&all, "", 10), "");
        assert!(all.found().is_empty());
        assert_eq!(find(&all, "waits for b", 11), "after 5s");
    }

    #[test]
    fn a_list_names_three() {
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let lists = [1, 3, 5].map(|it| list(&names[..it]));
        assert_eq!(lists, ["a", "a, b, c", "a, b, c and 2 more"]);
    }
}
