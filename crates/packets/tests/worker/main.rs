//! The worker as a process of its own, in network namespaces of the tests. A program without the
//! usual harness, since a worker must start before anything else of its program does.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a panic is a failed test")]

mod bed;
mod lifetimes;
mod portals;
mod privileges;

use std::process::ExitCode;

/// What is promised, and the proof.
const CASES: &[(&str, fn())] = &[
    (
        "a_worker_has_no_privileges_and_can_gain_none",
        privileges::a_worker_has_no_privileges_and_can_gain_none,
    ),
    (
        "a_worker_is_found_again_and_one_that_was_killed_is_told_and_replaced",
        lifetimes::a_worker_is_found_again_and_one_that_was_killed_is_told_and_replaced,
    ),
    ("of_many_that_look_at_once_one_starts_it", lifetimes::of_many_that_look_at_once_one_starts_it),
    ("a_worker_with_nothing_to_carry_ends", lifetimes::a_worker_with_nothing_to_carry_ends),
    ("purging_leaves_no_process_and_no_file", lifetimes::purging_leaves_no_process_and_no_file),
    ("nonsense_is_refused_and_harms_nobody", lifetimes::nonsense_is_refused_and_harms_nobody),
    (
        "more_ways_than_fit_in_a_message_are_carried",
        lifetimes::more_ways_than_fit_in_a_message_are_carried,
    ),
    ("connections_take_turns_and_arrive_whole", portals::connections_take_turns_and_arrive_whole),
    (
        "a_connection_outlives_its_portal_and_its_node",
        portals::a_connection_outlives_its_portal_and_its_node,
    ),
    ("an_endpoint_that_refuses_is_passed_over", portals::an_endpoint_that_refuses_is_passed_over),
    (
        "a_client_whose_endpoints_all_refuse_is_reset",
        portals::a_client_whose_endpoints_all_refuse_is_reset,
    ),
    ("datagrams_go_and_come_back", portals::datagrams_go_and_come_back),
    ("portals_that_are_not_named_are_closed", portals::portals_that_are_not_named_are_closed),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if first.as_deref() == Some(packets::ARGUMENT) {
        return packets::run();
    }
    // As the usual harness: words that start with no dash choose.
    let words: Vec<String> =
        first.into_iter().chain(arguments).filter(|it| !it.starts_with('-')).collect();
    let is_chosen = |name: &str| words.is_empty() || words.iter().any(|it| name.contains(it));
    let mut n_passed = 0;
    for (name, run) in CASES.iter().filter(|(name, _)| is_chosen(name)) {
        println!("test {name} ...");
        run();
        n_passed += 1;
    }
    println!("test result: ok. {n_passed} passed; 0 failed");
    ExitCode::SUCCESS
}
