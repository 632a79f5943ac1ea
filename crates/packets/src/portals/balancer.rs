//! Which endpoint a client gets: one after the other, or the one that it had. Pure.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

use super::Portal;

/// Clients that one port remembers; more are served as if nobody knew them.
const CLIENTS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Balancer {
    endpoints: Vec<SocketAddr>,
    serving: Vec<SocketAddr>,
    affinity: Option<Duration>,
    /// Whose turn it is.
    next: usize,
    /// With the time of the last connection.
    clients: HashMap<IpAddr, (SocketAddr, Instant)>,
}

impl Balancer {
    /// From now on it is so; who is remembered keeps his endpoint if it still is one.
    pub(super) fn set(&mut self, portal: &Portal) {
        self.endpoints.clone_from(&portal.endpoints);
        self.serving.clone_from(&portal.serving);
        self.affinity = portal.affinity;
        let is_remembered = self.affinity.is_some();
        self.clients.retain(|_, (it, _)| is_remembered && self.endpoints.contains(it));
    }

    pub(super) fn n_endpoints(&self) -> usize {
        self.endpoints.len()
    }

    /// `None`: there is none.
    pub(super) fn choose(&mut self, client: IpAddr, now: Instant) -> Option<SocketAddr> {
        let Some(affinity) = self.affinity else { return self.take_next() };
        let is_known = |since: &Instant| now.saturating_duration_since(*since) < affinity;
        let known = self.clients.get(&client).filter(|(_, since)| is_known(since));
        let chosen = known.map(|(it, _)| *it).or_else(|| self.take_next())?;
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&client) {
            self.clients.retain(|_, (_, since)| is_known(since));
        }
        if self.clients.len() < CLIENTS_MAX || self.clients.contains_key(&client) {
            self.clients.insert(client, (chosen, now));
        }
        Some(chosen)
    }

    /// The one that it got cannot be reached: the next time it is another's turn.
    pub(super) fn forget(&mut self, client: IpAddr) {
        self.clients.remove(&client);
    }

    fn take_next(&mut self) -> Option<SocketAddr> {
        let turn = self.next.checked_rem(self.endpoints.len())?;
        self.next = turn + 1;
        self.endpoints.get(turn).copied()
    }

    /// Whether a flow to it goes on.
    pub(super) fn serves(&self, endpoint: SocketAddr) -> bool {
        self.endpoints.contains(&endpoint) || self.serving.contains(&endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Protocol;
    use super::*;

    fn endpoint(letter: char) -> SocketAddr {
        SocketAddr::new([10, 0, 0, 1].into(), letter as u16)
    }

    fn portal(endpoints: &str, affinity: Option<u64>) -> Portal {
        Portal {
            id: "web".into(),
            address: [10, 0, 0, 9].into(),
            protocol: Protocol::Tcp,
            endpoints: endpoints.chars().map(endpoint).collect(),
            serving: vec![endpoint('s')],
            affinity: affinity.map(Duration::from_secs),
        }
    }

    fn client(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    /// Clients, by number and second, and whom they get.
    fn check(balancer: &mut Balancer, start: Instant, asked: &[(u32, u64)], expected: &str) {
        let chosen = asked.iter().map(|(n, second)| {
            let now = start + Duration::from_secs(*second);
            let chosen = balancer.choose(client(*n), now);
            chosen.map_or('-', |it| char::from_u32(it.port().into()).unwrap())
        });
        assert_eq!(chosen.collect::<String>(), expected);
    }

    #[tokio::test]
    async fn each_gets_the_next() {
        let (mut balancer, start) = (Balancer::default(), Instant::now());
        check(&mut balancer, start, &[(1, 0)], "-");
        balancer.set(&portal("abc", None));
        check(&mut balancer, start, &[(1, 0), (1, 0), (1, 0), (2, 0)], "abca");
        balancer.set(&portal("xy", None));
        check(&mut balancer, start, &[(1, 0), (1, 0)], "yx");
    }

    #[tokio::test]
    async fn who_is_remembered_stays_until_he_is_silent_too_long_or_his_endpoint_goes() {
        let (mut balancer, start) = (Balancer::default(), Instant::now());
        balancer.set(&portal("abc", Some(10)));
        check(&mut balancer, start, &[(1, 0), (2, 0), (1, 9), (1, 18), (2, 9), (1, 28)], "abaabc");
        balancer.set(&portal("bc", Some(10)));
        check(&mut balancer, start, &[(1, 28), (2, 9)], "cb");
        balancer.set(&portal("ab", Some(10)));
        check(&mut balancer, start, &[(2, 10), (1, 29), (1, 30)], "bbb");
        balancer.forget(client(1));
        check(&mut balancer, start, &[(1, 30)], "a");
    }

    #[tokio::test]
    async fn only_so_many_are_remembered_and_the_silent_make_room() {
        let (mut balancer, start) = (Balancer::default(), Instant::now());
        balancer.set(&portal("ab", Some(10)));
        for n in 0..20_000 {
            assert!(balancer.choose(client(n), start).is_some());
        }
        assert_eq!(balancer.clients.len(), CLIENTS_MAX);
        balancer.choose(client(20_000), start + Duration::from_secs(11));
        assert_eq!(balancer.clients.len(), 1);
    }

    #[test]
    fn flows_go_on_to_whoever_still_serves() {
        let mut balancer = Balancer::default();
        balancer.set(&portal("a", None));
        let serves = ['a', 's', 'x'].map(|it| balancer.serves(endpoint(it)));
        assert_eq!(serves, [true, true, false]);
    }
}
