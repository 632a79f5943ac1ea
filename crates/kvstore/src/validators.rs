//! What etcd promises of watches, as questions to a recording of one: ordered, unique, atomic,
//! reliable, resumable, bookmarkable, with right previous values, right creations, and nothing that
//! was filtered out.

use std::collections::BTreeSet;

use crate::{Batch, Error, Event, KeyValue, Revision, Watch, WatchRequest};

/// What one watch delivered.
#[derive(Clone, Debug)]
pub struct Recording {
    pub request: WatchRequest,
    /// After which revision it began.
    pub after: Revision,
    pub batches: Vec<Batch>,
    /// Everything up to here must have come.
    pub progress: Revision,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the watch is not {rule}: {what}")]
pub struct Broken {
    pub rule: &'static str,
    pub what: String,
}

type Validator = fn(&Recording, &[Event]) -> Result<(), String>;

/// Each rule with its name.
pub const ALL: &[(&str, Validator)] = &[
    ("ordered", ordered),
    ("unique", unique),
    ("atomic", atomic),
    ("bookmarkable", bookmarkable),
    ("filtered", filtered),
    ("resumable", resumable),
    ("reliable", reliable),
    ("right about what was before", previous),
    ("right about creations", creations),
];

/// `truth` is everything that happened, in order, with previous values.
pub fn validate(recording: &Recording, truth: &[Event]) -> Result<(), Broken> {
    for (rule, validator) in ALL {
        validator(recording, truth).map_err(|what| Broken { rule, what })?;
    }
    Ok(())
}

impl Recording {
    pub fn new(request: WatchRequest, after: Revision) -> Self {
        Self { request, after, batches: Vec::new(), progress: after }
    }

    /// Takes the next batch into the recording.
    pub async fn next(&mut self, watch: &mut dyn Watch) -> Result<(), Error> {
        let batch = watch.next().await?;
        self.progress = batch.revision;
        self.batches.push(batch);
        Ok(())
    }

    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.batches.iter().flat_map(|it| &it.events)
    }

    fn wants(&self, event: &Event) -> bool {
        self.request.range.contains(&event.key) && self.request.events.admits(event)
    }
}

fn ordered(recording: &Recording, _: &[Event]) -> Result<(), String> {
    let mut last = recording.after;
    for event in recording.events() {
        if event.revision < last {
            return Err(format!("{event:?} came after revision {}", last.0));
        }
        last = event.revision;
    }
    Ok(())
}

fn unique(recording: &Recording, _: &[Event]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    match recording.events().find(|it| !seen.insert((it.revision, &it.key))) {
        Some(event) => Err(format!("{event:?} came twice")),
        None => Ok(()),
    }
}

fn atomic(recording: &Recording, _: &[Event]) -> Result<(), String> {
    let mut last = None;
    for batch in &recording.batches {
        let (first, end) = (batch.events.first(), batch.events.last());
        if let (Some(last), Some(first)) = (last, first)
            && first.revision == last
        {
            return Err(format!("revision {} came in two parts", last.0));
        }
        last = end.map(|it| it.revision).or(last);
    }
    Ok(())
}

fn bookmarkable(recording: &Recording, _: &[Event]) -> Result<(), String> {
    let mut mark = recording.after;
    for batch in &recording.batches {
        if let Some(event) = batch.events.iter().find(|it| it.revision <= mark) {
            return Err(format!("{event:?} came after progress {}", mark.0));
        }
        if let Some(event) = batch.events.iter().find(|it| it.revision > batch.revision) {
            return Err(format!("{event:?} is ahead of its batch, {}", batch.revision.0));
        }
        if batch.revision < mark {
            return Err(format!("progress went back from {} to {}", mark.0, batch.revision.0));
        }
        mark = batch.revision;
    }
    Ok(())
}

fn filtered(recording: &Recording, _: &[Event]) -> Result<(), String> {
    match recording.events().find(|it| !recording.wants(it)) {
        Some(event) => Err(format!("{event:?} was not asked for")),
        None => Ok(()),
    }
}

fn wanted<'a>(recording: &'a Recording, truth: &'a [Event]) -> impl Iterator<Item = &'a Event> {
    let after = recording.after;
    truth.iter().filter(move |it| it.revision > after && recording.wants(it))
}

fn resumable(recording: &Recording, truth: &[Event]) -> Result<(), String> {
    let first = wanted(recording, truth).next();
    match (recording.events().next(), first) {
        (Some(found), Some(expected)) if found.revision != expected.revision => Err(format!(
            "resumed after {} it began with {}, not {}",
            recording.after.0, found.revision.0, expected.revision.0
        )),
        (Some(found), None) => Err(format!("{found:?} never happened")),
        _ => Ok(()),
    }
}

fn reliable(recording: &Recording, truth: &[Event]) -> Result<(), String> {
    let name =
        |it: &Event| (it.revision, it.key.clone(), it.value.as_ref().map(|it| it.value.clone()));
    let expected: BTreeSet<_> =
        wanted(recording, truth).filter(|it| it.revision <= recording.progress).map(name).collect();
    let found: BTreeSet<_> = recording.events().map(name).collect();
    if let Some(missing) = expected.difference(&found).next() {
        return Err(format!("{missing:?} is missing though progress is {}", recording.progress.0));
    }
    if let Some(wrong) = found.difference(&expected).next() {
        return Err(format!("{wrong:?} never happened"));
    }
    Ok(())
}

fn previous(recording: &Recording, truth: &[Event]) -> Result<(), String> {
    for event in recording.events() {
        let position =
            truth.binary_search_by(|it| (it.revision, &it.key).cmp(&(event.revision, &event.key)));
        let expected = position
            .ok()
            .and_then(|it| truth[it].previous.as_ref())
            .filter(|_| recording.request.previous);
        if event.previous.as_ref() != expected {
            return Err(format!("{event:?} should have had {expected:?} before"));
        }
    }
    Ok(())
}

fn creations(recording: &Recording, _: &[Event]) -> Result<(), String> {
    let is_new = |it: &KeyValue| (it.version == 1, it.create_revision == it.mod_revision);
    for event in recording.events() {
        let Some(value) = &event.value else { continue };
        let (is_first, is_created) = is_new(value);
        let had_none = event.previous.is_none() || !recording.request.previous;
        let is_right = is_first == is_created && (!is_first || had_none);
        if !is_right || value.mod_revision != event.revision {
            return Err(format!("{event:?} does not know whether it is new"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Reference;
    use crate::{EventFilter, KeyRange, Op, Txn};

    fn truth() -> Vec<Event> {
        let mut store = Reference::default();
        for ops in [
            vec![Op::put("a", "1"), Op::put("b", "1")],
            vec![Op::put("a", "2")],
            vec![Op::delete(b"a"), Op::put("b", "2")],
        ] {
            store.txn(&Txn::of(ops)).unwrap();
        }
        store.events_after(Revision(1))
    }

    fn batch(events: &[Event]) -> Batch {
        Batch { events: events.to_vec(), revision: events.last().unwrap().revision }
    }

    /// What is broken when a watch delivers these batches.
    fn verdict(batches: Vec<Batch>, edit: impl Fn(&mut Recording)) -> &'static str {
        let request = WatchRequest::new(KeyRange::prefix(b""), Some(Revision(1)));
        let progress = batches.last().map_or(Revision(1), |it| it.revision);
        let mut recording = Recording { request, after: Revision(1), batches, progress };
        edit(&mut recording);
        validate(&recording, &truth()).err().map_or("fine", |it| it.rule)
    }

    #[test]
    fn each_validator_finds_what_it_is_for() {
        let all = truth();
        let nothing = |_: &mut Recording| {};
        assert_eq!(verdict(vec![batch(&all)], nothing), "fine");
        assert_eq!(verdict(vec![batch(&all[..2]), batch(&all[2..])], nothing), "fine");
        assert_eq!(verdict(vec![batch(&all[..1]), batch(&all[1..])], nothing), "atomic");
        assert_eq!(verdict(vec![batch(&all[3..]), batch(&all[..3])], nothing), "ordered");
        assert_eq!(verdict(vec![batch(&all[..3]), batch(&all[2..])], nothing), "unique");
        assert_eq!(verdict(vec![batch(&all[..2]), batch(&all[3..])], nothing), "reliable");
        assert_eq!(verdict(vec![batch(&all[2..])], nothing), "resumable");
        let ahead = Batch { events: vec![], revision: Revision(3) };
        assert_eq!(verdict(vec![ahead, batch(&all)], nothing), "bookmarkable");
        let puts = |it: &mut Recording| it.request.events = EventFilter::PutsOnly;
        assert_eq!(verdict(vec![batch(&all)], puts), "filtered");
        let stale = |it: &mut Recording| it.batches[0].events[2].previous = None;
        assert_eq!(verdict(vec![batch(&all)], stale), "right about what was before");
        let new = |it: &mut Recording| {
            let event = &mut it.batches[0].events[2];
            event.value.as_mut().unwrap().version = 1;
        };
        assert_eq!(verdict(vec![batch(&all)], new), "right about creations");
        let lost = |it: &mut Recording| it.progress = Revision(4);
        assert_eq!(verdict(vec![batch(&all[..3])], lost), "reliable");
    }
}
