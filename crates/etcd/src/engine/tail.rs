//! Follows the cluster: keeps one stream of all events open, from the last revision seen, with
//! whichever member answers.
//!
//! Never goes back and never skips: what was seen is discarded, and what is missing is asked for
//! again from another member. Only when it is gone for good (compacted while we were cut off) do
//! the watches end, and say so.

use std::sync::Arc;
use std::time::Duration;

use kvstore::Revision;
use lifecycle::Shutdown;
use stdx::Backoff;
use tokio::time::{sleep, timeout};

use super::feed::Feed;
use super::members::Members;
use super::stream::{End, Stream};

pub(super) async fn run(members: Arc<Members>, feed: Arc<Feed>, shutdown: Shutdown) {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = follow(&members, &feed) => {}
    }
    feed.close();
}

async fn follow(members: &Members, feed: &Feed) {
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
    let mut gap_at: Option<Revision> = None;
    loop {
        let member = members.pick(&[]);
        let started = feed.position();
        let end = follow_member(members, member, feed).await;
        if feed.position() > started {
            backoff.reset();
        }
        let name = members.name(member);
        match end {
            End::Compacted { oldest } => {
                tracing::warn!(
                    seen = feed.position().0,
                    oldest = oldest.0,
                    "etcd was compacted past what was seen; watches end"
                );
                feed.lose(oldest);
                continue;
            }
            End::Gap { next } if gap_at == Some(feed.position()) => {
                tracing::error!(
                    member = name,
                    seen = feed.position().0,
                    next = next.0,
                    "etcd has lost events twice; watches end"
                );
                feed.lose(Revision(next.0 - 1));
            }
            End::Gap { next } => {
                tracing::warn!(
                    member = name,
                    seen = feed.position().0,
                    next = next.0,
                    "events are missing"
                );
                gap_at = Some(feed.position());
                members.suspect(member);
            }
            End::Failed { why } => {
                tracing::debug!(member = name, why, "the stream of events broke");
                members.suspect(member);
            }
        }
        sleep(backoff.step()).await;
    }
}

async fn follow_member(members: &Members, member: usize, feed: &Feed) -> End {
    let open = Stream::open(members, member, feed.position());
    let mut stream = match timeout(members.limits.timeout_attempt, open).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(end)) => return end,
        Err(_) => return End::Failed { why: "no answer to a watch".to_owned() },
    };
    loop {
        tokio::select! {
            biased;
            result = stream.next(members) => match result {
                Ok(commits) if commits.is_empty() => {}
                Ok(commits) => {
                    members.trust(member);
                    feed.publish(commits);
                }
                Err(end) => return end,
            },
            () = fall_behind(members, feed) => {
                let why = format!("nothing heard for {:?}", members.limits.timeout_tail);
                return End::Failed { why };
            }
        }
    }
}

/// Returns when something has been written that the feed does not have, and time has passed.
async fn fall_behind(members: &Members, feed: &Feed) {
    let mut known = members.revisions.subscribe();
    // Fails only without a sender, and `members` has one.
    let _ = known.wait_for(|it| *it > feed.position()).await;
    sleep(members.limits.timeout_tail).await;
}
