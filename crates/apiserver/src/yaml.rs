//! YAML bodies become JSON at the border; nothing behind it knows YAML. What it costs is bounded by
//! what was sent: aliases stand for no more than a body of that size could have spelt out.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options, alias_limits, budget, options};

/// Less than what JSON may have: reading YAML takes twenty kilobytes of stack per level when it is
/// not optimized.
const DEPTH_MAX: usize = 64;
/// What aliases may repeat in any body, however small.
const REPEATED_MIN: usize = 4_096;

/// Of what is said twice, the last counts.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|err| err.to_string())?;
    let options = options(bytes.len(), DuplicateKeyPolicy::LastWins);
    serde_saphyr::from_str_with_options(text, options).map_err(|err| err.to_string())
}

/// The first thing that YAML, or JSON, says twice, in upstream's words.
pub(crate) fn duplicate(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let options = options(bytes.len(), DuplicateKeyPolicy::Error);
    let parsed: Result<Value, _> = serde_saphyr::from_str_with_options(text, options);
    match parsed.err()?.without_snippet() {
        Error::DuplicateMappingKey { key, location } => {
            let key = key.as_deref().unwrap_or_default();
            let line = location.line();
            Some(format!("yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map"))
        }
        _ => None,
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
            }
            for text in [65, 127, 1_000].into_iter().flat_map(deep) {
                parse(text.as_bytes()).expect_err("too deep");
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
