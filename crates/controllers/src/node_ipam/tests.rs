//! A range and what is taken of it in, a part out.

use proptest::prelude::*;
use stdx::Cidr;

use super::plan::{Masks, Whole, choose, grant, wholes, wished};

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn part(whole: &str, length: u8, taken: &[&str], start: u128) -> String {
    let whole = Whole { cidr: cidr(whole), prefix_length: length };
    let taken: Vec<Cidr> = taken.iter().map(|it| cidr(it)).collect();
    choose(whole, &taken, start).part.map(|it| it.to_string()).unwrap_or_default()
}

#[test]
fn the_first_part_that_nobody_has() {
    assert_eq!(part("10.244.0.0/16", 24, &[], 0), "10.244.0.0/24");
    assert_eq!(part("10.244.0.0/16", 24, &["10.244.0.0/24"], 0), "10.244.1.0/24");
    assert_eq!(part("10.244.0.0/16", 24, &["10.244.0.0/23", "10.244.2.7/32"], 0), "10.244.3.0/24");
    assert_eq!(part("10.244.0.0/16", 24, &["10.96.0.0/12"], 0), "10.244.0.0/24");
    assert_eq!(part("10.244.0.0/23", 24, &[], 3), "10.244.1.0/24");
    assert_eq!(part("10.244.0.0/23", 24, &["10.244.1.0/24"], 1), "10.244.0.0/24");
    assert_eq!(part("10.244.0.0/23", 24, &["10.0.0.0/8"], 0), "");
    assert_eq!(part("fd00::/48", 64, &["fd00::/64"], 0), "fd00:0:0:1::/64");
    assert_eq!(part("10.244.0.0/24", 24, &[], 0), "10.244.0.0/24");
}

#[test]
fn a_node_gets_the_part_that_its_pods_have_addresses_of_if_it_is_free() {
    let check = |wish: &str, taken: &[&str], expected: Option<&str>| {
        let whole = Whole { cidr: cidr("10.244.0.0/16"), prefix_length: 24 };
        let taken: Vec<Cidr> = taken.iter().map(|it| cidr(it)).collect();
        assert_eq!(grant(whole, &taken, &wished(wish)), expected.map(cidr), "{wish}");
    };
    check("10.244.9.0/24", &["10.244.8.0/24"], Some("10.244.9.0/24"));
    check("fd00::/64,10.244.9.0/24", &[], Some("10.244.9.0/24"));
    check("10.244.9.0/24", &["10.244.9.0/25"], None);
    for none_of_ours in ["10.244.0.0/16", "10.244.9.0/25", "10.1.0.0/24", "x", ""] {
        check(none_of_ours, &[], None);
    }
}

fn read(cidrs: &[&str], masks: Masks) -> String {
    let cidrs: Vec<Cidr> = cidrs.iter().map(|it| cidr(it)).collect();
    match wholes(&cidrs, masks) {
        Ok(all) => {
            let all: Vec<String> =
                all.iter().map(|it| format!("{} by {}", it.cidr, it.prefix_length)).collect();
            all.join(", ")
        }
        Err(err) => err.to_string(),
    }
}

#[test]
fn ranges_are_cut_as_the_flags_say() {
    let none = Masks::default();
    assert_eq!(read(&["10.244.0.0/16"], none), "10.244.0.0/16 by 24");
    let both = ["10.244.0.0/16", "fd00::/48"];
    assert_eq!(read(&both, none), "10.244.0.0/16 by 24, fd00::/48 by 64");
    let one = Masks { one: Some(26), ..none };
    assert_eq!(read(&["10.244.0.0/16"], one), "10.244.0.0/16 by 26");
    assert_eq!(read(&both, one), "10.244.0.0/16 by 24, fd00::/48 by 64");
    let each = Masks { v4: Some(25), v6: Some(60), ..none };
    assert_eq!(read(&both, each), "10.244.0.0/16 by 25, fd00::/48 by 60");
    assert_eq!(read(&[], none), "--cluster-cidr names no range");
    assert_eq!(
        read(&["10.0.0.0/16", "10.1.0.0/16"], none),
        "--cluster-cidr names more than one range of IPv4"
    );
    for (cidr, length) in [("10.244.0.0/25", 24), ("16.0.0.0/4", 24), ("fd00::/40", 64)] {
        let expected = format!("a node's part cannot have the prefix length {length}");
        let said = read(&[cidr], none);
        assert!(said.ends_with(&expected), "{cidr}: {said}");
    }
}

proptest! {
    /// Given one after the other, parts never meet, until there is none.
    #[test]
    fn no_two_nodes_have_the_same(
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        start in 0..100u128,
    ) {
        let whole = Whole { cidr: cidr("10.0.0.0/20"), prefix_length: 24 };
        let mut taken: Vec<Cidr> = vec![cidr("10.0.3.0/28")];
        let mut next = start;
        let mut gone = gone.into_iter();
        loop {
            let found = choose(whole, &taken, next);
            let Some(part) = found.part else { break };
            prop_assert!(taken.iter().all(|it| !it.overlaps(part)));
            taken.push(part);
            next = found.next;
            if let Some(index) = gone.next() {
                let index = 1 + index.index(taken.len() - 1);
                taken.remove(index);
            }
        }
        prop_assert_eq!(taken.len(), 16);
    }
}
