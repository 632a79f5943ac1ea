//! Which endpoint has which slot of a port's frontends. Pure.
//!
//! A packet draws a number below the number of endpoints, so the slots in use are always 0..n. One
//! endpoint more or less must move few others: what stays keeps its slot, what comes takes a free
//! one, and a hole is filled from the end.
//!
//! ```text
//! 0:a 1:b 2:c 3:d   without b    ->  0:a 1:d 2:c
//! 0:a 1:d 2:c       with e       ->  0:a 1:d 2:c 3:e
//! ```

use std::collections::BTreeSet;

use crate::service_port::Endpoint;

pub(in crate::backends) fn assign(
    previous: &[Endpoint],
    wanted: &BTreeSet<Endpoint>,
) -> Vec<Endpoint> {
    let mut placed = BTreeSet::new();
    let mut slots: Vec<Option<Endpoint>> = previous
        .iter()
        .map(|it| Some(*it).filter(|it| wanted.contains(it) && placed.insert(*it)))
        .collect();
    let mut coming = wanted.iter().filter(|it| !placed.contains(it)).copied();
    for slot in slots.iter_mut().filter(|it| it.is_none()) {
        *slot = coming.next();
    }
    slots.extend(coming.map(Some));
    let mut hole = 0;
    while hole < slots.len() {
        if slots[hole].is_none() {
            slots.swap_remove(hole);
        } else {
            hole += 1;
        }
    }
    slots.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn endpoint(letter: u8) -> Endpoint {
        Endpoint { address: [10, 0, 0, 0].into(), port: letter.into() }
    }

    fn check(previous: &str, wanted: &str, expected: &str) {
        let previous: Vec<_> = previous.bytes().map(endpoint).collect();
        let wanted = wanted.bytes().map(endpoint).collect();
        let slots = assign(&previous, &wanted);
        let letters = slots.iter().map(|it| u8::try_from(it.port).unwrap()).collect();
        assert_eq!(String::from_utf8(letters).unwrap(), expected);
    }

    #[test]
    fn what_stays_keeps_its_slot() {
        check("", "abc", "abc");
        check("abcd", "acd", "adc");
        check("adc", "acde", "adce");
        check("abcd", "abcx", "abcx");
        check("abcd", "acx", "axc");
        check("abcd", "", "");
        check("aab", "ab", "ab");
        check("abcd", "d", "d");
    }

    proptest! {
        #[test]
        fn every_endpoint_has_one_slot_and_few_move(
            previous in proptest::collection::btree_set(0u8..12, 0..12),
            wanted in proptest::collection::btree_set(0u8..12, 0..12),
        ) {
            let before: Vec<_> = previous.iter().copied().map(endpoint).collect();
            let wanted_set: BTreeSet<_> = wanted.iter().copied().map(endpoint).collect();
            let after = assign(&before, &wanted_set);
            prop_assert_eq!(after.len(), wanted.len());
            prop_assert_eq!(after.iter().copied().collect::<BTreeSet<_>>(), wanted_set);
            let n_changed = after.iter().zip(&before).filter(|(a, b)| a != b).count();
            let n_differing = previous.symmetric_difference(&wanted).count();
            prop_assert!(n_changed <= n_differing, "{before:?} {after:?}");
        }
    }
}
