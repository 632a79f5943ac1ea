//! Running other programs, with errors that name the command.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Runs to the end with inherited output; a non-zero exit is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let text = describe(command);
    crate::say(&format!("$ {text}"));
    let status = command.status().with_context(|| format!("starting `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed ({status})");
    }
    Ok(())
}

/// Runs to the end and returns standard output; a non-zero exit is an error with what it said.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let text = describe(command);
    let output = command.output().with_context(|| format!("starting `{text}`"))?;
    if !output.status.success() {
        bail!(
            "`{text}` failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether the program can be started at all.
pub(crate) fn is_there(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|it| it.status.success())
}

fn describe(command: &Command) -> String {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}
