//! Schedules in both versions: v1 has a text, v2 the five fields by name. Pure.

use serde_json::{Map, Value, json};

/// The fields of cron, in the order of the text.
const FIELDS: [&str; 5] = ["minute", "hour", "dayOfMonth", "month", "dayOfWeek"];

/// Short words for schedules, and their fields.
const WORDS: [(&str, &str); 7] = [
    ("@annually", "0 0 1 1 *"),
    ("@daily", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
    ("@midnight", "0 0 * * *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@yearly", "0 0 1 1 *"),
];

/// With one blank between fields, and words written out.
pub(crate) fn written_out(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let word = WORDS.iter().find(|(word, _)| *word == text);
    word.map_or(text, |(_, fields)| (*fields).to_owned())
}

/// v1 to v2. What has no five fields stays a text.
pub(crate) fn to_parts(text: &str) -> Value {
    let fields: Vec<&str> = text.split(' ').collect();
    let has_five = fields.len() == FIELDS.len() && fields.iter().all(|it| !it.is_empty());
    // `TZ=...` in front stands for a field that is missing behind.
    if !has_five || text.starts_with(['@', 'T', 'C']) {
        return json!({ "text": text });
    }
    let parts = FIELDS.iter().zip(fields).map(|(name, it)| ((*name).to_owned(), json!(it)));
    Value::Object(parts.collect::<Map<_, _>>())
}

/// v2 to v1. A field that is not said fits always.
pub(crate) fn to_text(parts: &Value) -> String {
    if let Some(text) = parts["text"].as_str() {
        return text.to_owned();
    }
    FIELDS.map(|it| parts[it].as_str().unwrap_or("*")).join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{to_parts, to_text, written_out};

    #[test]
    fn texts_are_the_same_after_both_ways() {
        for text in ["*/5 * * * *", "0 0 1 1 *", "@every 5m", "often", "* *", "", "0  0 1 1 *"] {
            assert_eq!(to_text(&to_parts(text)), text);
        }
        assert_eq!(
            to_parts("*/5 1 2 3 4"),
            json!({"minute": "*/5", "hour": "1", "dayOfMonth": "2", "month": "3", "dayOfWeek": "4"})
        );
        assert_eq!(to_parts("TZ=UTC 1 2 3 4"), json!({"text": "TZ=UTC 1 2 3 4"}));
        assert_eq!(to_text(&json!({"minute": "30"})), "30 * * * *");
    }

    #[test]
    fn words_and_blanks_are_written_out() {
        assert_eq!(written_out(" 0   1 * * * "), "0 1 * * *");
        assert_eq!(written_out("@daily"), "0 0 * * *");
        assert_eq!(written_out("@every 5m"), "@every 5m");
    }
}
