//! What is asked next of a way, from what was answered. Pure.
//!
//! ```text
//! short ─ no ─> machine ─> silent
//!   │ yes
//! long ─ no ─> least ─ no ─> narrow
//!   │ yes        │ yes
//!   │          between, until known within a few bytes
//!   ├────────────┘
//! datagram ─ no ─> without hardware ─ no ─> with it again: unclear
//!   │ yes            │ yes
//! reached          reached, repaired
//! ```

use std::net::IpAddr;

use super::{Checksums, Verdict};

/// Of a packet that nothing takes for too long.
const SHORT: u32 = 100;
/// What every way of IPv4, and of IPv6, takes.
const LEAST: u32 = 576;
const LEAST_IPV6: u32 = 1280;
/// Nearer the longest packet need not be known.
const NEAR: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The gateway there, in a packet of this length.
    Echo(u32),
    /// The machine there, past the pods' network.
    Machine,
    /// A datagram to the gateway there, whose checksum somebody has to compute.
    Datagram,
    /// No question: whether the link leaves checksums to others.
    LeaveChecksums(bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ask(Ask),
    Done(Verdict),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Short,
    Long,
    Least,
    /// The longest that is known to arrive, and the shortest that is known not to.
    Between(u32, u32),
    Datagram,
    SwitchedOff,
    DatagramAgain,
    SwitchedOn,
    Machine,
}

/// Of one way.
#[derive(Clone, Debug)]
pub(super) struct Probing {
    at: At,
    longest: u32,
    least: u32,
    /// The way's link leaves checksums to others, and could compute them itself.
    leaves_checksums: bool,
    fits: Option<u32>,
}

impl Probing {
    pub(super) fn new(to: IpAddr, mtu: u32, leaves_checksums: bool) -> Self {
        let least = if to.is_ipv4() { LEAST } else { LEAST_IPV6 };
        let least = least.min(mtu);
        Self { at: At::Short, longest: mtu, least, leaves_checksums, fits: None }
    }

    pub(super) fn first(&self) -> Ask {
        Ask::Echo(SHORT)
    }

    /// `is_answered`: what was asked last was answered, or done.
    pub(super) fn step(&mut self, is_answered: bool) -> Step {
        match (self.at, is_answered) {
            (At::Short, true) => self.ask(At::Long),
            (At::Short, false) => self.ask(At::Machine),
            (At::Machine, machine_answers) => {
                Step::Done(Verdict::Silent { machine_answers, source: None })
            }
            (At::Long, true) => self.measured(None),
            (At::Long, false) if self.least == self.longest => Step::Done(Verdict::Narrow),
            (At::Long, false) => self.ask(At::Least),
            (At::Least, false) => Step::Done(Verdict::Narrow),
            (At::Least, true) => self.between(self.least, self.longest),
            (At::Between(low, high), true) => self.between(middle(low, high), high),
            (At::Between(low, high), false) => self.between(low, middle(low, high)),
            (At::Datagram, true) => self.reached(Checksums::Fine),
            (At::Datagram, false) => self.ask(At::SwitchedOff),
            (At::SwitchedOff, true) => self.ask(At::DatagramAgain),
            (At::DatagramAgain, true) => self.reached(Checksums::Repaired),
            (At::DatagramAgain, false) => self.ask(At::SwitchedOn),
            (At::SwitchedOff, false) | (At::SwitchedOn, _) => self.reached(Checksums::Unclear),
        }
    }

    fn ask(&mut self, at: At) -> Step {
        self.at = at;
        Step::Ask(match at {
            At::Short => Ask::Echo(SHORT),
            At::Long => Ask::Echo(self.longest),
            At::Least => Ask::Echo(self.least),
            At::Between(low, high) => Ask::Echo(middle(low, high)),
            At::Datagram | At::DatagramAgain => Ask::Datagram,
            At::SwitchedOff => Ask::LeaveChecksums(false),
            At::SwitchedOn => Ask::LeaveChecksums(true),
            At::Machine => Ask::Machine,
        })
    }

    fn between(&mut self, low: u32, high: u32) -> Step {
        match high - low <= NEAR {
            true => self.measured(Some(low)),
            false => self.ask(At::Between(low, high)),
        }
    }

    fn measured(&mut self, fits: Option<u32>) -> Step {
        self.fits = fits;
        match self.leaves_checksums {
            true => self.ask(At::Datagram),
            false => self.reached(Checksums::Fine),
        }
    }

    fn reached(&self, checksums: Checksums) -> Step {
        Step::Done(Verdict::Reached { fits: self.fits, checksums })
    }
}

fn middle(low: u32, high: u32) -> u32 {
    low + (high - low) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A way that takes packets of up to this length, and does this to datagrams.
    struct Way {
        takes: u32,
        datagrams: Datagrams,
        machine_answers: bool,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Datagrams {
        Arrive,
        ArriveIfComputedHere,
        Never,
    }

    /// The verdict, whether checksums are left to others at the end, and how much was asked.
    fn probe(way: &Way, to: &str, mtu: u32) -> (Verdict, bool, usize) {
        let mut probing = Probing::new(to.parse().unwrap(), mtu, true);
        let (mut ask, mut leaves) = (probing.first(), true);
        for n in 1..100 {
            let is_answered = match ask {
                Ask::Echo(length) => length <= way.takes,
                Ask::Machine => way.machine_answers,
                Ask::Datagram => match way.datagrams {
                    Datagrams::Arrive => true,
                    Datagrams::ArriveIfComputedHere => !leaves,
                    Datagrams::Never => false,
                },
                Ask::LeaveChecksums(wanted) => {
                    leaves = wanted;
                    true
                }
            };
            match probing.step(is_answered) {
                Step::Ask(next) => ask = next,
                Step::Done(verdict) => return (verdict, leaves, n),
            }
        }
        panic!("it never ends");
    }

    fn check(way: &Way, expected: &Verdict, leaves: bool) {
        let (verdict, left, _) = probe(way, "10.244.2.1", 1450);
        assert_eq!((&verdict, left), (expected, leaves));
    }

    fn reached(fits: Option<u32>, checksums: Checksums) -> Verdict {
        Verdict::Reached { fits, checksums }
    }

    const WAY: Way = Way { takes: 1450, datagrams: Datagrams::Arrive, machine_answers: true };

    #[test]
    fn a_way_is_good_or_what_is_wrong_with_it_is_found() {
        check(&WAY, &reached(None, Checksums::Fine), true);
        for machine_answers in [true, false] {
            let silent = Verdict::Silent { machine_answers, source: None };
            check(&Way { takes: 0, machine_answers, ..WAY }, &silent, true);
        }
        check(&Way { takes: 500, ..WAY }, &Verdict::Narrow, true);
        let datagrams = Datagrams::ArriveIfComputedHere;
        check(&Way { datagrams, ..WAY }, &reached(None, Checksums::Repaired), false);
        let datagrams = Datagrams::Never;
        check(&Way { datagrams, ..WAY }, &reached(None, Checksums::Unclear), true);
    }

    #[test]
    fn nothing_is_switched_where_nothing_is_left_to_others() {
        let mut probing = Probing::new("10.244.2.1".parse().unwrap(), 1450, false);
        assert_eq!(probing.step(true), Step::Ask(Ask::Echo(1450)));
        assert_eq!(probing.step(true), Step::Done(reached(None, Checksums::Fine)));
    }

    proptest! {
        #[test]
        fn what_fits_is_found_soon_and_never_too_long(
            takes in 1280..9000_u32,
            mtu in 1280..9000_u32,
            is_ipv6: bool,
        ) {
            let to = if is_ipv6 { "fd00::1" } else { "10.244.2.1" };
            let (verdict, _, n) = probe(&Way { takes, ..WAY }, to, mtu);
            prop_assert!(n < 20);
            let Verdict::Reached { fits, .. } = verdict else { panic!("{verdict:?}") };
            prop_assert_eq!(fits.is_none(), takes >= mtu);
            if let Some(fits) = fits {
                prop_assert!(fits <= takes && takes - fits <= NEAR);
            }
        }
    }
}
