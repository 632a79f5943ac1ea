//! `cel-oracles COUNT SEED [SHOW]`: so many random expressions, from that seed on.
#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use cel_oracles::compare;

fn main() -> ExitCode {
    // An oracle that panics has failed, which is an answer: no word about each.
    std::panic::set_hook(Box::new(|it| {
        if std::thread::current().name() == Some("main") && it.to_string().contains("seed") {
            eprintln!("{it}");
        }
    }));
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    let count = numbers.first().copied().unwrap_or(10_000);
    let seed = numbers.get(1).copied().unwrap_or(1);
    let n_shown = numbers.get(2).copied().unwrap_or(20);
    let tally = compare(seed..seed.saturating_add(count));
    println!("{count} expressions from seed {seed} on; {} ill-typed ones refused", tally.n_refused);
    for (oracle, n) in &tally.n_compared {
        let n_values = tally.n_values.get(oracle).copied().unwrap_or_default();
        println!("{n:>10}  compared with {oracle:?}, {n_values} of them values");
    }
    for ((oracle, why), n) in &tally.n_explained {
        println!("{n:>10}  {oracle:?}: {why}");
    }
    for it in tally.differences.iter().take(usize::try_from(n_shown).unwrap_or(usize::MAX)) {
        println!("seed {} {:?}: {}\n  values {:?}", it.seed, it.oracle, it.case.text, it.case.values);
        println!("  ours   {:?}\n  theirs {:?}", it.ours, it.theirs);
    }
    if tally.differences.is_empty() {
        println!("no difference is unexplained");
        return ExitCode::SUCCESS;
    }
    println!("{} differences are unexplained", tally.differences.len());
    ExitCode::FAILURE
}
