//! Who is connected. A new connection takes the place of an idle one when the room is full; those
//! who work are never disturbed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Limits, Meter};

#[derive(Debug)]
pub struct Room {
    limits: Limits,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    /// By the order in which they came.
    by_id: BTreeMap<u64, (Client, Arc<Meter>)>,
    /// How many there are of each.
    by_client: BTreeMap<Client, usize>,
    next: u64,
}

/// Whoever has one IPv6 address mostly has the whole /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Client(IpAddr);

impl Client {
    fn new(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                Ipv6Addr::from(network).into()
            }
        })
    }
}

/// One place in the room, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    id: u64,
}

impl Room {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, guests: Mutex::default() })
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if the room is full of those who work.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<(Seat, Arc<Meter>)> {
        let client = Client::new(address);
        let mut guests = self.guests();
        let of_client = guests.by_client.get(&client).copied().unwrap_or(0);
        let has_place = if of_client >= self.limits.per_client {
            guests.evict_of(client)
        } else {
            guests.by_id.len() < self.limits.connections || guests.evict_one()
        };
        if !has_place {
            return None;
        }
        let (id, meter) = (guests.next, Meter::new());
        guests.next += 1;
        guests.by_id.insert(id, (client, meter.clone()));
        *guests.by_client.entry(client).or_default() += 1;
        drop(guests);
        Some((Seat { room: self.clone(), id }, meter))
    }

    /// Makes room by one, if anybody is idle.
    pub(crate) fn evict_one(&self) -> bool {
        self.guests().evict_one()
    }
}

impl Guests {
    /// Of the client that has the most connections, the one that has been idle longest: whoever
    /// hoards pays for it, and nobody can push out those of another.
    fn evict_one(&mut self) -> bool {
        self.evict(|_| true)
    }

    fn evict_of(&mut self, client: Client) -> bool {
        self.evict(|it| it == client)
    }

    fn evict(&mut self, is_candidate: impl Fn(Client) -> bool) -> bool {
        let candidates = self.by_id.iter().filter(|(_, guest)| is_candidate(guest.0));
        let idle = candidates.filter_map(|(id, (client, meter))| {
            let count = self.by_client.get(client).copied();
            Some((count, Reverse((meter.idle_since()?, *id))))
        });
        let Some((_, Reverse((_, id)))) = idle.max() else { return false };
        if let Some(meter) = self.remove(id) {
            meter.evict();
        }
        true
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Meter>> {
        let (client, meter) = self.by_id.remove(&id)?;
        if let Some(count) = self.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
        Some(meter)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.guests().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::advance;

    use super::{Room, Seat};
    use crate::{Limits, Meter, Timeouts};

    fn room(connections: usize, per_client: usize) -> Arc<Room> {
        Room::new(Limits { connections, per_client, timeouts: Timeouts::HTTPS })
    }

    async fn enter(room: &Arc<Room>, address: &str) -> Option<(Seat, Arc<Meter>)> {
        advance(Duration::from_secs(1)).await;
        room.enter(address.parse::<IpAddr>().unwrap())
    }

    fn is_out((_, meter): &(Seat, Arc<Meter>)) -> bool {
        meter.is_evicted()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_the_most_gives_up_its_oldest_idle_one() {
        let room = room(4, 4);
        let quiet = enter(&room, "10.0.0.9").await.unwrap();
        let hoard = [
            enter(&room, "10.0.0.1").await.unwrap(),
            enter(&room, "10.0.0.1").await.unwrap(),
            enter(&room, "::ffff:10.0.0.1").await.unwrap(),
        ];
        let work = hoard[0].1.begin();
        let _new = enter(&room, "10.0.0.2").await.unwrap();
        assert_eq!(hoard.each_ref().map(is_out), [false, true, false]);
        drop(work);
        assert!(!is_out(&quiet));
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_work_are_not_disturbed_and_a_full_room_refuses() {
        let room = room(2, 2);
        let guests =
            [enter(&room, "10.0.0.1").await.unwrap(), enter(&room, "10.0.0.2").await.unwrap()];
        let work = guests.each_ref().map(|it| it.1.begin());
        assert!(enter(&room, "10.0.0.3").await.is_none());
        drop(work);
        assert!(enter(&room, "10.0.0.3").await.is_some());
        assert_eq!(guests.each_ref().map(is_out), [true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_never_has_more_than_its_part() {
        let room = room(10, 2);
        let guests =
            [enter(&room, "fd00::1").await.unwrap(), enter(&room, "fd00::2:1").await.unwrap()];
        let work = guests.each_ref().map(|it| it.1.begin());
        assert!(enter(&room, "fd00::3").await.is_none());
        let _other = enter(&room, "fd00:0:0:1::1").await.unwrap();
        drop(work);
        assert!(enter(&room, "fd00::3").await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_free_when_its_socket_is_closed() {
        let room = room(1, 1);
        let guest = enter(&room, "10.0.0.1").await.unwrap();
        let _work = guest.1.begin();
        assert!(enter(&room, "10.0.0.2").await.is_none());
        drop(guest);
        assert!(enter(&room, "10.0.0.2").await.is_some());
    }
}
