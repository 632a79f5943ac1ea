//! `eat`: takes more than its share, to see what the limits do. Deaf to signals that ask it to
//! stop.

use std::hint::black_box;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// What to take
    what: What,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    Memory,
    Cpu,
    /// Only refuses to stop
    Nothing,
}

const PIECE: usize = 1 << 20;

pub(crate) async fn run(flags: Flags) -> Result<()> {
    // Taken and never read: the process goes on.
    let _deaf = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    match flags.what {
        What::Nothing => std::future::pending().await,
        What::Cpu => loop {
            black_box(0);
        },
        What::Memory => {
            let mut pieces = Vec::new();
            loop {
                // Written to, or the kernel would give nothing.
                pieces.push(black_box(vec![1_u8; PIECE]));
            }
        }
    }
}
