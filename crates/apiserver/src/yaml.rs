//! YAML bodies become JSON at the border; nothing behind it knows YAML. What it costs is bounded by
//! what was sent: aliases stand for no more than a body of that size could have spelt out.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options, Spanned, alias_limits, budget, options};

/// Less than what JSON may have: reading YAML takes twenty kilobytes of stack per level when it is
/// not optimized.
const DEPTH_MAX: usize = 64;
/// What aliases may repeat in any body, however small.
const REPEATED_MIN: usize = 4_096;
/// Of keys that are there twice, how many are told.
const REPEATS_MAX: usize = 100;

/// Of what is said twice, the last counts.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|err| err.to_string())?;
    let options = options(bytes.len(), DuplicateKeyPolicy::LastWins);
    serde_saphyr::from_str_with_options(text, options).map_err(|err| err.to_string())
}

/// What YAML, or JSON, says twice, in upstream's words and order: what is wrong inside of a value
/// comes before its key.
pub(crate) fn duplicate(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut problems = Vec::new();
    let read = serde_saphyr::with_deserializer_from_str_with_options(
        text,
        options(bytes.len(), DuplicateKeyPolicy::LastWins),
        |yaml| Repeats(&mut problems).deserialize(yaml),
    );
    if problems.is_empty() && read.is_ok() {
        // Of keys that are numbers the last is all that comes out of the reader.
        let options = options(bytes.len(), DuplicateKeyPolicy::Error);
        let parsed: Result<Value, _> = serde_saphyr::from_str_with_options(text, options);
        if let Err(err) = parsed
            && let Error::DuplicateMappingKey { key, location } = err.without_snippet()
        {
            let key = key.as_deref().unwrap_or_default();
            problems.push(format!("\n  line {}: key {key} already set in map", location.line()));
        }
    }
    (!problems.is_empty()).then(|| format!("yaml: unmarshal errors:{}", problems.concat()))
}

/// Walks through a value and writes down what stands in a map twice.
struct Repeats<'a>(&'a mut Vec<String>);

impl Repeats<'_> {
    fn note(&mut self, line: u64, key: &Value) {
        // As many as upstream tells of JSON.
        if self.0.len() < REPEATS_MAX {
            self.0.push(format!("\n  line {line}: key {key} already set in map"));
        }
    }
}

impl<'de> DeserializeSeed<'de> for Repeats<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Repeats<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<Spanned<Value>>()? {
            map.next_value_seed(Repeats(self.0))?;
            if !seen.insert(key.value.to_string()) {
                self.note(key.defined.line(), &key.value);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Repeats(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i128<E>(self, _: i128) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u128<E>(self, _: u128) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }
}

fn options(n_bytes: usize, duplicate_keys: DuplicateKeyPolicy) -> Options {
    let n_bytes = n_bytes.max(REPEATED_MIN);
    options! {
        duplicate_keys: duplicate_keys,
        budget: budget! {
            max_depth: DEPTH_MAX,
            max_events: n_bytes * 4,
            max_nodes: n_bytes * 2,
            max_total_scalar_bytes: n_bytes * 2,
            max_documents: 1,
        },
        alias_limits: alias_limits! {
            max_total_replayed_events: n_bytes,
            max_replay_stack_depth: 16,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{duplicate, parse};

    #[test]
    fn what_is_said_twice_counts_last_and_is_told() {
        let text = b"spec:\n  a: 1\n  b: {c: 2}\n  a: 3\n";
        assert_eq!(parse(text).expect("YAML").to_string(), r#"{"spec":{"a":3,"b":{"c":2}}}"#);
        let told = "yaml: unmarshal errors:\n  line 4: key \"a\" already set in map";
        assert_eq!(duplicate(text).as_deref(), Some(told));
        let told = "yaml: unmarshal errors:\n  line 1: key \"c\" already set in map";
        assert_eq!(duplicate(br#"{"a":{"c":1,"c":2}}"#).as_deref(), Some(told));
        assert_eq!(duplicate(b"a: 1\nb: 2\n"), None);
        assert_eq!(duplicate(b"a: ["), None);
    }

    #[test]
    fn all_that_is_said_twice_is_told() {
        let check = |text: &str, expected: &[&str]| {
            let told = expected.iter().map(|it| format!("\n  line {it} already set in map"));
            let told = format!("yaml: unmarshal errors:{}", told.collect::<String>());
            assert_eq!(duplicate(text.as_bytes()).as_deref(), Some(told.as_str()), "{text}");
        };
        check("a: 1\na: 2\na: 3\n", &["2: key \"a\"", "3: key \"a\""]);
        check("a:\n- b: 1\n  b: 2\nc: 1\nc: 2\n", &["3: key \"b\"", "5: key \"c\""]);
        // What is inside comes first.
        check("a: 1\na: {b: 1,\n  b: 2}\n", &["3: key \"b\"", "2: key \"a\""]);
        check("\"a\": 1\n'a': 2\n", &["2: key \"a\""]);
        check("true: 1\ntrue: 2\n", &["2: key true"]);
        check("1: a\n1: b\n", &["2: key 1"]);
        // What an alias stands for is read there, too.
        check("a: &x {b: 1, b: 2}\nc: *x\n", &["1: key \"b\"", "1: key \"b\""]);
        let many: String = (0..300).map(|it| format!("a{}: 1\n", it % 50)).collect();
        assert_eq!(duplicate(many.as_bytes()).map(|it| it.lines().count()), Some(101));
        assert_eq!(duplicate(b"a: {b: 1}\nc: {b: 1}\n"), None);
    }

    #[test]
    fn nesting_takes_no_more_stack_than_there_is() {
        let deep = |levels: usize| {
            let (open, close) = ("[".repeat(levels), "]".repeat(levels));
            let block: String = (0..levels).map(|it| format!("{}a:\n", " ".repeat(it))).collect();
            [format!("a: {open}{close}"), format!("{block}{} b", " ".repeat(levels))]
        };
        // Less than what requests are answered on.
        let thread = std::thread::Builder::new().stack_size(1536 * 1024).spawn(move || {
            for text in deep(60) {
                parse(text.as_bytes()).expect("not too deep");
                assert_eq!(duplicate(text.as_bytes()), None);
            }
            for text in [65, 127, 1_000].into_iter().flat_map(deep) {
                parse(text.as_bytes()).expect_err("too deep");
                assert_eq!(duplicate(text.as_bytes()), None);
            }
            parse("[".repeat(1_000_000).as_bytes()).expect_err("too deep");
        });
        thread.expect("a thread").join().expect("it ends well");
    }

    #[test]
    fn aliases_work_and_do_not_explode() {
        let shared = parse(b"a: &a [1, 2]\nb: *a\nc: *a\n").expect("YAML");
        assert_eq!(shared.to_string(), r#"{"a":[1,2],"b":[1,2],"c":[1,2]}"#);
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..9 {
            let before = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(",")));
        }
        parse(bomb.as_bytes()).expect_err("a thousand million letters");
        // One long text many times.
        let many = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), ["*a"; 5_000].join(","));
        parse(many.as_bytes()).expect_err("half a gigabyte");
    }
}
