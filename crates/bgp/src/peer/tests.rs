//! Two peers in one thread, with a wire between them that can be cut.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn config(own_as: u32, peer_as: u32, last: u8) -> Config {
    Config {
        own_as,
        identifier: Ipv4Addr::new(192, 0, 2, last),
        peer_as,
        families: vec![Family::V4, Family::V6],
        hold_time: Duration::from_secs(90),
        is_dialing: true,
        restart_time: Duration::from_secs(120),
        has_restarted: false,
        routes_max: 100,
        takes_own_as: false,
    }
}

/// Who is on which side of a connection: the side that dialed, and the other.
struct Line {
    id: ConnectionId,
    is_open: bool,
}

struct Pair {
    now: Moment,
    peers: [Peer; 2],
    lines: Vec<Line>,
    /// For whom, and what.
    waiting: VecDeque<(usize, Event)>,
    told: [Vec<Action>; 2],
    /// Nobody answers.
    is_cut: bool,
}

enum Event {
    Accepted(ConnectionId),
    Received(ConnectionId, Vec<u8>),
    Closed(ConnectionId),
}

impl Pair {
    fn new(a: Config, b: Config) -> Self {
        let now = Duration::from_secs(1000);
        let peers = [Peer::new(a, now), Peer::new(b, now)];
        let (lines, waiting) = (Vec::new(), VecDeque::new());
        Self { now, peers, lines, waiting, told: Default::default(), is_cut: false }
    }

    fn up() -> Self {
        let mut pair = Self::new(config(64_512, 64_512, 1), config(64_512, 64_512, 2));
        pair.run(SECOND);
        assert!(pair.is_up());
        pair
    }

    fn is_up(&self) -> bool {
        self.peers.iter().all(Peer::is_up)
    }

    fn carry_out(&mut self, side: usize, actions: Vec<Action>) {
        for action in actions {
            match &action {
                Action::Dial if self.is_cut => {
                    let failed = self.peers[side].step(self.now, Input::DialFailed);
                    self.carry_out(side, failed);
                }
                Action::Dial => {
                    let id = ConnectionId(self.lines.len() as u64);
                    self.lines.push(Line { id, is_open: true });
                    self.waiting.push_back((1 - side, Event::Accepted(id)));
                    let dialed = self.peers[side].step(self.now, Input::Dialed(id));
                    self.carry_out(side, dialed);
                }
                Action::Send(id, bytes) => {
                    self.waiting.push_back((1 - side, Event::Received(*id, bytes.clone())));
                }
                Action::Close(id) => {
                    let line = self.lines.iter_mut().find(|it| it.id == *id).unwrap();
                    if std::mem::replace(&mut line.is_open, false) {
                        self.waiting.push_back((1 - side, Event::Closed(*id)));
                    }
                }
                Action::Up | Action::Down(_) | Action::Learned | Action::HeardAll => {}
            }
            self.told[side].push(action);
        }
    }

    fn deliver(&mut self) {
        while let Some((side, event)) = self.waiting.pop_front() {
            if self.is_cut {
                continue;
            }
            let input = match &event {
                Event::Accepted(id) => Input::Accepted(*id),
                Event::Received(id, bytes) => Input::Received(*id, bytes),
                Event::Closed(id) => Input::Closed(*id),
            };
            let actions = self.peers[side].step(self.now, input);
            self.carry_out(side, actions);
        }
    }

    /// So much time passes.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..10_000 {
            self.deliver();
            let due = self.peers.iter().filter_map(Peer::due).min().filter(|it| *it <= end);
            let Some(due) = due else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            for side in [0, 1] {
                let actions = self.peers[side].step(self.now, Input::Due);
                self.carry_out(side, actions);
            }
        }
        panic!("there is no end to it");
    }

    fn announce(&mut self, side: usize, all: &[&str]) {
        let next_hop = |it: &Cidr| -> IpAddr {
            match it.family() {
                Family::V4 => format!("192.0.2.{}", side + 1).parse().unwrap(),
                Family::V6 => format!("2001:db8::{}", side + 1).parse().unwrap(),
            }
        };
        let all = all.iter().map(|it| it.parse().unwrap()).map(|it| {
            let said = Announcement {
                next_hop: next_hop(&it),
                communities: Vec::new(),
                local_preference: None,
            };
            (it, said)
        });
        let actions = self.peers[side].announce(self.now, all.collect());
        self.carry_out(side, actions);
        self.deliver();
    }

    /// What this side knows of the other, stale ones with a star.
    fn known(&self, side: usize) -> Vec<String> {
        let shown = |(range, it): (&Cidr, &Learned)| {
            format!("{range}{}", if it.is_stale { "*" } else { "" })
        };
        self.peers[side].learned().iter().map(shown).collect()
    }

    /// The process of this side is gone, without a word.
    fn die(&mut self, side: usize, config: Config) {
        self.peers[side] = Peer::new(config, self.now);
        let open: Vec<_> = self.lines.iter_mut().filter(|it| it.is_open).collect();
        for line in open {
            line.is_open = false;
            self.waiting.push_back((1 - side, Event::Closed(line.id)));
        }
    }

    fn downs(&self, side: usize) -> Vec<String> {
        let downs = self.told[side].iter().filter_map(|it| match it {
            Action::Down(why) => Some(why.to_string()),
            _ => None,
        });
        downs.collect()
    }
}

#[test]
fn both_dial_and_one_session_is_left() {
    let pair = Pair::up();
    let established = |it: &Peer| it.session().unwrap().0;
    assert_eq!(established(&pair.peers[0]), established(&pair.peers[1]));
    assert!(pair.peers.iter().all(|it| it.connections.len() == 1));
    assert!(pair.told.iter().all(|it| it.contains(&Action::HeardAll)));
}

#[test]
fn what_one_says_the_other_knows_from_the_start_and_later() {
    let mut pair = Pair::new(config(64_512, 64_512, 1), config(64_512, 64_512, 2));
    pair.announce(0, &["10.244.1.0/24", "fd00:1::/64"]);
    pair.run(SECOND);
    assert_eq!(pair.known(1), ["10.244.1.0/24", "fd00:1::/64"]);
    let next_hops: Vec<IpAddr> =
        pair.peers[1].learned().values().map(|it| it.path.next_hop).collect();
    let hops: Vec<IpAddr> = ["192.0.2.1", "2001:db8::1"].map(|it| it.parse().unwrap()).into();
    assert_eq!(next_hops, hops);
    pair.announce(0, &["10.244.1.0/24", "10.9.0.1/32"]);
    assert_eq!(pair.known(1), ["10.9.0.1/32", "10.244.1.0/24"]);
    assert!(pair.known(0).is_empty());
    let inside = &pair.peers[1].learned().values().next().unwrap().path.attributes;
    assert_eq!((inside.local_preference, inside.as_path.length()), (Some(100), 0));
}

#[test]
fn between_ases_the_path_is_told_and_wishes_of_one_s_own_are_not() {
    let mut pair = Pair::new(config(64_512, 4_200_000_000, 1), config(4_200_000_000, 64_512, 1));
    pair.announce(0, &["10.244.1.0/24"]);
    pair.run(SECOND);
    let path = &pair.peers[1].learned().values().next().unwrap().path.attributes;
    assert_eq!(path.as_path.to_string(), "64512");
    assert_eq!(path.local_preference, None);
}

#[test]
fn a_peer_of_another_as_is_refused_by_both_numbers() {
    let mut pair = Pair::new(config(64_512, 64_513, 1), config(64_514, 64_512, 2));
    pair.run(SECOND / 2);
    assert!(!pair.is_up());
    let expected = "the peer is of AS 64514, and AS 64513 was expected";
    assert!(pair.downs(0).contains(&expected.to_owned()), "{:?}", pair.downs(0));
    assert!(pair.downs(1).iter().any(|it| it == "the peer said: bad peer AS (2/2)"));
}

#[test]
fn who_has_our_own_number_is_refused() {
    let mut pair = Pair::new(config(64_512, 64_512, 1), config(64_512, 64_512, 1));
    pair.run(SECOND / 2);
    assert!(pair.downs(0).iter().any(|it| it.contains("bad BGP identifier (2/3)")));
}

#[test]
fn dials_are_repeated_less_and_less_often() {
    let mut pair = Pair::new(config(1, 1, 1), config(1, 1, 2));
    pair.peers[1].shut_down(pair.now);
    pair.is_cut = true;
    pair.run(Duration::from_secs(300));
    let dials = pair.told[0].iter().filter(|it| **it == Action::Dial).count();
    // At 0, 1, 3, 7, 15, 31, 63, 123, 183 and 243 s.
    assert_eq!(dials, 10);
    pair.is_cut = false;
}

#[test]
fn a_quiet_session_lasts_and_silence_ends_it() {
    let mut pair = Pair::up();
    pair.run(Duration::from_secs(3600));
    assert!(pair.is_up());
    assert!(pair.downs(0).is_empty());
    let sent = pair.told[0].iter().filter(|it| matches!(it, Action::Send(..))).count();
    assert!((110..140).contains(&sent), "{sent}");
    pair.is_cut = true;
    pair.run(Duration::from_secs(91));
    assert!(!pair.peers[0].is_up());
    assert_eq!(pair.downs(0), ["told the peer: hold timer expired (4/0)"]);
}

#[test]
fn routes_of_who_dies_are_kept_until_he_has_said_all_again() {
    let mut pair = Pair::up();
    pair.announce(0, &["10.244.1.0/24", "10.9.0.1/32"]);
    pair.die(0, Config { has_restarted: true, ..config(64_512, 64_512, 1) });
    pair.deliver();
    assert_eq!(pair.known(1), ["10.9.0.1/32*", "10.244.1.0/24*"]);
    assert_eq!(pair.downs(1), ["the connection was closed"]);
    // It says one of them again, and is at the end.
    pair.announce(0, &["10.244.1.0/24"]);
    pair.run(SECOND * 2);
    assert!(pair.is_up());
    assert_eq!(pair.known(1), ["10.244.1.0/24"]);
}

#[test]
fn routes_of_who_does_not_come_back_go_after_his_time() {
    let mut pair = Pair::up();
    pair.announce(0, &["10.244.1.0/24"]);
    pair.die(0, config(64_512, 64_512, 1));
    pair.deliver();
    pair.peers[0].shut_down(pair.now);
    pair.is_cut = true;
    pair.run(Duration::from_secs(119));
    assert_eq!(pair.known(1), ["10.244.1.0/24*"]);
    pair.run(SECOND * 2);
    assert!(pair.known(1).is_empty());
}

#[test]
fn who_says_that_he_leaves_is_gone_at_once() {
    let mut pair = Pair::up();
    pair.announce(0, &["10.244.1.0/24"]);
    let actions = pair.peers[0].shut_down(pair.now);
    pair.carry_out(0, actions);
    pair.deliver();
    assert!(pair.known(1).is_empty());
    assert_eq!(pair.downs(1), ["the peer said: administrative shutdown (6/2)"]);
    assert_eq!(pair.peers[0].due(), None);
}

#[test]
fn who_calls_again_has_died_and_takes_the_place_of_his_session() {
    let mut pair = Pair::up();
    pair.announce(0, &["10.244.1.0/24"]);
    // Its machine lost power: nobody closed the old connection.
    pair.lines.iter_mut().for_each(|it| it.is_open = false);
    pair.peers[0] =
        Peer::new(Config { has_restarted: true, ..config(64_512, 64_512, 1) }, pair.now);
    pair.announce(0, &["10.244.1.0/24"]);
    pair.run(SECOND);
    assert!(pair.is_up());
    assert_eq!(pair.downs(1), ["the peer called again"]);
    assert_eq!(pair.known(1), ["10.244.1.0/24"]);
}

#[test]
fn too_many_routes_end_the_session_for_a_while() {
    let mut pair = Pair::up();
    let all: Vec<String> = (0..101).map(|n| format!("10.0.{n}.0/24")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    pair.announce(0, &all);
    assert_eq!(pair.downs(1), ["told the peer: maximum number of prefixes reached (6/1)"]);
    assert!(pair.known(1).is_empty());
    let due = pair.peers[1].due().unwrap();
    assert_eq!(due, pair.now + PENALTY);
}

#[test]
fn our_own_word_is_not_believed_when_it_comes_back() {
    let mut pair = Pair::up();
    let mut update = Update {
        reach: vec![crate::Reach {
            next_hop: "192.0.2.9".parse().unwrap(),
            ranges: vec!["10.0.0.0/8".parse().unwrap()],
        }],
        ..Update::default()
    };
    let mut hear = |update: &Update| {
        let bytes = Message::Update(update.clone()).encode().unwrap();
        let id = pair.peers[1].session().unwrap().0;
        let actions = pair.peers[1].step(pair.now, Input::Received(id, &bytes));
        (actions, pair.peers[1].learned().len())
    };
    assert_eq!(hear(&update), (vec![Action::Learned], 1));
    update.attributes.originator = Some(Ipv4Addr::new(192, 0, 2, 2));
    assert_eq!(hear(&update), (vec![Action::Learned], 0));
    update.attributes.originator = None;
    update.reach[0].next_hop = "224.0.0.1".parse().unwrap();
    assert_eq!(hear(&update), (vec![], 0));
}

#[test]
fn who_wants_to_hear_everything_again_does() {
    let mut pair = Pair::up();
    pair.announce(1, &["10.244.2.0/24", "fd00:2::/64"]);
    let id = pair.peers[1].session().unwrap().0;
    let wish = Message::Refresh(Some(Family::V4)).encode().unwrap();
    let actions = pair.peers[1].step(pair.now, Input::Received(id, &wish));
    let said = actions.iter().map(|it| match it {
        Action::Send(_, bytes) => Message::decode(bytes).unwrap(),
        other => panic!("{other:?}"),
    });
    let said: Vec<_> = said.collect();
    assert_eq!(said.len(), 2);
    assert!(matches!(&said[0], Message::Update(it) if it.reach[0].ranges.len() == 1));
    assert!(matches!(&said[1], Message::Update(it) if it.end_of == Some(Family::V4)));
}

#[test]
fn messages_out_of_turn_and_bytes_that_are_none_end_the_connection() {
    let check = |bytes: &[u8], expected: &str| {
        let mut peer = Peer::new(config(1, 1, 1), Duration::ZERO);
        peer.step(Duration::ZERO, Input::Accepted(ConnectionId(7)));
        let actions = peer.step(Duration::ZERO, Input::Received(ConnectionId(7), bytes));
        let why = actions.iter().find_map(|it| match it {
            Action::Down(why) => Some(why.to_string()),
            _ => None,
        });
        assert_eq!(why.as_deref(), Some(expected), "{actions:?}");
        assert!(actions.contains(&Action::Close(ConnectionId(7))));
    };
    let message = |it: Message| it.encode().unwrap();
    check(b"SSH-2.0-x", "told the peer: connection not synchronized (1/1)");
    check(&message(Message::Keepalive), "told the peer: finite state machine error (5/0)");
    check(
        &message(Message::Update(Update::default())),
        "told the peer: finite state machine error (5/0)",
    );
    let open = |hold_time| Message::Open(Open::new(1, hold_time, Ipv4Addr::new(1, 1, 1, 1)));
    check(&message(open(2)), "told the peer: unacceptable hold time (2/6)");
    let old = Open { capabilities: Vec::new(), ..Open::new(1, 90, Ipv4Addr::new(1, 1, 1, 1)) };
    check(
        &message(Message::Open(old)),
        "the peer does not know numbers of ASes of four bytes (RFC 6793)",
    );
}

#[test]
fn one_byte_at_a_time_is_as_good() {
    let mut peer = Peer::new(config(1, 1, 1), Duration::ZERO);
    let id = ConnectionId(7);
    peer.step(Duration::ZERO, Input::Accepted(id));
    let open = Message::Open(Open::new(1, 90, Ipv4Addr::new(1, 1, 1, 1))).encode().unwrap();
    for byte in [open, Message::Keepalive.encode().unwrap()].concat() {
        peer.step(Duration::ZERO, Input::Received(id, &[byte]));
    }
    assert!(peer.is_up());
    // It named no family, so the second is not spoken of.
    assert_eq!(peer.spoken(), Some((id, vec![Family::V4])));
}

mod any_bytes {
    use proptest::prelude::*;

    use super::*;
    use crate::garbage;

    fn opening() -> Vec<u8> {
        let open = Message::Open(Open::new(64_512, 90, Ipv4Addr::new(1, 1, 1, 1)));
        [open.encode().unwrap(), Message::Keepalive.encode().unwrap()].concat()
    }

    proptest! {
        #[test]
        fn end_in_an_answer(
            size in any::<u8>(),
            kind in 1u8..=5,
            body in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0x40), any::<u8>()], 0..80),
        ) {
            let length = u16::try_from(19 + body.len()).unwrap().to_be_bytes();
            let message = [&[0xff; 16][..], &length, &[kind], &body].concat();
            garbage::message(&message);
            garbage::session(&[&[size][..], &message].concat());
            garbage::session(&[&[size][..], &opening(), &message, &message].concat());
            garbage::session(&body);
        }
    }
}
