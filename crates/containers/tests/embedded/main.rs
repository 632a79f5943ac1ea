//! Real containers on the real kernel: this program is the holder too. Needs root and Debian's
//! `busybox-static`.
//!
//! Its own `main`, because a holder must start before anything else of the program does. Arguments
//! that are no options select tests by a part of their name.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

mod adoption;
mod asked_for;
mod bed;
mod contract;
mod leftovers;
mod lifetimes;
mod measure;
mod records;
mod silence;
mod streams;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

/// As the real program has it: what a holder at rest costs depends on it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Test = (&'static str, fn() -> BoxFuture<'static, ()>);

/// `name => function`, each of them async and without arguments.
macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), || Box::pin($module::$name()))),*]
    };
}

const TESTS: &[Test] = tests![
    lifetimes::output_is_logged_and_the_exit_code_told,
    lifetimes::a_log_has_everything_that_was_written,
    lifetimes::logs_are_rotated,
    lifetimes::a_signal_ends_a_container,
    lifetimes::what_ignores_its_stop_signal_is_killed,
    lifetimes::a_program_that_does_not_exist_is_named,
    lifetimes::containers_share_the_sandbox,
    lifetimes::a_pod_can_share_its_pids,
    lifetimes::a_holder_does_not_remember_what_containers_were_given,
    lifetimes::the_hosts_pids_can_be_shared,
    lifetimes::a_sandbox_that_cannot_be_made_leaves_nothing,
    lifetimes::a_killed_holder_takes_its_containers_along,
    streams::a_command_has_streams_and_an_exit_code,
    streams::a_command_with_a_terminal_can_be_resized,
    streams::a_command_ends_with_its_client,
    streams::output_of_a_command_is_cut_and_its_time_limited,
    streams::attached_clients_see_output_and_write_input,
    streams::a_client_that_does_not_read_stops_nobody,
    streams::ports_of_the_pod_can_be_reached,
    adoption::the_next_one_finds_everything,
    adoption::a_killed_process_loses_nothing,
    adoption::half_made_things_are_removed,
    adoption::a_dead_holder_is_noticed_at_start,
    records::pods_of_the_first_format_are_adopted_and_go_on,
    records::an_unreadable_sandbox_goes_on_and_is_named,
    records::an_unreadable_container_goes_on_and_nothing_starts_beside_it,
    records::a_damaged_exit_does_not_run_a_container_twice,
    records::purge_removes_also_what_cannot_be_read,
    records::set_up_is_the_present_programs,
    silence::a_stopped_holder_is_no_dead_holder,
    silence::a_holder_that_stops_while_we_run_is_named_and_waited_for,
    silence::a_stopped_holder_is_purged,
    silence::a_holder_without_a_record_is_found_by_its_arguments,
    asked_for::a_device_can_be_used_as_far_as_it_is_permitted,
    asked_for::every_handler_that_is_shown_runs_containers_and_no_other,
    asked_for::cpus_are_those_that_were_given,
    asked_for::an_images_content_can_be_read_and_not_written,
    asked_for::recursively_read_only_is_what_is_mounted_below_too,
    asked_for::what_a_container_wrote_is_counted,
    leftovers::twenty_sandboxes_leave_nothing,
    contract::sandboxes_and_containers_keep_their_promises,
    measure::starting_and_resting,
    measure::commands,
    measure::adoption,
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|it| it.to_str()) {
        Some(containers::holder::ARGUMENT) => {
            return containers::holder::run(arguments[1..].to_vec());
        }
        Some(containers::setup::ARGUMENT) => containers::setup::run(&arguments[1..]),
        Some(adoption::CHILD) => return adoption::child(&arguments[1..]),
        _ => {}
    }
    if let Some(why) = bed::missing() {
        println!("SKIPPED: {why}");
        return ExitCode::SUCCESS;
    }
    let filters: Vec<String> = arguments
        .iter()
        .filter_map(|it| it.to_str())
        .filter(|it| !it.starts_with('-'))
        .map(str::to_owned)
        .collect();
    let selected = TESTS
        .iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|it| name.contains(&**it)));
    let mut failed = Vec::new();
    for (name, test) in selected {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let outcome = runtime.block_on(AssertUnwindSafe(test()).catch_unwind());
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        if outcome.is_err() {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {failed:?}");
    ExitCode::FAILURE
}
