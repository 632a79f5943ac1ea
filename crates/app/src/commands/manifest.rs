//! The objects of a file, as users write them: YAML or JSON, several documents, lists. Whatever is
//! wrong with one is said with its line.

use std::io::Read as _;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

const BYTES_MAX: u64 = 16 << 20;
const OBJECTS_MAX: usize = 1_000;

/// One object, and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Document {
    pub(super) line: usize,
    pub(super) object: Value,
}

impl Document {
    pub(super) fn text(&self, field: &str) -> &str {
        self.object[field].as_str().unwrap_or_default()
    }

    pub(super) fn metadata(&self, field: &str) -> &str {
        self.object["metadata"][field].as_str().unwrap_or_default()
    }
}

/// `-` is standard input.
pub(super) fn load(path: &str) -> Result<Vec<Document>> {
    let mut text = String::new();
    let mut read = |from: &mut dyn std::io::Read| -> Result<()> {
        from.take(BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok(())
    };
    let outcome = match path {
        "-" => read(&mut std::io::stdin()),
        path => std::fs::File::open(path).map_err(Into::into).and_then(|mut it| read(&mut it)),
    };
    outcome.with_context(|| format!("reading {path}"))?;
    if text.len() as u64 > BYTES_MAX {
        bail!("{path} is larger than {} MiB", BYTES_MAX >> 20);
    }
    let documents = parse(&text).with_context(|| format!("reading {path}"))?;
    if documents.is_empty() {
        bail!("{path} has no objects");
    }
    Ok(documents)
}

/// Every object with its kind and version.
pub(super) fn parse(text: &str) -> Result<Vec<Document>> {
    let mut found = Vec::new();
    for (line, text) in split(text) {
        // Lines before it keep the numbers of the others right.
        let padded = format!("{}{text}", "\n".repeat(line - 1));
        let value: Value = serde_saphyr::from_str(&padded)
            .map_err(|err| anyhow::anyhow!("{}", err.without_snippet()))?;
        if value.is_null() {
            continue;
        }
        match value["items"].as_array() {
            Some(items) if value["kind"].as_str().is_some_and(|it| it.ends_with("List")) => {
                found.extend(items.iter().map(|it| Document { line, object: it.clone() }));
            }
            _ => found.push(Document { line, object: value }),
        }
    }
    if found.len() > OBJECTS_MAX {
        bail!("there are {} objects: at most {OBJECTS_MAX} are taken", found.len());
    }
    for document in &found {
        let line = document.line;
        for field in ["apiVersion", "kind"] {
            if document.text(field).is_empty() {
                bail!("line {line}: {field} is missing");
            }
        }
    }
    Ok(found)
}

/// Documents with the lines at which they begin.
fn split(text: &str) -> Vec<(usize, String)> {
    let mut all = vec![(1, String::new())];
    for (index, line) in text.lines().enumerate() {
        if line == "---" || line.starts_with("--- ") {
            all.push((index + 2, String::new()));
        } else if let Some((_, text)) = all.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    all.retain(|it| !it.1.trim().is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn refused(text: &str) -> String {
        format!("{:#}", parse(text).expect_err("refused"))
    }

    #[test]
    fn documents_and_lists_are_objects_with_their_lines() {
        let text = "# first\napiVersion: v1\nkind: A\n---\n---\napiVersion: v1\nkind: BList\nitems:\n\
                    - {apiVersion: v1, kind: B}\n- {apiVersion: v1, kind: C}\n";
        let found = parse(text).unwrap();
        let shown: Vec<(usize, &str)> = found.iter().map(|it| (it.line, it.text("kind"))).collect();
        assert_eq!(shown, [(1, "A"), (6, "B"), (6, "C")]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let said = refused("apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: [\n");
        assert!(said.contains("line 5") || said.contains("line 6"), "{said}");
        assert_eq!(refused("kind: A\n"), "line 1: apiVersion is missing");
        assert_eq!(refused("apiVersion: v1\n---\nkind: A"), "line 1: kind is missing");
    }
}
