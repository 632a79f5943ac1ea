//! In which order servers are tried: the one that answered last, then the others, and at the end
//! those that failed a moment ago. Pure.

use std::sync::Arc;
use std::time::Duration;

use stdx::{Backoff, Random};
use tokio::time::Instant;

use super::servers::Endpoint;

const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Order {
    /// The one that was reached last.
    last: Option<Arc<Endpoint>>,
    /// Those that failed since they were last reached.
    missed: Vec<Missed>,
}

struct Missed {
    server: Arc<Endpoint>,
    backoff: Backoff,
    /// Until then it comes after all others.
    retry_at: Instant,
}

/// One round.
pub(super) struct Turn {
    /// Not before this: all have failed a moment ago.
    pub(super) begin: Option<Instant>,
    pub(super) servers: Vec<Arc<Endpoint>>,
}

impl Order {
    /// Of those that there are now.
    pub(super) fn turn(&mut self, all: Vec<Endpoint>, now: Instant) -> Turn {
        self.missed.retain(|it| all.contains(&it.server));
        let mut servers: Vec<Arc<Endpoint>> = Vec::new();
        for server in all {
            if !servers.iter().any(|it| **it == server) {
                servers.push(Arc::new(server));
            }
        }
        let retry_at = |server: &Arc<Endpoint>| {
            let missed = self.missed.iter().find(|it| it.server == *server);
            missed.map(|it| it.retry_at).filter(|it| *it > now)
        };
        let is_last = |it: &Arc<Endpoint>| self.last.as_ref() == Some(it);
        // Nothing is before any time.
        servers.sort_by_key(|it| (retry_at(it), !is_last(it)));
        Turn { begin: servers.first().and_then(retry_at), servers }
    }

    pub(super) fn reached(&mut self, server: &Arc<Endpoint>) {
        self.missed.retain(|it| it.server != *server);
        self.last = Some(server.clone());
    }

    pub(super) fn missed(&mut self, server: &Arc<Endpoint>, now: Instant, random: &Random) {
        if !self.missed.iter().any(|it| it.server == *server) {
            let (server, backoff) = (server.clone(), Backoff::new(DELAY_FIRST, DELAY_MAX));
            self.missed.push(Missed { server, backoff, retry_at: now });
        }
        for it in self.missed.iter_mut().filter(|it| it.server == *server) {
            it.retry_at = now + random.jitter(it.backoff.step(), 0.5);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use stdx::Random;
    use tokio::time::Instant;

    use super::{DELAY_MAX, Endpoint, Order};

    fn endpoints(names: &str) -> Vec<Endpoint> {
        let parse = |it: &str| Endpoint::parse(&format!("https://{it}")).unwrap();
        names.split_whitespace().map(parse).collect()
    }

    fn turn(order: &mut Order, known: &str, now: Instant) -> String {
        let turn = order.turn(endpoints(known), now);
        let names: Vec<_> = turn.servers.iter().map(|it| it.host.clone()).collect();
        let waits = if turn.begin.is_some() { "later: " } else { "" };
        format!("{waits}{}", names.join(" "))
    }

    #[test]
    fn the_last_one_comes_first_and_who_failed_last() {
        let (mut order, random, now) = (Order::default(), Random::from_seed(1), Instant::now());
        let server = |name: &str| Arc::new(endpoints(name).remove(0));
        assert_eq!(turn(&mut order, "a b c b", now), "a b c");
        order.missed(&server("a"), now, &random);
        order.reached(&server("b"));
        assert_eq!(turn(&mut order, "a b c", now), "b c a");
        // A while later it is as good as others, and comes after the one that answers.
        let later = now + 2 * DELAY_MAX;
        assert_eq!(turn(&mut order, "a b c", later), "b a c");
        for (name, times) in [("b", 2), ("c", 3)] {
            for _ in 0..times {
                order.missed(&server(name), now, &random);
            }
        }
        assert_eq!(turn(&mut order, "a b c", now), "later: a b c");
        order.reached(&server("c"));
        assert_eq!(turn(&mut order, "a b c", now), "c a b");
        // One that is not known any more is nobody's.
        assert_eq!(turn(&mut order, "b", now), "later: b");
        assert_eq!(turn(&mut order, "a b", now), "a b");
    }
}
