//! Events as they come, made into whole commits without a gap or a repetition. Pure.

use kvstore::{Event, Revision};

use super::feed::Commit;

pub(super) struct Grouping {
    /// The last revision that was returned.
    seen: Revision,
    /// The pieces so far of a message that came in pieces.
    pieces: Vec<Event>,
}

/// Revisions before this one did not come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) next: Revision,
}

impl Grouping {
    pub(super) fn after(seen: Revision) -> Self {
        Self { seen, pieces: Vec::new() }
    }

    /// A piece of a message that goes on.
    pub(super) fn add(&mut self, events: impl Iterator<Item = Event>) {
        self.pieces.extend(events);
    }

    /// The end of a message. What was seen comes again when a member has caught up by a snapshot,
    /// or when it lags and the watch began in its future (issues #15271, #20221): it is left out.
    pub(super) fn finish(&mut self) -> Result<Vec<Commit>, Gap> {
        let mut commits: Vec<Commit> = Vec::new();
        let seen = self.seen;
        for event in self.pieces.drain(..).filter(|it| it.revision > seen) {
            let revision = event.revision;
            match commits.last_mut().filter(|it| it.revision == revision) {
                Some(commit) => commit.events.push(event),
                None if revision.0 == self.seen.0 + 1 => {
                    self.seen = revision;
                    commits.push(Commit { revision, events: vec![event] });
                }
                None => return Err(Gap { next: revision }),
            }
        }
        // etcd has them as the operations came; other engines sort, and no reader should see the
        // difference.
        commits.iter_mut().for_each(|it| it.events.sort_by(|a, b| a.key.cmp(&b.key)));
        Ok(commits)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kvstore::{Event, Revision};

    use super::{Gap, Grouping};

    fn events(revisions: &[u64]) -> impl Iterator<Item = Event> {
        revisions.iter().enumerate().map(|(n, revision)| Event {
            key: Bytes::from(n.to_string()),
            value: None,
            previous: None,
            revision: Revision(*revision),
        })
    }

    /// `messages` after revision 5, as `revision x events`.
    fn check(messages: &[&[u64]], expected: Result<&str, u64>) {
        let mut grouping = Grouping::after(Revision(5));
        let mut text = Vec::new();
        for message in messages {
            grouping.add(events(message));
            match grouping.finish() {
                Ok(commits) => text.extend(
                    commits.iter().map(|it| format!("{}x{}", it.revision.0, it.events.len())),
                ),
                Err(Gap { next }) => {
                    assert_eq!(Err(next.0), expected, "{messages:?}");
                    return;
                }
            }
        }
        assert_eq!(Ok(text.join(" ").as_str()), expected, "{messages:?}");
    }

    #[test]
    fn commits_are_whole_and_follow_each_other() {
        check(&[&[6, 6, 7], &[8]], Ok("6x2 7x1 8x1"));
        check(&[&[4, 5, 6], &[5, 6, 7]], Ok("6x1 7x1"));
        check(&[&[], &[5]], Ok(""));
        check(&[&[6], &[8]], Err(8));
        check(&[&[7]], Err(7));
        check(&[&[6, 8]], Err(8));
    }

    #[test]
    fn a_message_in_pieces_is_one() {
        let mut grouping = Grouping::after(Revision(5));
        grouping.add(events(&[6, 6]));
        grouping.add(events(&[6, 7]));
        let commits = grouping.finish().unwrap();
        assert_eq!(commits.iter().map(|it| it.events.len()).collect::<Vec<_>>(), [3, 1]);
    }
}
