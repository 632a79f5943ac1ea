//! Real containers on the real kernel: this program is the holder too. Needs root and Debian's
//! `busybox-static`.
//!
//! Its own `main`, because a holder must start before anything else of the program does. Arguments
//! that are no options select tests by a part of their name.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

mod adoption;
mod bed;
mod contract;
mod leftovers;
mod lifetimes;
mod measure;
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
    leftovers::twenty_sandboxes_leave_nothing,
    contract::sandboxes_and_containers_keep_their_promises,
    measure::starting_and_resting,
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.first().and_then(|it| it.to_str()) {
        Some(containers::holder::ARGUMENT) => {
            return containers::holder::run(arguments[1..].to_vec());
        }
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
