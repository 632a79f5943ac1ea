//! Modes by name.

use super::{ALL, mode};

#[test]
fn a_mode_that_is_not_there_is_refused_with_those_that_are() {
    let check = |name: &str, expected: &str| {
        let found = mode(name).map_or_else(|err| err.to_string(), |it| it.name.to_owned());
        assert_eq!(found, expected);
    };
    check("ebpf", "ebpf");
    check("iptables", "iptables");
    check("nftables", "nftables");
    check("userspace", "userspace");
    let known = "ebpf, iptables, nftables, userspace";
    check("ipvs", &format!("there is no proxy mode \"ipvs\"; there is: {known}"));
    check("", &format!("there is no proxy mode \"\"; there is: {known}"));
}

#[test]
fn modes_are_listed_once_in_the_order_of_their_names() {
    let names: Vec<_> = ALL.iter().map(|it| it.name).collect();
    assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
}
