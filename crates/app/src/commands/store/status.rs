//! `xebec store status`: online or not.

use std::path::Path;

use anyhow::Result;

use super::super::{Output, render_json};
use super::unexpected;
use crate::datastore::amounts::render_size;
use crate::datastore::socket::{Answer, Request, Status};
use crate::progress::say;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// How to show it
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

pub(super) fn run(directory: &Path, flags: &Flags) -> Result<()> {
    let Answer::Status(status) = super::ask(directory, Request::Status)? else {
        return Err(unexpected());
    };
    match flags.output {
        Output::Json => say(&render_json(&status)?),
        Output::Text => render(&status).iter().for_each(|it| say(it)),
    }
    Ok(())
}

fn render(status: &Status) -> Vec<String> {
    let line = |name: &str, value: String| format!("{name:<17} {value}");
    vec![
        line("revision", status.revision.to_string()),
        line("oldest revision", status.oldest_revision.to_string()),
        line("keys", status.keys.to_string()),
        line("size", render_size(status.bytes)),
        line("size of present", render_size(status.bytes_current)),
        line("hash", status.hash.clone().unwrap_or_else(|| "-".to_owned())),
        line(
            "condition",
            status
                .read_only
                .as_ref()
                .map_or_else(|| "writable".to_owned(), |why| format!("read-only: {why}")),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::render;
    use crate::datastore::socket::Status;

    #[test]
    fn a_read_only_store_says_why() {
        let status = Status {
            revision: 12,
            oldest_revision: 3,
            keys: 4,
            bytes: 2048,
            bytes_current: 512,
            hash: Some("00ff".to_owned()),
            read_only: Some("no space".to_owned()),
        };
        assert_eq!(
            render(&status),
            [
                "revision          12",
                "oldest revision   3",
                "keys              4",
                "size              2.0 KiB",
                "size of present   512 B",
                "hash              00ff",
                "condition         read-only: no space",
            ]
        );
    }
}
