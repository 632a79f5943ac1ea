//! What is wrong with a configuration, and where.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// `source` says what, with the line and what is around it.
    #[error("{}, line {line}{}", .path.display(), shown(.field))]
    Parse {
        path: PathBuf,
        line: u64,
        /// What the line is about, where it names a field.
        field: String,
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    #[error("{}: {field}: {what}", .path.display())]
    Refused { path: PathBuf, field: String, what: String },
    #[error("{}: the configuration of {plugin} is not a {}", .path.display(), list(.known))]
    OtherKind {
        path: PathBuf,
        plugin: &'static str,
        known: &'static [(&'static str, &'static str)],
    },
    /// It cannot work without being told something.
    #[error("the admission plugin {plugin} needs a configuration: {what}")]
    Missing { plugin: &'static str, what: &'static str },
}

fn shown(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", field {field:?}") }
}

fn list(known: &[(&str, &str)]) -> String {
    let known: Vec<String> =
        known.iter().map(|(version, kind)| format!("{kind} of {version}")).collect();
    known.join(" or a ")
}

impl Error {
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    pub(super) fn parse(path: &Path, text: &str, source: serde_saphyr::Error) -> Self {
        let line = source.location().map_or(1, |it| it.line().max(1));
        let index = usize::try_from(line - 1).unwrap_or(usize::MAX);
        let field = text.lines().nth(index).and_then(|it| it.split_once(':'));
        let field =
            field.map(|it| it.0.trim_start_matches([' ', '-', '{', '"'])).unwrap_or_default();
        let field = field.trim_end_matches('"').to_owned();
        Self::Parse { path: path.to_owned(), line, field, source: Box::new(source) }
    }
}
