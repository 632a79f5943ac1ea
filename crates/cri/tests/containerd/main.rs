//! Debian's containerd, with runc and CNI's plugins, as the node's containers. Needs root and the
//! packages that `cargo xtask test` unpacks; skips and says so without them.
//!
//! Its own `main`, because it enters a network and a mount namespace of its own while it has one
//! thread: containerd's streaming server, the pods' links and all mounts are in there and end with
//! it. Arguments that are no options select tests by a part of their name.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

mod bed;
mod contract;
mod daemon;
mod image;
mod lifetimes;
mod registry;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use linux::namespaces::Namespaces;

type Test = (&'static str, fn() -> BoxFuture<'static, ()>);

/// `name => function`, each of them async and without arguments.
macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), || Box::pin($module::$name()))),*]
    };
}

const TESTS: &[Test] = tests![
    contract::sandboxes_keep_their_promises,
    contract::containers_keep_their_promises,
    contract::images_keep_their_promises,
    lifetimes::output_is_logged_and_the_log_can_be_rotated,
    lifetimes::a_terminal_can_be_resized_and_a_port_reached,
    lifetimes::the_next_one_finds_everything,
    lifetimes::a_restart_of_the_runtime_is_survived,
];

fn main() -> ExitCode {
    if let Some(why) = daemon::missing() {
        println!("SKIPPED: {why}");
        return ExitCode::SUCCESS;
    }
    linux::namespaces::unshare(Namespaces::NETWORK | Namespaces::MOUNT).unwrap();
    linux::mounts::make_all_private().unwrap();
    linux::loopback::bring_up().unwrap();
    let filters: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
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
