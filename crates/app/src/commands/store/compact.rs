//! `xebec store compact`: online or not.

use std::path::Path;

use anyhow::Result;

use super::unexpected;
use crate::datastore::amounts::render_size;
use crate::datastore::socket::{Answer, Compacted, Request};
use crate::progress::say;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// Forget what is older than this revision; without it, everything that is not current
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
}

pub(super) fn run(directory: &Path, flags: &Flags) -> Result<()> {
    match super::ask(directory, Request::Compact { through: flags.revision })? {
        Answer::Compacted(compacted) => {
            say(&render(&compacted));
            Ok(())
        }
        _ => Err(unexpected()),
    }
}

fn render(compacted: &Compacted) -> String {
    let Compacted { through, bytes_before, bytes_after } = compacted;
    // A cluster that runs may have written more than there was to free.
    let freed = render_size(bytes_before.saturating_sub(*bytes_after));
    let left = render_size(*bytes_after);
    format!("history before revision {through} is forgotten; {freed} freed, {left} are left")
}

#[cfg(test)]
mod tests {
    use super::{Compacted, render};

    #[test]
    fn what_was_freed_is_said() {
        let check = |bytes_before, bytes_after, expected: &str| {
            let said = render(&Compacted { through: 7, bytes_before, bytes_after });
            assert_eq!(said, format!("history before revision 7 is forgotten; {expected}"));
        };
        check(3 << 20, 1 << 20, "2.0 MiB freed, 1.0 MiB are left");
        check(1024, 2048, "0 B freed, 2.0 KiB are left");
    }
}
