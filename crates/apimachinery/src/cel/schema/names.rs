//! Names of fields as identifiers of the language, and back.

pub use cel::is_reserved;

const ESCAPES: &[(&str, &str)] =
    &[("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// How expressions write the field; `None` if they cannot.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|it: char| it.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if let Some((plain, written)) = ESCAPES.iter().find(|(it, _)| rest.starts_with(it)) {
            escaped.push_str(written);
            rest = &rest[plain.len()..];
        } else if first.is_ascii_alphanumeric() || first == '_' {
            escaped.push(first);
            rest = &rest[1..];
        } else {
            return None;
        }
    }
    Some(escaped)
}

/// The field that an expression names; `None` if there is an escape in it that is none.
pub fn unescape(written: &str) -> Option<String> {
    let mut name = String::with_capacity(written.len());
    let mut rest = written;
    while !rest.is_empty() {
        let Some(word) = escaped_word(rest) else {
            let n = rest.chars().next().map_or(0, char::len_utf8);
            name.push_str(&rest[..n]);
            rest = &rest[n..];
            continue;
        };
        let sequence = &rest[..word.len() + 4];
        match ESCAPES.iter().find(|(_, it)| *it == sequence) {
            Some((plain, _)) => name.push_str(plain),
            // Such a word is escaped as a whole.
            None if is_reserved(word) && sequence == written => name.push_str(word),
            None => return None,
        }
        rest = &rest[sequence.len()..];
    }
    Some(name)
}

/// `word`, if the text begins with `__word__`.
fn escaped_word(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("__")?;
    let end = inner.find('_')?;
    (end > 0 && inner[end..].starts_with("__")).then(|| &inner[..end])
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn names_that_are_no_identifiers_are_written_another_way() {
        let rows = [
            ("spec", Some("spec")),
            ("a_b", Some("a_b")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("_a", Some("_a")),
            ("a.b", Some("a__dot__b")),
            ("a-b", Some("a__dash__b")),
            ("a/b", Some("a__slash__b")),
            ("-", Some("__dash__")),
            ("namespace", Some("__namespace__")),
            ("for", Some("__for__")),
            ("forest", Some("forest")),
            ("__for__", Some("__underscores__for__underscores__")),
            ("", None),
            ("1a", None),
            ("a b", None),
            ("ä", None),
            ("$ref", None),
        ];
        for (name, written) in rows {
            assert_eq!(escape(name).as_deref(), written, "{name}");
            if let Some(written) = written {
                assert_eq!(unescape(written).as_deref(), Some(name), "{written}");
            }
        }
    }

    #[test]
    fn what_only_looks_like_an_escape_names_nothing() {
        assert_eq!(unescape("a__in__b"), None);
        assert_eq!(unescape("__star__"), None);
        assert_eq!(unescape("a__b").as_deref(), Some("a__b"));
    }
}
